"""`model_call`, `usage`, `tool_calls`, `files`: the last record of a call counts; ids are the conversation's own."""

import pytest

from facts import events as e
from facts.tool_calls import normalised
from tests.facts.journal import Journal, at, column
from tests.facts.warehouse import warehouse


def used(journal, call_id="c1", turn="t1", **tokens):
    return journal.add(e.Usage(id="u", turn_id=turn, call_id=call_id, **tokens))


def called(journal, call_id="c1", turn="t1", **fields):
    return journal.add(e.ModelCall(id="c", turn_id=turn, call_id=call_id, **fields))


def test_of_streamed_usage_the_last_record_counts():
    journal = Journal().open().start()
    for output in (3, 40, 187):
        used(journal, output_tokens=output, input_tokens=900)
    rows = used(journal, "c2", output_tokens=6).end().rows()
    assert column(rows, "usage", "output_tokens") == [187, 6]
    assert column(rows, "usage", "call_id") == ["conv-a:c1", "conv-a:c2"]
    assert column(rows, "usage", "native_call_id") == ["c1", "c2"]


def test_a_model_call_told_twice_is_one_call():
    journal = called(called(Journal().open().start(), model="m"), model="m", stop_reason="end_turn")
    rows = journal.end().rows()
    assert column(rows, "model_call", "stop_reason") == ["end_turn"]


def test_a_call_id_of_another_turn_is_another_call():
    journal = used(called(Journal().open().start()), input_tokens=1).end()
    first = journal.rows()
    used(called(journal.start("t2"), turn="t2"), turn="t2", input_tokens=2)
    assert journal.rows()["usage"] == first["usage"]
    rows = journal.end("t2").rows()
    assert column(rows, "usage", "call_id") == column(rows, "model_call", "call_id") == ["conv-a:c1", "conv-a:c1#2"]
    assert rows["usage"][:1] == first["usage"]


def test_the_number_of_a_repeated_id_counts_committed_turns_in_the_order_of_their_ends():
    journal = used(Journal().open().start("t1"), turn="t1").start("t2")
    rows = used(journal, turn="t2").end("t2").end("t1").rows()
    assert column(rows, "usage", "turn_id") == ["t1", "t2"]
    assert column(rows, "usage", "call_id") == ["conv-a:c1#2", "conv-a:c1"]


def test_latency_is_stated_or_the_difference_of_the_times():
    journal = called(Journal().open().start(), "a", started_at=at(0), ended_at=at(1))
    rows = called(journal, "b", latency_ms=7).end().rows()
    assert column(rows, "model_call", "latency_ms") == [60_000, 7]


def test_call_and_result_share_an_id_and_arguments_are_whole():
    arguments = '{"command":"' + "x" * 100_000 + '"}'
    journal = Journal().open().start().call("x", arguments=arguments, action="shell").result("x", text="y" * 100_000)
    rows = journal.end().rows()
    assert column(rows, "tool_calls", "tool_call_id") == ["conv-a:x", "conv-a:x"]
    assert column(rows, "tool_calls", "arguments")[0] == arguments
    assert len(column(rows, "tool_calls", "result_text")[1]) == 100_000


def test_the_nth_result_belongs_to_the_nth_call():
    journal = Journal().open().start().call("x").call("x").result("x").result("x").call("y").end()
    assert column(journal.rows(), "tool_calls", "tool_call_id") == [
        "conv-a:x", "conv-a:x#2", "conv-a:x", "conv-a:x#2", "conv-a:y",
    ]  # fmt: skip


def test_a_result_may_come_in_a_later_turn():
    rows = Journal().open().start().call("x").end().start("t2").result("x", "t2").end("t2").rows()
    assert column(rows, "tool_calls", "tool_call_id") == ["conv-a:x", "conv-a:x"]


UNANSWERED = """SELECT c.name, c.turn_id, c.position FROM tool_calls c
LEFT JOIN (SELECT tool_call_id FROM tool_calls WHERE block_type = 'result') r ON r.tool_call_id = c.tool_call_id
WHERE c.block_type = 'call' AND r.tool_call_id IS NULL ORDER BY c.position DESC"""


