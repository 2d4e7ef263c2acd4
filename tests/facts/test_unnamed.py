"""An empty id is no id: what nobody named is nobody else's, replaces nothing and is found by nothing."""

import pytest

from facts import events as e
from tests.facts.fitting import fitting
from tests.facts.journal import Journal, anomalies, column
from tests.facts.payment import asked, decided, dispatched, jws, paid, requested, trust


def called(call_id):
    journal = Journal().open().start()
    for number in (1, 2):
        journal.add(
            e.ModelCall(id="c", turn_id="t1", call_id=call_id, model=f"m{number}"),
            e.Usage(id="u", turn_id="t1", call_id=call_id, input_tokens=number),
        )
    return fitting(journal.end().start("t2").add(e.Usage(id="u", turn_id="t2", call_id=call_id)).end("t2"))


def test_calls_that_nobody_named_are_each_a_call():
    rows = called("")
    assert column(rows, "model_call", "model") == ["m1", "m2"]
    assert column(rows, "usage", "input_tokens") == [1, 2, None]
    assert {*column(rows, "usage", "call_id"), *column(rows, "model_call", "call_id")} == {None}


def test_a_call_that_is_named_is_one_call():
    rows = called("c")
    assert column(rows, "model_call", "model") == ["m2"]
    assert column(rows, "usage", "call_id") == ["conv-a:c", "conv-a:c#2"]


def said(message_id):
    journal = Journal().open().start()
    for text in ("one", "two"):
        journal.add(
            e.Message(
                id="m", turn_id="t1", message_id=message_id, role="user", material_origin="human_authored",
                blocks=(e.Block(type="text", text=text),),
            )
        )  # fmt: skip
    return journal


def test_messages_that_nobody_named_are_each_a_message():
    rows = fitting(said("").end())
    assert column(rows, "messages", "text") == ["one", "two"]
    assert column(rows, "messages", "message_id") == column(rows, "blocks", "message_id") == ["#3", "#4"]
    assert column(rows, "sessions", "user_message_count") == [2]
    assert column(fitting(said("m").end()), "messages", "text") == ["two"]


def test_a_mark_without_an_id_hides_every_unnamed_message_of_its_turn():
    journal = said("").say("named").add(e.MessageWithheld(id="w", turn_id="t1", message_id="", reason="r"), by="edge")
    rows = fitting(journal.end())
    assert column(rows, "messages", "text") == ["named"]
    assert column(rows, "messages_withheld", "text") == ["one", "two"]
    assert column(rows, "blocks", "text") == ["named"]


@pytest.mark.parametrize(("native", "verdict"), [("", "amount_mismatch"), ("x", "settled")])
def test_a_call_that_nobody_named_is_asked_for_nothing_and_pays_nothing(native, verdict):
    journal = decided(requested(asked(dispatched(), native), native), native)
    rows = fitting(paid(journal, jws(), native).end(), trust())
    assert column(rows, "settlement_verdicts", "verdict") == [verdict]
    assert column(rows, "approvals", "outcome") == [None if not native else "approved"]
    assert (("decision_without_request", "approval_decided") in anomalies(rows)) is not bool(native)


def test_a_turn_and_a_dispatch_have_names():
    journal = Journal().open().intend("t1", "").start("").end("").start("t1", dispatch_id="").end("t1")
    rows = fitting(journal)
    assert column(rows, "turns", "turn_id") == ["t1"]
    assert column(rows, "turns", "dispatch_id") == [None]
    assert {kind for kind, _ in anomalies(rows)} == {"unnamed_turn", "unnamed_dispatch"}
    unmapped = Journal().open().start("t1", dispatch_id="")
    unmapped.add(e.ToolCall(id="k", dispatch_id="", tool_call_id="x", name="n"))
    assert anomalies(unmapped.end().rows()) == {("unknown_dispatch", "tool_call"): 1}
