"""A turn: intent before the harness, its words as it says them, its end after it returned — and nothing else."""

import json
import os
import sys
import threading
from dataclasses import replace

import pytest

from control import turns
from control.participation import join
from facts.events import (
    ApprovalDecided,
    ApprovalRequested,
    DispatchIntent,
    IdentityAsserted,
    Message,
    MessageWithheld,
    Recovery,
    Refusal,
    ToolCall,
    ToolResult,
    TurnComplete,
    TurnStart,
)
from facts.partition import open_fold
from facts.trust import Trust
from polyc.durable import write_file
from polyc.entry import FLAG_CLOSES_FENCE, decode_header
from polyc.errors import RefusedError, UnavailableError
from tests.control.harness_programs import PREAMBLE, harnesses
from tests.control.serving import POLICY, Client, serving


@pytest.fixture
def programs(deployment, tmp_path) -> None:
    configs = harnesses(tmp_path, hangs={"deadline_s": 600})
    configs["impatient"] = {**configs["hangs"], "deadline_s": 0.5}
    configs["missing"] = {"kind": "subprocess", "command": ["/nowhere/at-all"]}
    configs["unreachable"] = {"kind": "http", "url": "http://127.0.0.1:9/turn"}
    write_file(deployment.root.path / "harnesses.json", json.dumps(configs).encode(), mode=0o600)


@pytest.fixture
def url(deployment, local, programs):
    with serving(local.context) as url:
        yield url


@pytest.fixture
def ada(url, local) -> Client:
    return Client(url, local.create_session("ada").bearer)


@pytest.fixture
def bob(url, local) -> Client:
    return Client(url, local.create_session("bob").bearer)


def rows(deployment, partition: str) -> dict:
    fold = open_fold(partition, Trust(keys=deployment.journal.keys))
    for record in deployment.journal.read(partition):
        fold.apply(record)
    return fold.rows()


def kinds(deployment, partition: str) -> list[str]:
    return [event.__struct_config__.tag for event in deployment.journal.events(partition)]


def test_a_turn_is_recorded_in_order_and_committed(ada, deployment) -> None:
    conversation = ada.open(title="first")
    lines = ada.turn(conversation, "talk")
    assert kinds(deployment, conversation) == [
        "conversation_opened", "participant_joined", "dispatch_intent", "turn_start", "message",
        "model_call", "message", "tool_call", "tool_result", "usage", "turn_complete",
    ]  # fmt: skip
    assert [line["type"] for line in lines] == ["turn", *["event"] * 5, "end"]
    assert lines[-1]["status"] == "completed"
    assert lines[-1]["recorded"]
    tables = rows(deployment, conversation)
    assert len(tables["turns"]) == len(tables["usage"]) == 1
    assert len(tables["messages"]) == 2


def test_the_intent_is_sealed_before_the_harness_is_called(ada, deployment) -> None:
    conversation = ada.open()
    ada.turn(conversation, "missing")
    events = deployment.journal.events(conversation)
    assert [type(event) for event in events[2:5]] == [DispatchIntent, TurnStart, Message]
    assert events[-1].failure_code == "unavailable"


@pytest.mark.parametrize(
    ("harness", "status", "code"),
    [
        ("echo", "completed", None),
        ("fails", "failed", "no_luck"),
        ("silent", "failed", "aborted"),
        ("garbage", "failed", "invalid_argument"),
        ("after_done", "failed", "resource_exhausted"),
        ("crashes", "failed", "aborted"),
        ("killed", "failed", "aborted"),
        ("other_turn", "failed", "invalid_argument"),
        ("as_person", "failed", "invalid_argument"),
        ("marker", "failed", "invalid_argument"),
        ("missing", "failed", "unavailable"),
        ("unreachable", "failed", "unavailable"),
        ("impatient", "failed", "deadline_exceeded"),
    ],
)
def test_every_way_a_harness_ends_has_its_end_on_record(ada, deployment, harness, status, code) -> None:
    conversation = ada.open()
    assert ada.turn(conversation, harness)[-1]["status"] == status
    end = deployment.journal.events(conversation)[-1]
    assert isinstance(end, TurnComplete)
    assert (end.status, end.failure_code) == (status, code)
    assert len(rows(deployment, conversation)["turns"]) == 1