def test_a_result_is_of_its_own_turns_call_where_that_turn_has_one():
    """Some providers count calls anew in every turn: the one that was interrupted is the one without a result."""
    journal = Journal().open().start("t1").call("call_1", "t1", name="Bash").end("t1", status="cancelled")
    journal.start("t2").call("call_1", "t2", name="Read").result("call_1", "t2").end("t2")
    rows = journal.rows()
    assert column(rows, "tool_calls", "tool_call_id") == ["conv-a:call_1", "conv-a:call_1#2", "conv-a:call_1#2"]
    assert warehouse(rows).execute(UNANSWERED).fetchall() == [("Bash", "t1", 3)]
    later = journal.start("t3").result("call_1", "t3").end("t3").rows()
    assert warehouse(later).execute(UNANSWERED).fetchall() == []
    assert later["tool_calls"][:3] == rows["tool_calls"]


def test_a_result_of_no_call_we_know_is_of_a_call_of_its_own():
    journal = Journal().open().start("t1").result("x", "t1").end("t1")
    rows = journal.start("t2").call("x", "t2").result("x", "t2").result("x", "t2").end("t2").rows()
    assert column(rows, "tool_calls", "tool_call_id") == ["conv-a:x", "conv-a:x#2", "conv-a:x#2", "conv-a:x#3"]


def test_thousands_of_uses_of_one_id_are_told_apart():
    journal = Journal().open().start("t1")
    for _ in range(3000):
        journal.call("x", "t1").result("x", "t1")
    ids = column(journal.end("t1").rows(), "tool_calls", "tool_call_id")
    assert ids[:4] == ["conv-a:x", "conv-a:x", "conv-a:x#2", "conv-a:x#2"]
    assert ids[-1] == ids[-2] == "conv-a:x#3000"


def test_a_call_of_an_unfinished_turn_renames_nothing():
    journal = Journal().open().start("t0").call("x", "t0").start("t1").call("x", "t1").end("t1")
    assert column(journal.rows(), "tool_calls", "tool_call_id") == ["conv-a:x"]
    assert column(journal.end("t0").rows(), "tool_calls", "tool_call_id") == ["conv-a:x#2", "conv-a:x"]


@pytest.mark.parametrize("is_error", [None, True, False])
def test_an_error_flag_has_three_values(is_error):
    rows = Journal().open().start().call().result(is_error=is_error).end().rows()
    assert column(rows, "tool_calls", "is_error") == [None, is_error]


def test_files_are_counted_by_normalised_path():
    journal = Journal().open().start()
    journal.call("1", action="file_read", path="/src/./a.py", occurred_at=at(1))
    journal.call("2", action="file_edit", path="/src//a.py", occurred_at=at(2))
    journal.call("3", action="shell", command="ls").call("4", action="file_write", path="/src/b.py")
    rows = journal.end().rows()
    assert column(rows, "files", "path") == ["/src/a.py", "/src/b.py"]
    assert column(rows, "files", "action_count") == [2, 1]
    assert column(rows, "files", "read_count") == [1, 0]
    assert column(rows, "files", "last_tool_call_id") == ["conv-a:2", "conv-a:4"]
    assert column(rows, "files", "first_seen_at") == [at(1), None]


@pytest.mark.parametrize("path", ["/a/b", "a", "/", "C:/x", "../a"])
def test_a_normalised_path_stays_as_it_is(path):
    assert normalised(path) == path


def test_what_a_model_call_was_given_is_kept_per_turn():
    snapshot = e.ContextSnapshot(id="b", turn_id="t1", boundary="compaction", pre_tokens=9, post_tokens=2, call_id="c1")
    rows = used(Journal().open().start(), input_tokens=2).add(snapshot).end().rows()
    assert column(rows, "context_boundaries", "call_id") == column(rows, "usage", "call_id")
