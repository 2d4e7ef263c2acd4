"""Two personas, three conversations, one shared, over real sockets of real processes: each sees exactly its own."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

import httpx
import pytest
from mcp.client import Client as McpClient
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.control.serving import Client

OWN = "SELECT DISTINCT partition FROM messages ORDER BY partition"


@pytest.fixture(scope="module")
def deployment(processes):
    return processes


@pytest.fixture(scope="module")
def people(deployment):
    return {
        name: Client(deployment.url, deployment.session(name, admin=name == "root")) for name in ("ada", "bob", "root")
    }


@pytest.fixture(scope="module")
def conversations(deployment, people):
    ada, bob = people["ada"], people["bob"]
    names = {"ada": ada.open(), "bob": bob.open(), "shared": ada.open()}
    ada.post(f"/api/conversations/{names['shared']}/participants", persona_id="bob")
    for owner, name in ((ada, "ada"), (bob, "bob"), (ada, "shared"), (bob, "shared")):
        assert owner.turn(names[name], "agent", prompt="[]")[-1]["status"] == "completed"
    everything = sorted([name] for name in names.values())
    deployment.settle(people["root"], OWN, everything, admin=True)
    deployment.settle(people["root"], "SELECT COUNT(*) FROM turns", [[4]], admin=True)
    return names


def test_each_persona_sees_exactly_its_own(deployment, people, conversations) -> None:
    for person, own in (("ada", ("ada", "shared")), ("bob", ("bob", "shared"))):
        wanted = sorted([conversations[name]] for name in own)
        assert deployment.ask(people[person], OWN) == wanted
        assert deployment.ask(people[person], "SELECT COUNT(*) FROM refusals") == [[3]]
        assert deployment.ask(people[person], "SELECT COUNT(*) FROM messages WHERE text LIKE '%nobody%'") == [[0]]
    assert len(deployment.ask(people["root"], OWN, admin=True)) == 3
    assert deployment.ask(people["root"], "SELECT COUNT(*) FROM messages_withheld", admin=True) == [[4]]
    assert deployment.ask(people["root"], "SELECT COUNT(*) FROM identity_provenance", admin=True) == [[4]]


@pytest.mark.parametrize("table", ["identity_provenance", "messages_withheld", "personas", "credential_history"])
def test_a_participant_cannot_name_what_is_the_fleets(deployment, people, conversations, table) -> None:
    token = people["ada"].post("/api/query/grant").json()["token"]
    status, (error,) = deployment.execute(token, f"SELECT * FROM {table}")
    absent_status, (absent,) = deployment.execute(token, "SELECT * FROM no_such_table")
    assert (status, error["code"]) == (absent_status, absent["code"])
    assert status in {400, 404}


def test_a_tool_reads_its_own_conversation_and_no_other(deployment, people, conversations) -> None:
    wanted = [
        ["conversation_recent_turns", {}],
        ["conversation_list_tool_calls", {"detail": "full"}],
        ["conversation_recent_turns", {"conversation": conversations["bob"]}],
        ["conversation_recent_turns", {"partition": conversations["bob"]}],
    ]
    lines = people["ada"].turn(conversations["ada"], "agent", prompt=json.dumps(wanted))
    (turns, calls, *others) = json.loads(lines[-3]["text"] if "text" in lines[-3] else lines[-2]["text"])
    assert turns[0] == calls[0] == 200
    assert {row["partition"] for row in turns[1]["rows"]} == {conversations["ada"]}
    assert len(turns[1]["rows"]) == 1, "the running turn is not committed"
    assert {row["name"] for row in calls[1]["rows"]} == {"look"}
    assert calls[1]["rows"][0]["has_result"] is True
    assert [status for status, _ in others] == [400, 400]
    audited = "SELECT DISTINCT surface, realm, scope_size FROM query_audit_intents WHERE surface = 'tool'"
    deployment.settle(people["root"], audited, [["tool", "fleet", 1]], admin=True)


def test_a_removed_participants_next_query_is_refused(deployment, people, conversations) -> None:
    ada, bob, root = people["ada"], people["bob"], people["root"]
    old = bob.post("/api/query/grant").json()["token"]
    assert deployment.execute(old, OWN)[0] == 200
    kept = ada.post("/api/query/grant").json()["token"]
    removed = root.delete(f"/api/conversations/{conversations['shared']}/participants/bob")
    assert removed.json() == {"changed": True}
    assert deployment.execute(old, OWN)[0] == 401
    assert deployment.execute(kept, OWN)[0] == 200
    assert deployment.ask(bob, OWN) == [[conversations["bob"]]]
    assert bob.turn(conversations["shared"], "agent")[0]["status_code"] == 404


def test_many_conversations_go_by_reference_and_a_changed_set_asks_for_a_new_grant(deployment, people) -> None:
    eve = Client(deployment.url, deployment.session("eve"))
    for _ in range(33):
        eve.open()
    joined = "SELECT COUNT(*) FROM persona_participation WHERE persona_id = 'eve' AND left_at IS NULL"
    deployment.settle(people["root"], joined, [[33]], admin=True)
    old = deployment.grant(eve)
    assert len(old) < 1024
    assert deployment.execute(old, "SELECT COUNT(*) FROM turns") == (200, [[0]])
    eve.open()
    deployment.settle(people["root"], joined, [[34]], admin=True)
    status, (error,) = deployment.execute(old, "SELECT COUNT(*) FROM turns")
    assert (status, error["code"]) == (400, "failed_precondition")
    assert deployment.execute(deployment.grant(eve), "SELECT COUNT(*) FROM turns") == (200, [[0]])


def test_what_is_no_grant_is_refused_at_execute(deployment, people, conversations) -> None:
    """Sessions and dispatch credentials are good at Control alone (ruling 35)."""
    session = people["ada"].http.headers["authorization"].split()[1]
    for bearer in (session, f"pcd_01980000-0000-7000-8000-000000000001_{'A' * 43}"):
        status, (error,) = deployment.execute(bearer, OWN)
        assert (status, error["code"]) == (401, "unauthenticated")


def test_an_assistant_on_stdio_sees_what_its_person_sees(deployment, people, conversations) -> None:
    """The real command, the official client, the real edge."""
    session = people["ada"].http.headers["authorization"].split()[1]
    command = ["-m", "polyc.cli.main", "mcp", "--control-port", str(deployment.port)]
    server = StdioServerParameters(
        command=sys.executable, args=command, env={"POLYCHROME_SESSION": session}, cwd=Path(__file__).parents[2]
    )

    async def run() -> list:
        async with McpClient(stdio_client(server)) as client:
            asked = await client.call_tool("query", {"sql": OWN})
            catalog = await client.call_tool("describe_catalog", {})
            turns = await client.call_tool("recent_turns", {"count": 50})
            refused = await client.call_tool("query", {"sql": "DELETE FROM turns"})
            return [asked, catalog, turns, refused]

    asked, catalog, turns, refused = asyncio.run(run())
    own = sorted([conversations[name]] for name in ("ada", "shared"))
    assert asked.structured_content == {"columns": ["partition"], "rows": own, "truncated": False}
    assert catalog.structured_content["realm"] == "participant"
    assert {row[0] for row in turns.structured_content["rows"]} == {name for (name,) in own}
    assert refused.is_error
    deployment.settle(
        people["root"], "SELECT DISTINCT subject FROM query_audit_intents WHERE surface = 'mcp'", [["ada"]], admin=True
    )


def test_no_bearer_is_in_any_file_of_the_deployment(deployment, people, conversations) -> None:
    """Sessions, grants and credentials are shown once and are nowhere (D16)."""
    secrets = [person.http.headers["authorization"].split()[1].encode() for person in people.values()]
    secrets.append(people["ada"].post("/api/query/grant").json()["token"].rsplit(".", 1)[1].encode())
    for file in deployment.root.path.rglob("*"):
        if file.is_file() and "keys" not in file.parts:
            content = file.read_bytes()
            assert not [secret for secret in secrets if secret in content], file


def process_of(deployment, name: str) -> int:
    """The process id of one of the deployment's processes."""
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = status.read_bytes().split(b"\0")
            if str(deployment.root.path).encode() in words and words[-2 if name == "journal" else -4] == name.encode():
                return int(status.parent.name)
    raise AssertionError(f"no process {name}")


