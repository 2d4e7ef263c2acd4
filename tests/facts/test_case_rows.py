"""Rows C of the case files that concern folds, each by its number: what broke other products, and what ours shows."""

import pytest

from facts import events as e
from facts.partition import open_fold
from facts.trust import Trust
from polyc.errors import CorruptError
from polyc.vocabulary import BY_KIND
from tests.facts.journal import TRUST, Journal, anomalies, column, fold_of, keyring
from tests.facts.payment import jws, paid, paying, signer, trust
from tests.facts.warehouse import warehouse

TURN_TABLES = ("turns", "messages", "blocks", "model_call", "usage", "tool_calls", "approvals", "payments", "sessions")


@pytest.mark.parametrize("second", ["failed", "cancelled", "completed"])
def test_c08_of_two_ends_the_first_stands_and_the_other_is_named(second):
    rows = Journal().open().start().say("hi").end(status="completed").end(status=second, failure_code="late").rows()
    assert column(rows, "turns", "status") == ["completed"]
    assert column(rows, "turns", "failure_code") == [None]
    assert anomalies(rows) == {("repeated_marker", "turn_complete"): 1}


def test_c08_one_end_alone_is_no_anomaly():
    assert anomalies(Journal().open().start().end(status="failed").rows()) == {}


def test_c16_a_record_of_another_partition_is_refused_though_everything_else_fits():
    mine, other = Journal("conv-a").open().start(), Journal("conv-b").open().start().say("planted")
    fold = open_fold("conv-a", TRUST)
    fold.apply_all(mine.records)
    with pytest.raises(CorruptError) as caught:
        fold.apply(other.records[2])
    assert (caught.value.kind, caught.value.place) == ("foreign", "conv-b@3")
    with pytest.raises(CorruptError, match="not a record of personas"):
        open_fold("personas", TRUST).apply(mine.records[0])


def test_c16_a_record_of_another_incarnation_is_refused():
    mine, other = Journal().open().start(), Journal(incarnation=b"\x02" * 16).open().start().say("planted")
    fold = fold_of(mine.records)
    with pytest.raises(CorruptError, match="incarnation in hand"):
        fold.apply(other.records[2])
    fold.apply(Journal().open().start().say("mine").records[2])


@pytest.mark.parametrize(("until", "texts"), [(103, []), (104, ["before"]), (105, ["before", "after"])])
def test_c17_a_key_counts_in_its_range_of_the_log_and_not_as_of_now(until, texts):
    """The messages stand at log indexes 103 and 104; the harness' key holds its role up to `until`."""
    journal = Journal().open().start().say("before").say("after").end()
    rows = journal.rows(Trust(keys=keyring(until={"harness": until})))
    assert column(rows, "messages", "text") == texts
    assert sum(anomalies(rows).values()) == 2 - len(texts)


def test_c17_a_receipts_key_is_judged_where_the_receipt_stands():
    journal = paid(paying(), jws())
    index = journal.records[-1].index
    ended = [column(journal.end().rows(trust(signer(revoked_at_index=at))), "settlement_verdicts", "verdict")
             for at in (index, index + 1)]  # fmt: skip
    assert ended == [["revoked_key"], ["settled"]]


def test_c18_texts_that_look_alike_stay_apart():
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    journal = Journal().open().start(composed).start(decomposed)
    journal.say("one", turn=composed, message_id=composed).say("two", turn=composed, message_id=decomposed)
    journal.call("\u212b", turn=composed).call("\u00c5", turn=composed)
    rows = journal.end(composed).rows()
    assert column(rows, "messages", "message_id") == [composed, decomposed]
    assert column(rows, "tool_calls", "tool_call_id") == ["conv-a:\u212b", "conv-a:\u00c5"]
    assert column(rows, "turns", "turn_id") == [composed]


@pytest.mark.parametrize("number", ["1.0", "1e0", '"1"', "true", "9223372036854775808", "1e400", "NaN", "-"])
def test_c18_a_number_that_is_no_integer_is_a_fault_and_never_rounded(number):
    journal = Journal().open().start()
    payload = f'{{"type":"usage","id":"u","turn_id":"t1","call_id":"c","input_tokens":{number}}}'
    place = journal.raw(BY_KIND["usage"].code, payload.encode(), by="harness").position
    with pytest.raises(CorruptError, match=f"conv-a@{place}"):
        journal.rows()


@pytest.mark.parametrize(("number", "value"), [("0", 0), ("-0", 0), ("-5", -5), ("null", None),
                                               ("9223372036854775807", 2**63 - 1)])  # fmt: skip
def test_c18_tokens_are_what_their_author_said(number, value):
    journal = Journal().open().start()
    for call in ("a", "b"):
        payload = f'{{"type":"usage","id":"u","turn_id":"t1","call_id":"{call}","input_tokens":{number}}}'
        journal.raw(BY_KIND["usage"].code, payload.encode(), by="harness")
    rows = journal.end().rows()
    assert column(rows, "usage", "input_tokens") == [value, value]
    total = warehouse(rows).execute("SELECT SUM(input_tokens) FROM usage").fetchone()
    assert total == (None if value is None else 2 * value,), "a sum does not overflow"


def test_c18_lone_surrogates_are_a_fault_of_their_event():
    journal = Journal().open().start()
    journal.raw(BY_KIND["usage"].code, b'{"type":"usage","id":"u","turn_id":"t1","call_id":"\\ud800"}', by="harness")
    with pytest.raises(CorruptError):
        journal.rows()


def unfinished():
    """A turn that paid, was refused something and linked a wallet, and then crashed."""
    journal = paid(paying(), jws())
    journal.add(
        e.Refusal(id="f", request_id="z", dispatch_id="d1", stage="policy"),
        e.WalletLink(id="k", wallet="0xada", network="eip155:1", state="linked", persona_id="ada"),
        by="edge",
    )
    return journal.say("half a sentence", role="assistant").result("x", text="paid", by="edge")


def test_c20_an_unfinished_turn_with_a_side_effect_is_in_no_table_of_turns():
    rows = unfinished().rows(trust())
    assert {table: rows[table] for table in TURN_TABLES} == {table: [] for table in TURN_TABLES}
    assert len(rows["refusals"]) == len(rows["wallet_link_lifecycle"]) == 1


def test_c20_the_same_turn_committed_is_in_all_of_them():
    journal = unfinished()
    journal.add(e.Usage(id="u", turn_id="t1", call_id="c"), e.ModelCall(id="c", turn_id="t1", call_id="c"))
    rows = journal.end().rows(trust())
    assert [table for table in TURN_TABLES if not rows[table]] == []


def test_c20_an_equal_turn_id_committed_in_another_conversation_makes_nothing_eligible():
    journal, other = unfinished(), Journal("conv-b").open().start("t1").say("there").end("t1")
    both = warehouse(journal.rows(trust()), other.rows(trust()))
    assert both.execute("SELECT partition, turn_id FROM turns").fetchall() == [("conv-b", "t1")]
    assert both.execute("SELECT partition, text FROM messages").fetchall() == [("conv-b", "there")]


@pytest.mark.parametrize("by", ["harness", "edge", "nobody"])
def test_c20_an_end_by_another_key_ends_nothing(by):
    rows = unfinished().end(by=by).rows(trust())
    assert rows["turns"] == []
    assert anomalies(rows) == {("unauthorised", "turn_complete"): 1}
