"""`messages`, `blocks`, `messages_withheld`: one row a message, nothing cut, nothing withheld shown."""

import pytest

from facts import events as e
from tests.facts.journal import Journal, column

TEXT = e.Block(type="text", text="said")
CODE = e.Block(type="code", text="x = 1", language="python")
THOUGHT = e.Block(type="thinking", text="hmm")
IMAGE = e.Block(type="image", media_type="image/png", sha256="ab", byte_length=3)


@pytest.mark.parametrize(
    ("blocks", "text", "kind"),
    [
        ((TEXT,), "said", "text"),
        ((THOUGHT, TEXT, CODE), "said\n\nx = 1", "text"),
        ((THOUGHT,), "hmm", "thinking"),
        ((THOUGHT, THOUGHT), "hmm\n\nhmm", "thinking"),
        ((IMAGE,), None, "text"),
        ((), None, "text"),
    ],
)
def test_a_messages_text_is_what_it_says(blocks, text, kind):
    rows = Journal().open().start().say(blocks=blocks).end().rows()
    assert column(rows, "messages", "text") == [text]
    assert column(rows, "messages", "kind") == [kind]
    assert column(rows, "messages", "word_count") == [len((text or "").split())]


def test_each_block_is_a_row():
    rows = Journal().open().start().say(blocks=(THOUGHT, TEXT, IMAGE), message_id="m").end().rows()
    assert column(rows, "blocks", "block_id") == ["m/0", "m/1", "m/2"]
    assert column(rows, "blocks", "byte_length") == [None, None, 3]


def test_of_a_message_repeated_in_its_turn_the_last_counts():
    journal = Journal().open().start().say("a", message_id="m").say("b", message_id="n").say("ab", message_id="m")
    rows = journal.end().rows()
    assert column(rows, "messages", "text") == ["b", "ab"]
    assert column(rows, "blocks", "text") == ["b", "ab"]


def test_a_repeat_in_another_turn_changes_no_committed_row():
    journal = Journal().open().start().say("a", message_id="m").end()
    before = journal.rows()["messages"]
    journal.start("t2").say("other", "t2", message_id="m")
    assert journal.rows()["messages"] == before
    journal.end("t2")
    assert column(journal.rows(), "messages", "text") == ["a", "other"]


def test_a_withheld_message_is_shown_to_nobody_but_the_fleet():
    journal = Journal().open().start().say("seen", message_id="m").say("hidden", message_id="n", withheld="draft")
    rows = journal.end().rows()
    assert column(rows, "messages", "text") == ["seen"]
    assert column(rows, "blocks", "text") == ["seen"]
    assert column(rows, "messages_withheld", "text") == ["hidden"]
    assert column(rows, "messages_withheld", "reason") == ["draft"]
    assert column(rows, "sessions", "message_count") == [1]


def test_a_message_is_withheld_by_its_own_turn_alone():
    journal = Journal().open().intend("t1", "d1").start("t1").say("a", message_id="m")
    journal.add(e.MessageWithheld(id="w", dispatch_id="d1", message_id="m", reason="policy"), by="edge").end("t1")
    assert column(journal.rows(), "messages_withheld", "message_id") == ["m"]

    journal = Journal().open().start("t1").say("a", message_id="m").end("t1").intend("t2", "d2").start("t2")
    journal.add(e.MessageWithheld(id="w", dispatch_id="d2", message_id="m", reason="policy"), by="edge").end("t2")
    assert column(journal.rows(), "messages", "message_id") == ["m"]


def test_a_rewind_marks_what_stood_before_it_and_nothing_after():
    journal = Journal().open().start().say("a", message_id="m").say("b", message_id="n").end()
    journal.add(e.Superseded(id="z", reason="rewound", message_ids=("m",)), by="control")
    rows = journal.start("t2").say("again", "t2", message_id="m").end("t2").rows()
    assert column(rows, "messages", "superseded") == [True, False, False]


def test_a_time_that_cannot_be_read_is_null_and_says_why():
    rows = Journal().open().start().say(time_flag="unreadable").end().rows()
    assert column(rows, "messages", "occurred_at") == [None]
    assert column(rows, "messages", "time_flag") == ["unreadable"]