def test_a_harness_gets_no_session_key_or_grant_in_its_environment(ada, deployment, monkeypatch) -> None:
    monkeypatch.setenv("POLYCHROME_SESSION", "pcs_something")
    monkeypatch.setenv("TOKEN", "something")
    lines = ada.turn(ada.open(), "environment")
    names = json.loads(lines[1]["text"])
    assert set(names) <= {"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LC_CTYPE"}
    assert "POLYCHROME_SESSION" in os.environ


def test_secrets_are_struck_before_anything_is_appended(ada, deployment) -> None:
    conversation = ada.open()
    lines = ada.turn(conversation, "secret", prompt="mine is AKIA" + "ZYXWVUTSRQPONMLK")
    raw = b"".join(record.payload for record in deployment.journal.records)
    assert b"ABCDEFGHIJKLMNOP" not in raw
    assert b"ZYXWVUTSRQPONMLK" not in raw
    assert raw.count(b"[redacted:aws-access-key]") == 2
    assert "[redacted:aws-access-key]" in lines[1]["text"]


def test_a_withheld_message_is_not_told_to_the_follower(ada) -> None:
    lines = ada.turn(ada.open(), "withheld")
    assert "for nobody" not in json.dumps(lines)
    assert "for all" in json.dumps(lines)


def test_only_participants_run_turns_and_learn_nothing_of_others(ada, bob) -> None:
    conversation = ada.open()
    theirs, none = bob.turn(conversation, "echo"), bob.turn("conv-nothing", "echo")
    assert theirs == none
    assert theirs[0]["status_code"] == 404


def test_an_invited_persona_takes_part_and_a_removed_one_does_not(ada, bob, local) -> None:
    conversation = ada.open()
    assert ada.post(f"/api/conversations/{conversation}/participants", persona_id="bob").json() == {"changed": True}
    assert bob.turn(conversation, "echo")[-1]["status"] == "completed"
    assert ada.delete(f"/api/conversations/{conversation}/participants/bob").status_code == 403
    assert bob.delete(f"/api/conversations/{conversation}/participants/bob").json() == {"changed": True}
    assert bob.turn(conversation, "echo")[0]["status_code"] == 404


def test_an_imported_conversation_is_continued_only_in_a_new_linked_one(ada, deployment, local) -> None:
    deployment.open_conversation("conv-imp-a", role="importer", origin="codex")
    join(local.context, "conv-imp-a", "ada")
    assert ada.turn("conv-imp-a", "echo")[0]["code"] == "failed_precondition"
    conversation = ada.open(continues="conv-imp-a")
    link = deployment.journal.events(conversation)[-1]
    assert (link.kind, link.parent_partition) == ("resume", "conv-imp-a")
    assert ada.turn(conversation, "echo")[-1]["status"] == "completed"


def test_a_turn_id_is_used_once_in_a_conversation_and_may_be_in_another(ada) -> None:
    first, second = ada.open(), ada.open()
    assert ada.turn(first, "echo", turn_id="t1")[-1]["status"] == "completed"
    assert ada.turn(first, "echo", turn_id="t1")[0]["code"] == "already_exists"
    assert ada.turn(second, "echo", turn_id="t1")[-1]["status"] == "completed"


def begun(client: Client, conversation: str, harness: str, lines: list, prompt: str = "hello"):
    """A turn whose harness has said its first word, followed in a thread."""
    ready = threading.Event()

    def follow() -> None:
        body = {"harness": harness, "prompt": prompt}
        with client.http.stream("POST", f"/api/conversations/{conversation}/turns", json=body) as response:
            for line in response.iter_lines():
                lines.append(json.loads(line))
                if len(lines) >= 2:
                    ready.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert ready.wait(timeout=20)
    return thread


