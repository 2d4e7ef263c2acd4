"""Whatever dies at whatever step of a turn: committed turns are whole, unfinished ones invisible, refusals kept."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from control import conversations, participation, personas, turns
from control.context import ControlContext
from facts.partition import open_fold
from facts.trust import Trust
from journal import boot
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.errors import RefusedError, UnavailableError
from polyc.ids import SystemIds
from tests.control.crash_child import POLICY
from tests.control.harness_programs import PREAMBLE

PROGRAM = """
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
say(type="model_call", call_id="c1", provider="test", model="tiny")
answer("needle", call_id="c1")
say(type="tool_call", tool_call_id="t1", name="read", arguments="{}")
time.sleep(0.2)
say(type="tool_result", tool_call_id="t1", text="needle", is_error=False)
done()"""
STEPS = ["dispatch_intent", "refusal", "model_call", "tool_result", "turn_complete"]


@pytest.fixture
def root(tmp_path) -> Iterator[DataRoot]:
    root = DataRoot(tmp_path / "root")
    boot.create_deployment(root, clock=SystemClock(), ids=SystemIds())
    (tmp_path / "talk.py").write_text(PREAMBLE + PROGRAM)
    config = {
        "talk": {"kind": "subprocess", "command": [sys.executable, str(tmp_path / "talk.py"), str(root.path / "go")]}
    }
    file = root.path / "harnesses.json"
    file.write_text(json.dumps(config))
    file.chmod(0o600)
    yield root
    (root.path / "go").touch()  # a harness whose Control died before it could say so goes on, and ends


def opened(root: DataRoot):
    clock, ids = SystemClock(), SystemIds()
    journal = _once_free(root)
    return journal, replace(ControlContext.open(journal, root, clock=clock, ids=ids), redaction=POLICY)


def _once_free(root: DataRoot):
    """The journal; a harness that was being started when its parent died holds the lock until its exec."""
    clock = SystemClock()
    deadline = clock.monotonic_s() + 10
    while True:
        try:
            return boot.open_embedded(root, clock=clock, ids=SystemIds())
        except UnavailableError:
            if clock.monotonic_s() > deadline:
                raise


def new_conversation(root: DataRoot) -> str:
    journal, context = opened(root)
    with journal:
        personas.ensure_persona(context, "ada")
        return conversations.open_conversation(context, "ada")


def rows(journal, context, conversation: str) -> dict:
    fold = open_fold(conversation, Trust(keys=context.index.keys))
    for record in journal.read(conversation):
        fold.apply(record)
    return fold.rows()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", STEPS)
def test_control_and_journal_die_at_a_step(root, kind, when) -> None:
    conversation = new_conversation(root)
    command = [sys.executable, "-m", "tests.control.crash_child", str(root.path), conversation, kind, when]
    died = subprocess.run(command, timeout=60, check=False, capture_output=True)
    assert died.returncode == -9, died.stderr.decode()
    journal, context = opened(root)
    with journal:
        has_begun = (kind, when) != ("dispatch_intent", "before")
        is_whole = (kind, when) == ("turn_complete", "after")
        is_refused = STEPS.index(kind) > 1 or (kind, when) == ("refusal", "after")
        found = turns.fence_abandoned(context)
        assert len(found) == (has_begun and not is_whole)
        assert turns.fence_abandoned(context) == []
        tables = rows(journal, context, conversation)
        assert len(tables["turns"]) == is_whole
        assert len(tables["refusals"]) == is_refused
        gated = {name: tables.get(name, []) for name in ("messages", "model_call", "tool_calls", "blocks")}
        assert {name: len(found) for name, found in gated.items() if found} == (
            {"messages": 2, "model_call": 1, "tool_calls": 2, "blocks": 2} if is_whole else {}
        )
        assert ("needle" in repr(gated)) is is_whole
        assert participation.participants_of(context, conversation) == ["ada"]


def test_who_goes_on_after_the_fence_is_refused_at_the_journals_door(root) -> None:
    conversation = new_conversation(root)
    journal, context = opened(root)
    with journal:
        dispatch, _ = turns.begin(context, partition=conversation, persona_id="ada", harness="talk", prompt="x")
        restarted = replace(ControlContext.open(journal, root, clock=SystemClock(), ids=SystemIds()), redaction=POLICY)
        assert len(turns.fence_abandoned(restarted)) == 1
        with pytest.raises(RefusedError) as caught:
            turns.finish(context, dispatch, turns.TurnEnd(status="completed"))
        assert caught.value.code == "failed_precondition"
        assert rows(journal, context, conversation)["turns"] == []
