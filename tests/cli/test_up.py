"""`polyc up`, as a person meets it: what it prints can be pasted, and SIGTERM ends it cleanly."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from polyc.cli.sample import write_sample
from polyc.cli.sample.stories import STORIES
from tests.cli.runner import polyc
from tests.support.ports import free_pair

LOOKS_MAX = 60  # each look is a whole query of its own and takes about a second
COMMITTED = sum(turn.end != "crashed" for story in STORIES for turn in story.turns)


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[str]
    said: str
    port: int
    root: Path
    home: Path

    @property
    def session(self) -> str:
        found = re.search(r"POLYCHROME_SESSION=(\S+)", self.said)
        assert found, self.said
        return found[1]


def curl(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        ["curl", "-sS", "-w", "\n%{http_code}", *arguments], capture_output=True, text=True, check=True
    )
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("up")
    home, root = folder / "home", folder / "root"
    write_sample(home)
    assert polyc(root, "import", "--final", str(home)).code == 0
    port = free_pair()
    (folder / "msgspec.py").write_text("raise SystemExit('what lies in the working folder was run')\n")
    command = [sys.executable, "-P", "-m", "polyc.cli.main", "--data-root", str(root), "up", "--port", str(port)]
    # A home of its own: whoever runs the tests has histories, and they are nobody's business here.
    environment = {key: value for key, value in os.environ.items() if key not in ("CLAUDE_CONFIG_DIR", "CODEX_HOME")}
    environment["HOME"] = str(home)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        yield Running(process, said, port, root, home)
        if process.poll() is None:
            process.terminate()


def test_the_printed_lines_can_be_pasted(running: Running) -> None:
    assert running.process.poll() is None, running.said
    pasted = "\n".join(
        line for line in running.said.splitlines() if line.startswith(("export ", "GRANT=", "TOKEN=", "curl "))
    )
    done = subprocess.run(["bash", "-eu", "-c", pasted], capture_output=True, text=True, check=True)
    grant, *frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert set(grant) == {"token", "expires_at_ms"}
    assert isinstance(grant["expires_at_ms"], int)
    assert "schema" in frames[0]
    assert frames[-1]["trailer"]["truncated"] is False
    assert (
        len([row for frame in frames for row in frame.get("batch", {}).get("rows", [])])
        == frames[-1]["trailer"]["row_count"]
        > 0
    )


def test_a_session_mints_a_grant_that_the_edge_accepts(running: Running) -> None:
    control, edge = f"http://127.0.0.1:{running.port}", f"http://127.0.0.1:{running.port + 1}"
    execute = f"{edge}/polychrome.query.v1.QueryService/Execute"
    status, body = curl("-X", "POST", f"{control}/api/query/grant", "-H", f"authorization: Bearer {running.session}")
    assert status == 200, body
    token = json.loads(body)["token"]
    status, body = curl(
        execute, "-H", f"authorization: Bearer {token}", "-d", '{"sql":"SELECT COUNT(*) AS n FROM turns"}'
    )
    assert status == 200, body
    assert f"[{COMMITTED}]" in body.replace('"', "")
    status, body = curl(execute, "-H", f"authorization: Bearer {token}", "-d", '{"sql":"SELECT * FROM signer_keys"}')
    assert status == 404
    assert "code" in json.loads(body.splitlines()[-1])
    status, _ = curl(execute, "-H", "authorization: Bearer nonsense", "-d", '{"sql":"SELECT 1"}')
    assert status == 401
    status, _ = curl(execute, "-d", '{"sql":"SELECT 1"}')
    assert status == 401
    status, _ = curl("-X", "POST", f"{control}/api/query/admin-grant", "-H", f"authorization: Bearer {running.session}")
    assert status == 403


def test_commands_work_beside_the_server(running: Running) -> None:
    rows = polyc(running.root, "query", "--admin", "--format", "json", "SELECT COUNT(*) AS n FROM turns").rows
    assert rows == [{"n": COMMITTED}]
    assert json.loads(polyc(running.root, "status", "--json").out)["generation"] >= 1


def test_every_key_is_rotated_under_the_running_services(running: Running) -> None:
    """The old ones end one entry later: whoever had not taken up the new key would be refused from then on."""
    for role in ("control", "grant", "harness", "edge", "importer", "query", "projector", "log"):
        said = polyc(running.root, "keys", "rotate", role, "--overlap", "1")
        assert said.code == 0, said.err
    states = [row["state"] for row in polyc(running.root, "keys", "list", "--format", "json").rows]
    assert states.count("ended") >= 7
    test_a_session_mints_a_grant_that_the_edge_accepts(running)
    test_what_an_agent_writes_becomes_a_row_while_it_serves(running)
    assert polyc(running.root, "verify", "--signatures").code == 0


def test_what_an_agent_writes_becomes_a_row_while_it_serves(running: Running) -> None:
    history = next(
        path for path in sorted(running.home.rglob("*.jsonl")) if b"Cents that went missing" in path.read_bytes()
    )
    records = [json.loads(line) for line in history.read_text().splitlines()]
    answer = next(record for record in reversed(records) if record["type"] == "assistant")
    number, question = len(records), f"Is the price list right after {len(records)}?"
    frame = {key: value for key, value in answer.items() if key not in ("message", "requestId")}
    prompt = {
        **frame,
        "type": "user",
        "uuid": f"live-{number}",
        "message": {"role": "user", "content": question},
    }
    said = {**answer["message"], "id": f"msg_{number}", "content": [{"type": "text", "text": "It is."}]}
    reply = {**frame, "uuid": f"reply-{number}", "parentUuid": f"live-{number}", "requestId": f"req_{number}"}
    reply["message"] = said
    with history.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in (prompt, reply))
    sql = f"SELECT COUNT(*) AS n FROM messages WHERE text = 'Is the price list right ' || 'after {number}?'"
    for _ in range(LOOKS_MAX):
        if polyc(running.root, "query", "--admin", "--format", "json", sql).rows == [{"n": 1}]:
            return
    pytest.fail("the turn never became a row")


def test_a_second_up_on_the_same_ports_is_refused(running: Running) -> None:
    assert running.process.poll() is None, "or the second would serve, here, for ever"
    said = polyc(running.root, "up", "--port", str(running.port))
    assert said.code == 1
    assert "is taken" in said.err


def test_sigterm_ends_everything_cleanly(running: Running) -> None:
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
    assert len(children) == 5  # journal, projector, Control, edge, and the watcher of this home
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0
    assert not [child for child in children if _lives(int(child))]
    assert polyc(running.root, "verify").code == 0


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