def test_one_turn_at_a_time_and_a_participant_may_cancel_it(ada, deployment) -> None:
    conversation, lines = ada.open(), []
    thread = begun(ada, conversation, "hangs", lines)
    assert ada.turn(conversation, "echo")[0]["code"] == "aborted"
    assert ada.post(f"/api/conversations/{conversation}/cancel").status_code == 200
    thread.join(timeout=20)
    assert (lines[-1]["status"], lines[-1]["failure_code"]) == ("cancelled", "cancelled_by_participant")
    assert ada.turn(conversation, "echo")[-1]["status"] == "completed"
    assert [row[9] for row in rows(deployment, conversation)["turns"]] == ["cancelled", "completed"]


def test_a_turn_goes_on_when_its_follower_goes_away(ada, deployment) -> None:
    conversation = ada.open()
    with ada.http.stream(
        "POST", f"/api/conversations/{conversation}/turns", json={"harness": "talk", "prompt": "x"}
    ) as response:
        next(response.iter_lines())
    while not isinstance(deployment.journal.events(conversation)[-1], TurnComplete):
        pass
    assert len(rows(deployment, conversation)["turns"]) == 1


def test_a_control_that_stops_ends_its_turns_as_cancelled(deployment, local, programs) -> None:
    lines: list = []
    with serving(local.context) as url:
        ada = Client(url, local.create_session("ada").bearer)
        conversation = ada.open()
        thread = begun(ada, conversation, "hangs", lines)
    thread.join(timeout=20)
    end = deployment.journal.events(conversation)[-1]
    assert (end.status, end.failure_code) == ("cancelled", "cancelled_by_control_stopped")


def test_the_end_is_recorded_once_the_journal_is_back(ada, deployment, monkeypatch) -> None:
    monkeypatch.setattr("control.turn_runner.JOURNAL_RETRY_S", 0.01)
    conversation = ada.open()
    real = deployment.journal.append
    failures = iter([True, False])

    def flaky(signed):
        if decode_header(signed.entries[-1].header, place="x").flags & FLAG_CLOSES_FENCE:
            ack = real(signed)
            if next(failures, False):
                raise UnavailableError("the answer was lost")
            return ack
        return real(signed)

    monkeypatch.setattr(deployment.journal, "append", flaky)
    assert ada.turn(conversation, "echo")[-1]["recorded"]
    assert kinds(deployment, conversation).count("turn_complete") == 1


def test_a_turn_left_open_is_fenced_named_and_never_shown(deployment, local, programs, caplog) -> None:
    with serving(local.context) as url:
        ada = Client(url, local.create_session("ada").bearer)
        conversation = ada.open()
    context = replace(local.context, redaction=POLICY)
    dispatch, _ = turns.begin(context, partition=conversation, persona_id="ada", harness="echo", prompt="needle")
    restarted = deployment.local()
    with serving(restarted.context) as url:
        ada = Client(url, restarted.create_session("ada").bearer)
        assert f"turn {dispatch.turn_id} was left unfinished" in caplog.text
        assert isinstance(deployment.journal.events(conversation)[-1], Recovery)
        with pytest.raises(RefusedError) as caught:
            turns.finish(context, dispatch, turns.TurnEnd(status="completed"))
        assert caught.value.code == "failed_precondition"
        assert ada.turn(conversation, "echo")[-1]["status"] == "completed"
    tables = rows(deployment, conversation)
    assert len(tables["turns"]) == 1
    assert "needle" not in repr(tables)


