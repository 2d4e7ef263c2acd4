"""The patterns of `polychrome-secrets/1`: what a credential looks like, and the literals that give it away.

Taken over from Yelp's detect-secrets 1.5.0 (Apache-2.0; tests/sources/test_redaction.py demands that every token its
detectors know is struck here too) and completed with the key formats of the model providers. A rule is looked for
only in text that contains one of its literals: finding the literals is what costs, once per append.

Left out on purpose: entropy and "password =" guesses, public IP addresses (they strike ordinary code).
"""

import re
from typing import Final, NamedTuple


class Rule(NamedTuple):
    """A kind of credential: its name in `[redacted:NAME]`, the literals, the pattern; group 1, if any, is struck."""

    name: str
    literals: tuple[str, ...]
    pattern: re.Pattern[str]


def _rule(name: str, literals: str, pattern: str, flags: int = 0) -> Rule:
    return Rule(name, tuple(literals.split()), re.compile(pattern, flags | re.ASCII))


_GLUE: Final = r"""["']?\]?\s{0,4}(?:=|:|:=|=>|::)\s{0,4}["']?"""

SECRETS: Final[tuple[Rule, ...]] = (
    _rule(
        "private-key",
        "-----BEGIN PuTTY-User-Key-File",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,16000}"
        r"(?:-----END [A-Z0-9 ]{0,40}-----)?|PuTTY-User-Key-File-\d[\s\S]{0,16000}",
    ),
    _rule("aws-access-key", "AKIA ASIA ABIA ACCA A3T", r"\b(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}\b"),
    _rule(
        "aws-secret-key",
        "aws AWS",
        r"aws.{0,20}?(?:key|pwd|pw|password|pass|token).{0,20}?['\"= ]([0-9a-zA-Z/+]{40})(?![0-9a-zA-Z/+])",
        re.IGNORECASE,
    ),
    _rule("azure-storage-key", "AccountKey=", r"AccountKey=([a-zA-Z0-9+/=]{88})"),
    _rule("artifactory", "AKC", r"(?:(?<=[\s=:\"])|^)AKC[a-zA-Z0-9]{10,}(?=[\s\"]|$)"),
    _rule("basic-auth", "://", r"://[^:/?#\[\]@!$&'()*+,;=\s]{1,256}:([^:/?#\[\]@!$&'()*+,;=\s]{1,256})@"),
    _rule(
        "bearer",
        "uthorization",
        r"\bauthorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:bearer|token|basic)\s{1,4}([a-z0-9._~+/=-]{16,})",
        re.IGNORECASE,
    ),
    _rule("github", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{22,})"),
    _rule(
        "gitlab",
        "glpat- gldt- glft- glsoat- glrt- glcbt- glimt- glptt- glagent- gloas- GR1348941",
        r"\b(?:gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-|GR1348941)[A-Za-z0-9_-]{20,1024}",
    ),
    _rule("jwt", "eyJ", r"\beyJ[A-Za-z0-9_=-]{8,}\.[A-Za-z0-9_=-]{8,}\.?[A-Za-z0-9_.+/=-]*"),
    _rule("npm", "npm_ :_authToken", r"\bnpm_[A-Za-z0-9]{30,}|(?<=:_authToken=)\s*[A-Za-z0-9-]{30,}"),
    _rule("model-provider", "sk-", r"\bsk-[A-Za-z0-9_-]{20,}"),
    _rule("google", "AIza", r"\bAIza[0-9A-Za-z_-]{35}"),
    _rule("hugging-face", "hf_", r"\bhf_[A-Za-z]{30,}"),
    _rule("pypi", "pypi-Ag", r"\bpypi-Ag[A-Za-z0-9_-]{70,}"),
    _rule("sendgrid", "SG.", r"\bSG\.[a-zA-Z0-9_-]{22}\.[a-zA-Z0-9_-]{43}"),
    _rule(
        "slack",
        "xox hooks.slack.com",
        r"\bxox[abepors]-(?:\d+-)+[a-z0-9]+|https://hooks\.slack\.com/services/T\w+/B\w+/\w+",
        re.IGNORECASE,
    ),
    _rule("square", "sq0csp-", r"\bsq0csp-[0-9A-Za-z\\_-]{43}"),
    _rule("stripe", "k_live_ k_test_", r"\b[rs]k_(?:live|test)_[0-9a-zA-Z]{24,}"),
    _rule("mailchimp", "-us", r"\b[0-9a-f]{32}-us[0-9]{1,2}\b"),
    _rule("discord", "Discord discord DISCORD", r"\b[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27}"),
    _rule("telegram", ":AA", r"\b\d{8,10}:AA[0-9A-Za-z_-]{33}"),
    _rule("twilio", "twilio Twilio TWILIO", r"\b(?:AC|SK)[a-z0-9]{32}\b"),
    _rule(
        "ibm-cloud",
        "cloudant CLOUDANT softlayer SOFTLAYER ibm_ IBM_ ibm-",
        r"(?:cloudant|softlayer|ibm)[a-z_-]{0,24}(?:key|pwd|pw|password|pass|token)" + _GLUE + r"([a-z0-9_-]{24,64})\b",
        re.IGNORECASE,
    ),
)
