"""The committed-turn gate: three spellings of a turn id, one column; nothing of an unfinished or foreign turn."""

from datetime import timedelta

import pytest

from facts import events as e
from tests.facts.journal import NOON, Journal, anomalies, at, column


def test_a_committed_turn_has_rows():
    rows = Journal().open().start().say("hello").end().rows()
    assert column(rows, "turns", "turn_id") == ["t1"]
    assert column(rows, "messages", "text") == ["hello"]


def test_an_unfinished_turn_yields_nothing():
    rows = Journal().open().start().say("hello").call().result().rows()
    assert {table for table, found in rows.items() if found} == set()


def test_a_failed_turn_is_committed_with_all_its_rows():
    rows = Journal().open().start().say().end(status="failed", failure_code="harness_lost").rows()
    assert column(rows, "turns", "status") == ["failed"]
    assert column(rows, "turns", "failure_code") == ["harness_lost"]
    assert len(rows["messages"]) == 1


@pytest.mark.parametrize(
    ("journal", "kind"),
    [
        (Journal().open().say().start().end(), "before_start"),
        (Journal().open().start().end().say(), "after_end"),
        (Journal().open().start().say(turn=None).end(), "outside_turn"),
    ],
)
def test_an_event_outside_its_turn_folds_into_nothing_and_is_counted(journal, kind):
    rows = journal.rows()
    assert rows["messages"] == []
    assert anomalies(rows) == {(kind, "message"): 1}


def test_an_edge_event_finds_its_turn_through_the_dispatch():
    journal = Journal().open().intend("t1", "d1").start("t1")
    journal.add(e.ToolCall(id="1", dispatch_id="d1", tool_call_id="x", name="pay"), by="edge").end("t1")
    assert column(journal.rows(), "tool_calls", "turn_id") == ["t1"]
    assert column(journal.rows(), "turns", "dispatch_id") == ["d1"]


@pytest.mark.parametrize("turn_id", [None, "t1"])
def test_an_unknown_dispatch_folds_into_nothing(turn_id):
    journal = Journal().open().intend("t1", "d1").start("t1")
    journal.add(e.ToolCall(id="1", dispatch_id="d2", turn_id=turn_id, tool_call_id="x", name="pay"), by="edge").end(
        "t1"
    )
    rows = journal.rows()
    assert rows["tool_calls"] == []
    assert anomalies(rows) == {("unknown_dispatch", "tool_call"): 1}


def test_a_dispatch_is_mapped_once():
    journal = Journal().open().intend("t1", "d1").intend("t2", "d1").start("t1").start("t2")
    journal.add(e.ToolCall(id="1", dispatch_id="d1", tool_call_id="x", name="pay"), by="edge").end("t1").end("t2")
    rows = journal.rows()
    assert column(rows, "tool_calls", "turn_id") == ["t1"]
    assert anomalies(rows) == {("repeated_marker", "dispatch_intent"): 1}


def test_markers_of_another_conversation_prove_nothing():
    journal = Journal("conv-a").open().start(conversation="b").say().end(conversation="b")
    rows = journal.rows()
    assert rows["turns"] == rows["messages"] == []
    assert anomalies(rows)["foreign_marker", "turn_start"] == 1


@pytest.mark.parametrize(
    ("partition", "conversation", "counts"),
    [
        ("conv-a", "a", True),
        ("conv-a", "conv-a", True),
        ("conv-conv-a", "conv-conv-a", True),
        ("conv-conv-a", "conv-a", False),
        ("conv-a", "A", False),
        ("conv-a", "conv-conv-a", False),
    ],
)
def test_a_conversation_is_named_with_or_without_its_prefix_and_never_as_another_one(partition, conversation, counts):
    journal = (
        Journal(partition).open().start(conversation=conversation or "conv-").end(conversation=conversation or "conv-")
    )
    assert len(journal.rows()["turns"]) == counts


@pytest.mark.parametrize("role", ["harness", "edge", "importer", "query", "nobody"])
def test_only_control_marks_the_turns_of_a_live_conversation(role):
    assert Journal().open().start(by=role).say().end().rows()["messages"] == []
    assert Journal().open().start().say().end(by=role).rows()["messages"] == []


def test_the_importer_marks_turns_only_where_the_first_event_declares_an_import():
    def imported(partition, origin, opener="importer"):
        journal = Journal(partition).open(origin, by=opener).start(by="importer")
        return journal.say(by="importer").end(by="importer").rows()["messages"]

    assert len(imported("conv-imp-a", "codex")) == 1
    assert imported("conv-imp-a", "live") == []
    assert imported("conv-a", "codex") == []
    assert imported("conv-a", "codex", opener="control") == []


def test_a_second_marker_changes_nothing_and_is_named():
    once = Journal().open().start(occurred_at=at(1)).say().end(occurred_at=at(2)).rows()
    journal = Journal().open().start(occurred_at=at(1)).say().end(occurred_at=at(2))
    again = journal.start(occurred_at=at(3)).end(status="failed", occurred_at=at(4)).rows()
    assert again["turns"] == once["turns"]
    assert anomalies(again) == {("repeated_marker", "turn_start"): 1, ("repeated_marker", "turn_complete"): 1}


def test_an_end_without_a_start_commits_nothing():
    rows = Journal().open().say().end().start().rows()
    assert rows["turns"] == []
    assert anomalies(rows)["end_without_start", "turn_complete"] == 1


def test_a_key_acts_only_in_its_range_of_the_log():
    from facts.trust import Trust
    from tests.facts.journal import keyring

    journal = Journal(first_index=100).open().start().say().end()
    assert len(journal.rows(Trust(keys=keyring(until={"control": 105})))["turns"]) == 1
    assert journal.rows(Trust(keys=keyring(until={"control": 104})))["turns"] == []


def test_turns_are_numbered_by_start_and_know_their_times():
    journal = Journal().open().start("a", occurred_at=at(0), persona_id="ada", harness="demo")
    rows = journal.end("a", occurred_at=at(1)).start("b").end("b", duration_ms=5).rows()
    assert column(rows, "turns", "turn_index") == [1, 2]
    assert column(rows, "turns", "duration_ms") == [60_000, 5]
    assert column(rows, "turns", "persona_id") == ["ada", None]
    assert column(rows, "turns", "position") == [2, 4]


def test_a_rolled_back_turn_stays_marked():
    journal = Journal().open().start().say().call().end()
    rows = journal.add(e.Superseded(id="z", reason="rolled_back", turn_ids=("t1",)), by="control").rows()
    assert column(rows, "turns", "superseded") == [True]
    assert column(rows, "messages", "superseded") == [True]
    assert column(rows, "tool_calls", "superseded") == [True]
    assert column(rows, "sessions", "message_count") == [0]


@pytest.mark.parametrize(("seconds", "ms"), [(1.001, 1001), (4.035, 4035), (0.0009, 0), (90_000.5, 90_000_500)])
def test_times_are_counted_in_whole_milliseconds_exactly(seconds, ms):
    journal = Journal("conv-imp-a").open("codex", by="importer").start(by="importer", occurred_at=NOON)
    until = NOON + timedelta(seconds=seconds)
    call = e.ModelCall(id="c", turn_id="t1", call_id="c", started_at=NOON, ended_at=until)
    rows = journal.add(call, by="importer").end(by="importer", occurred_at=until).rows()
    assert column(rows, "model_call", "latency_ms") == column(rows, "turns", "duration_ms") == [ms]
    # What double precision makes of some of these, and why it is not asked:
    assert int(1.001 * 1000) == 1000