def test_edge_events_carry_the_dispatch_and_belong_to_its_conversation(ada, deployment) -> None:
    conversation, other = ada.open(), ada.open()
    lines = ada.turn(conversation, "edges")
    assert json.loads(lines[-2]["text"]) == [200, 200, 200, 200, 200, 400]
    by_type = {type(event): event for event in deployment.journal.events(conversation)}
    for kind in (ToolCall, ToolResult, Refusal, IdentityAsserted, MessageWithheld):
        assert by_type[kind].dispatch_id == lines[0]["dispatch_id"]
        assert by_type[kind].turn_id is None
    tables = rows(deployment, conversation)
    assert len(tables["refusals"]) == len(tables["identity_provenance"]) == 1
    assert "to be withheld" not in repr(tables["messages"])
    assert len(deployment.journal.events(other)) == 2


@pytest.mark.parametrize("outcome", ["approved", "denied"])
def test_a_call_waits_for_a_participant_who_sees_its_arguments(ada, bob, deployment, outcome) -> None:
    conversation, lines = ada.open(), []
    thread = begun(ada, conversation, "approval", lines, prompt="30")
    waiting: list = []
    while not waiting:
        waiting = ada.get("/api/approvals").json()["approvals"]
    assert waiting[0]["arguments"] == '{"to": "production"}'
    assert bob.get("/api/approvals").json()["approvals"] == []
    path = f"/api/approvals/{waiting[0]['approval_id']}"
    assert bob.post(path, outcome="approved").status_code == 404
    assert ada.post(path, outcome=outcome, reason="looks_fine").status_code == 200
    assert (
        ada.post(path, outcome="approved").status_code == 400 or ada.post(path, outcome="approved").status_code == 404
    )
    thread.join(timeout=20)
    assert lines[-2]["text"] == f"200 {outcome}"
    (row,) = rows(deployment, conversation)["approvals"]
    assert row[7] == outcome
    assert row[10] == "ada"


def test_a_request_nobody_decides_expires_on_record(ada, deployment) -> None:
    conversation = ada.open()
    lines = ada.turn(conversation, "approval", prompt="0.2")
    assert lines[-2]["text"] == "200 expired"
    decided = [event for event in deployment.journal.events(conversation) if isinstance(event, ApprovalDecided)]
    assert [event.outcome for event in decided] == ["expired"]


def test_a_request_of_a_turn_that_ends_is_cancelled_before_the_end(ada, deployment) -> None:
    conversation, lines = ada.open(), []
    thread = begun(ada, conversation, "approval", lines, prompt="600")
    while not any(isinstance(event, ApprovalRequested) for event in deployment.journal.events(conversation)):
        pass
    ada.post(f"/api/conversations/{conversation}/cancel")
    thread.join(timeout=20)
    assert [type(event) for event in deployment.journal.events(conversation)[-2:]] == [ApprovalDecided, TurnComplete]
    assert rows(deployment, conversation)["approvals"][0][7] == "cancelled"


def test_a_dispatch_credential_is_good_for_nothing_else_and_ends_with_its_turn(
    ada, deployment, local, tmp_path
) -> None:
    program = 'open(sys.argv[1], "w").write(turn["control"]["credential"]); done()'
    (tmp_path / "leak.py").write_text(PREAMBLE + program)
    config = {
        "leak": {"kind": "subprocess", "command": [sys.executable, str(tmp_path / "leak.py"), str(tmp_path / "leaked")]}
    }
    write_file(deployment.root.path / "harnesses.json", json.dumps(config).encode(), mode=0o600)
    conversation = ada.open()
    ada.turn(conversation, "leak")
    leaked = Client(ada.url, (tmp_path / "leaked").read_text())
    assert leaked.post("/api/query/grant").status_code == 401
    assert leaked.get("/api/conversations").status_code == 401
    response = leaked.post("/api/edge/refusals", request_id="x", stage="policy")
    assert (response.status_code, response.json()["message"]) == (400, "the turn is over")
    credential = (tmp_path / "leaked").read_text()
    forged = Client(ada.url, credential[:-2] + ("AA" if credential[-2:] != "AA" else "BB"))
    assert forged.post("/api/edge/refusals", request_id="x", stage="policy").status_code == 401
    assert all(credential.encode()[-40:] not in record.payload for record in deployment.journal.records)
