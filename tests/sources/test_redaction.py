"""What must never reach the journal does not; what joins events and makes JSON stays whole."""

import importlib
import inspect
import json
import pkgutil

import msgspec
import pytest
from detect_secrets import plugins
from detect_secrets.plugins.base import RegexBasedDetector

from facts import codec
from facts.events import Message, ToolCall
from sources.redaction import POLICY, REDACTION, Redactor, is_suspect
from tests.sources.counting import event_of
from tests.sources.histories import ClaudeFile, tool
from tests.sources.loop import Loop

# Invented tokens, put together here so that no scanner takes this file for a leak.
TOKENS = {
    "ArtifactoryDetector": ["=AKC" + "a1b2c3d4e5f6"],
    "AWSKeyDetector": ["AKIA" + "QWERTYUIOP123456", "aws_secret_key = '" + "a1B2" * 10 + "'"],
    "AzureStorageKeyDetector": ["AccountKey=" + "ab12" * 22],
    "BasicAuthDetector": ["https://kim:" + "hunter2hunter2" + "@ferry.example"],
    "CloudantDetector": ["cloudant_apikey = '" + "0123abcd" * 8 + "'"],
    "DiscordBotTokenDetector": [
        "discord " + "M" + "a1B2c3D4e5F6g7H8i9J0k1L" + "." + "abcDEF" + "." + "a1B2c3D4e5F6g7H8i9J0k1L2m3N"
    ],
    "GitHubTokenDetector": ["ghp_" + "a1B2c3D4" * 4 + "abcd"],
    "GitLabTokenDetector": ["glpat-" + "a1B2c3D4e5F6g7H8i9J0"],
    "IbmCloudIamDetector": ["ibm_cloud_iam_key = '" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2"[:44] + "'"],
    "IbmCosHmacDetector": ["ibm_cos_hmac_secret_access_key = '" + "0123abcd" * 6 + "'"],
    "JwtTokenDetector": ["eyJ" + "hbGciOiJIUzI1NiJ9" + "." + "eyJzdWIiOiIxMjM0In0" + "." + "c2lnbmF0dXJl"],
    "MailchimpDetector": ["0123abcd" * 4 + "-us12"],
    "NpmDetector": ["//npm.example/:_authToken=" + "npm_" + "a1B2c3D4" * 4 + "abcd"],
    "OpenAIDetector": ["sk-" + "a1B2c3D4e5F6g7H8i9J0" + "T3Blbk" + "FJ" + "a1B2c3D4e5F6g7H8i9J0"],
    "PrivateKeyDetector": ["-----BEGIN RSA " + "PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"],
    "PypiTokenDetector": ["pypi-" + "AgEIcHlwaS5vcmc" + "a1B2c3D4" * 9],
    "SendGridDetector": ["SG." + "a1B2c3D4e5F6g7H8i9J0k1" + "." + "a1B2c3D4" * 5 + "abc"],
    "SlackDetector": ["xoxb-" + "1234-5678-" + "a1b2c3d4", "https://hooks.slack.com/services/" + "T12/B34/abcDEF"],
    "SoftlayerDetector": ["softlayer_api_key = '" + "0123abcd" * 8 + "'"],
    "SquareOAuthDetector": ["sq0csp-" + "a1B2c3D4" * 5 + "abc"],
    "StripeDetector": ["sk_live_" + "a1B2c3D4" * 3],
    "TelegramBotTokenDetector": ["12345678:" + "AA" + "a1B2c3D4" * 4 + "a"],
    "TwilioKeyDetector": ["twilio " + "SK" + "0123abcd" * 4],
}
LEFT_OUT = {"IPPublicDetector", "RegexBasedDetector"}  # the first strikes ordinary code, the second is their base


def detectors():
    for module in pkgutil.iter_modules(plugins.__path__):
        loaded = importlib.import_module(f"detect_secrets.plugins.{module.name}")
        for name, kind in inspect.getmembers(loaded, inspect.isclass):
            if issubclass(kind, RegexBasedDetector) and kind.__module__ == loaded.__name__:
                yield name, kind


def payload_of(text: str) -> bytes:
    return msgspec.json.encode({"type": "message", "blocks": [{"text": f"before\n{text}\nafter"}]})


@pytest.mark.parametrize(("name", "token"), [(name, token) for name, tokens in TOKENS.items() for token in tokens])
def test_a_token_that_the_library_knows_is_struck(name, token):
    kind = dict(detectors())[name]
    assert any(rule.search(token) for rule in kind().denylist), "the table fits the library"
    assert is_suspect(payload_of(token))
    redactor = Redactor()
    (cleaned,) = redactor.clean([payload_of(token)])
    value = json.loads(cleaned)["blocks"][0]["text"]
    assert "[redacted:" in value
    assert not any(rule.search(value) for rule in kind().denylist if rule.pattern != "BEGIN RSA PRIVATE KEY")
    assert value.startswith("before\n")
    assert value.endswith("\nafter")
    assert redactor.struck.total() == 1


def test_every_detector_of_the_library_is_answered():
    assert {name for name, _kind in detectors()} == set(TOKENS) | LEFT_OUT


@pytest.mark.parametrize(
    "text",
    [
        "from secrets import token_urlsafe  # sketch of task-scheduler",
        "git clone git@git.example.org:kim/ferry.git",
        "@pytest.fixture\ndef bearer(authorization): ...",
        "https://ferry.example/path?x=1#y",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "scp kim@host.example:/tmp/x .",
        "matrix @ other.matrix",
    ],
)
def test_ordinary_text_is_left_alone(text):
    redactor = Redactor()
    assert redactor.clean([payload_of(text)]) == [payload_of(text)]
    assert not redactor.struck


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("see /home/kim/ferry/x.py", "see ~/ferry/x.py"),
        ("see /Users/kim.b/ferry", "see ~/ferry"),
        ("in /home/kim\nnext", "in ~\nnext"),
        (r"in C:\Users\kim\ferry", r"in ~\ferry"),
        ("the folder /home/ itself", "the folder /home/ itself"),
        ("-I/home/kim/include PATH=/bin:/home/kim/bin", "-I~/include PATH=/bin:~/bin"),
        ("src/ferry\n/home/kim/x", "src/ferry\n~/x"),
        ("\x1b[32m/home/kim/x\x1b[0m", "\x1b[32m~/x\x1b[0m"),
        ("file:///home/kim/x ssh://quay.example/home/kim/x", "file://~/x ssh://quay.example~/x"),
        ("/mnt/c/Users/kim/x /var/home/kim/x /Volumes/Data/Users/kim/x", "/mnt/c~/x /var~/x /Volumes/Data~/x"),
        ("/tmp/home/.local/share/x", "/tmp/home/.local/share/x"),
        ("see src/home/page/index.html, (b/home/kim/x)", "see src/home/page/index.html, (b~/x)"),
        ("https://ferry.example/home/fares/1", "https://ferry.example/home/fares/1"),
        ("http://localhost:3000/Users/fares/1", "http://localhost:3000/Users/fares/1"),
        ("ask kim@example.org, please", "ask [redacted:email], please"),
        ("Authorization: Bearer " + "a1b2c3d4e5f6a7b8", "Authorization: Bearer [redacted:bearer]"),
    ],
)
def test_homes_mails_and_bearers_are_struck(text, cleaned):
    (payload,) = Redactor().clean([payload_of(text)])
    assert json.loads(payload)["blocks"][0]["text"] == f"before\n{cleaned}\nafter"