def killed_in_the_middle(deployment, client, conversation: str, name: str, *, turn_id: str) -> list[dict]:
    """A turn whose harness has spoken and waits, while a process is killed; what its follower was told."""
    gate = deployment.root.path / f"go-{turn_id}"
    lines: list[dict] = []
    spoke = threading.Event()

    def follow() -> None:
        body = {"harness": "gated", "prompt": str(gate), "turn_id": turn_id}
        with (
            contextlib.suppress(httpx.HTTPError),
            client.http.stream("POST", f"/api/conversations/{conversation}/turns", json=body) as response,
        ):
            for line in response.iter_lines():
                lines.append(json.loads(line))
                if len(lines) == 2:
                    spoke.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert spoke.wait(timeout=30)
    os.kill(process_of(deployment, name), signal.SIGKILL)
    gate.touch()
    thread.join(timeout=60)
    return lines


@pytest.mark.soak
def test_a_turn_outlives_the_journals_death_and_is_whole(deployment, people, conversations) -> None:
    lines = killed_in_the_middle(deployment, people["ada"], conversations["ada"], "journal", turn_id="journal-dies")
    assert lines[-1]["status"] == "completed"
    said = "SELECT text FROM messages WHERE turn_id = 'journal-dies' AND role = 'assistant' ORDER BY position"
    deployment.settle(people["root"], said, [["before"], ["after"]], admin=True)


@pytest.mark.soak
def test_a_turn_that_control_dies_in_is_invisible_and_named(deployment, people, conversations) -> None:
    killed_in_the_middle(deployment, people["ada"], conversations["ada"], "control", turn_id="control-dies")
    notices = "SELECT COUNT(*) FROM journal_notices WHERE detail LIKE '%control-dies%'"
    deployment.settle(people["root"], notices, [[1]], admin=True)
    for table in ("turns", "messages", "blocks", "tool_calls"):
        rows = deployment.ask(people["root"], f"SELECT * FROM {table} WHERE turn_id = 'control-dies'", admin=True)
        assert rows == [], table
    refused = "SELECT rule FROM refusals WHERE native_request_id = 'gated-control-dies'"
    deployment.settle(people["root"], refused, [["kept"]], admin=True)
    assert people["ada"].turn(conversations["ada"], "agent", prompt="[]")[-1]["status"] == "completed"
