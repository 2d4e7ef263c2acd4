"""Small programs that tests run as harnesses. Each reads its turn from stdin and says what its name promises."""

import sys
from pathlib import Path

PREAMBLE = """
import json, os, sys, time, urllib.request, urllib.error

turn = json.loads(sys.stdin.readline())

def say(**event):
    sys.stdout.write(json.dumps(event) + "\\n")
    sys.stdout.flush()

def answer(text, **fields):
    say(type="message", role="assistant", material_origin="assistant_authored",
        blocks=[{"type": "text", "text": text}], **fields)

def done(status="completed", **fields):
    say(type="done", status=status, **fields)

def post(path, credential=None, **body):
    request = urllib.request.Request(
        turn["control"]["url"] + path, data=json.dumps(body).encode(), method="POST",
        headers={"authorization": "Bearer " + (credential or turn["control"]["credential"]),
                 "content-type": "application/json"})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)

"""

PROGRAMS = {
    "echo": 'answer("you said: " + turn["prompt"]); done()',
    "talk": """
say(type="model_call", call_id="c1", provider="test", model="tiny")
answer("thinking about it", call_id="c1")
say(type="tool_call", tool_call_id="t1", name="read", arguments='{"path": "a.txt"}')
say(type="tool_result", tool_call_id="t1", text="hello", is_error=False)
say(type="usage", call_id="c1", provider="test", model="tiny", input_tokens=3, output_tokens=5)
done()""",
    "fails": 'done("failed", failure_code="no_luck", failure_message="it did not work")',
    "silent": "",
    "garbage": 'answer("first"); print("not json")',
    "after_done": 'done(); answer("one more")',
    "crashes": 'answer("before"); sys.exit(3)',
    "killed": 'answer("before"); os.kill(os.getpid(), 9)',
    "other_turn": 'answer("x", turn_id="somebody-elses")',
    "as_person": 'say(type="message", role="user", material_origin="human_authored", blocks=[])',
    "marker": 'say(type="turn_complete", turn={"conversation_id": "x", "turn_id": "y"}, status="completed")',
    "hangs": 'answer("waiting"); time.sleep(600)',
    "environment": "answer(json.dumps(sorted(os.environ))); done()",
    "secret": 'answer("the key is AKIA" + "ABCDEFGHIJKLMNOP"); done()',
    "withheld": 'answer("for nobody", withheld="policy", message_id="m1"); answer("for all"); done()',
    "approval": """
say(type="tool_call", tool_call_id="t1", name="deploy", arguments='{"to": "production"}')
status, answered = post("/api/edge/approvals", request_id="t1", tool_name="deploy", wait_s=float(turn["prompt"]))
answer(f"{status} {answered.get('outcome', answered.get('code'))}")
done()""",
    "edges": """
results = [
    post("/api/edge/tool-calls", tool_call_id="t9", name="fetch", arguments='{"url": "x"}', server="gate"),
    post("/api/edge/tool-results", tool_call_id="t9", text="fetched", is_error=False),
    post("/api/edge/refusals", request_id="t10", stage="policy", tool_name="rm", rule="no_deletes"),
    post("/api/edge/identities", persona_id="ada", identity="ada@example.org", asserted_by="idp", edge="chat", method="oidc"),
]
answer("to be withheld", message_id="m1")
time.sleep(0.2)
results.append(post("/api/edge/withheld", message_id="m1", reason="policy"))
results.append(post("/api/edge/tool-calls", tool_call_id="t11", name="x", conversation_id="conv-other"))
answer(json.dumps([status for status, _ in results]))
done()""",
}

# Programs of the scenarios over a whole deployment.
DEPLOYED = {
    "agent": """
say(type="model_call", call_id="c1", provider="test", model="tiny")
say(type="tool_call", tool_call_id="t1", name="look", arguments='{"at": "everything"}')
say(type="tool_result", tool_call_id="t1", text="seen", is_error=False)
post("/api/edge/refusals", request_id="t2", stage="policy", tool_name="rm", rule="no_deletes")
post("/api/edge/identities", persona_id=turn["persona_id"], identity="x", asserted_by="idp", edge="chat", method="oidc")
answer("for nobody", message_id="w", withheld="policy")
answers = [post("/api/tools/" + name, **body) for name, body in json.loads(turn["prompt"])]
answer(json.dumps(answers))
say(type="usage", call_id="c1", provider="test", model="tiny", input_tokens=3, output_tokens=5)
done()""",
    "gated": """
post("/api/edge/refusals", request_id="gated-" + turn["turn_id"], stage="policy", tool_name="rm", rule="kept")
answer("before")
while not os.path.exists(turn["prompt"]):
    time.sleep(0.02)
answer("after")
done()""",
    "all": """
given = json.loads(turn["prompt"])
if not given:
    done("failed", failure_code="nothing_given")
    sys.exit()
open(given["leak"], "w").write(turn["control"]["credential"])
say(type="session_updated", title="everything", title_source="harness")
say(type="context_snapshot", boundary="session_start", pre_tokens=10, call_id="c1")
say(type="model_call", call_id="c1", provider="test", model="tiny")
say(type="tool_call", tool_call_id="t1", name="Read", action="file_read", path="a.py", arguments='{"path": "a.py"}')
say(type="tool_result", tool_call_id="t1", text="seen", is_error=False)
say(type="tool_call", tool_call_id="x", name="pay", arguments="{}")
post("/api/edge/approvals", request_id="x", tool_name="pay", wait_s=60.0)
paying = post("/api/edge/payments", tool_call_id="x", amount_base_units="10000", asset="usdc", tool_name="pay",
    network=given["network"], payee="0xshop", resource=given["resource"], payer=given["payer"], decimals=6)
settled = post("/api/edge/receipts", tool_call_id="x", format="jws", receipt=given["receipt"])
post("/api/edge/identities", persona_id="ada", identity="ada@example.org", asserted_by="idp", edge="chat", method="oidc")
post("/api/edge/refusals", request_id="t10", stage="policy", tool_name="rm", rule="no_deletes")
answer("kept back", withheld="policy", message_id="w1")
say(type="usage", call_id="c1", provider="test", model="tiny", input_tokens=3, output_tokens=5)
answer(json.dumps([paying[1], settled[1]]))
done()""",
}


def harnesses(folder: Path, *, programs: dict[str, str] = PROGRAMS, **changes: dict) -> dict:
    """The content of harnesses.json for the programs, written to the folder."""
    configs = {}
    for name, program in programs.items():
        file = folder / f"{name}.py"
        file.write_text(PREAMBLE + program)
        configs[name] = {"kind": "subprocess", "command": [sys.executable, str(file)], **changes.get(name, {})}
    return configs