def test_secrets_in_the_json_of_arguments_are_struck_across_escapes():
    token = "ghp_" + "a1B2c3D4" * 4 + "abcd"
    arguments = json.dumps({"command": f"export A=1\n{token}\n", "env": {token: "kim@example.org"}})
    event = ToolCall(id="x", tool_call_id="t", name="Bash", arguments=arguments)
    (payload,) = Redactor().clean([codec.encode(event).payload])
    inner = json.loads(json.loads(payload)["arguments"])
    assert inner == {"command": "export A=1\n[redacted:github]\n", "env": {"[redacted:github]": "[redacted:email]"}}


def test_names_that_join_events_are_never_struck():
    token = "sk-" + "a1B2c3D4e5F6g7H8i9J0"
    event = Message(
        id=token, message_id=token, call_id=token, role="assistant", material_origin="unknown", author=token
    )
    (payload,) = Redactor().clean([codec.encode(event).payload])
    value = json.loads(payload)
    assert (value["id"], value["message_id"], value["call_id"]) == (token,) * 3
    assert value["author"] == "[redacted:model-provider]"


def test_what_was_struck_is_counted_by_kind_and_stands_nowhere(tmp_path):
    token = "ghp_" + "a1B2c3D4" * 4 + "abcd"
    f = ClaudeFile("s")
    f.say(f"Use {token}, says kim@example.org.")
    f.answer("m", tool("t", command=f"curl -H 'Authorization: token {token}' x"), stop="tool_use")
    f.result("t", f"{token} in /home/kim/x")
    f.answer("m2", "Done.")
    loop = Loop()
    report, _ = loop.run(f.write(tmp_path), final=True)
    whole = b"".join(draft.payload for drafts in loop.journal.drafts().values() for draft in drafts)
    assert token.encode() not in whole
    assert b"kim" not in whole.replace(str(tmp_path).encode(), b"")
    struck = {kind: report.redacted[kind] for kind in ("github", "bearer", "email")}
    assert struck == {"github": 2, "bearer": 2, "email": 1}, "the command stands in the arguments and beside them"
    opened = event_of(next(iter(loop.journal.drafts().values()))[0])
    assert opened.redaction == REDACTION
    assert opened.redaction.policy == POLICY
    assert len(opened.redaction.version) == 16
