"""Odd events, each named and harmless: what contradicts, repeats or comes from nowhere changes no row."""

import msgspec
import pytest

from facts import anomalies as a
from facts import events as e
from facts.deployment import Nothing, kind_of
from facts.intake import utc
from polyc.keyring import KeyAdded, KeyRevoked
from polyc.vocabulary import BY_KIND
from tests.facts.journal import NOON, SIGNERS, Journal, anomalies, at, column
from tests.facts.payment import asked, claims, decided, jws, paid, paying, requested, trust


def added(**changes):
    control = SIGNERS["control"]
    fields = {
        "key_id": control.key_id.hex(),
        "public_key": control.public_key.hex(),
        "role": "control",
        "from_index": 0,
    }
    return KeyAdded(id="1", **fields | changes)


def keys(*events):
    journal = Journal("sys-keys")
    for event in events:
        journal.raw(BY_KIND[event.__struct_config__.tag].code, msgspec.json.encode(event), by="root")
    return journal.rows()


def test_key_events_that_contradict_change_nothing():
    key_id = added().key_id
    rows = keys(
        added(), added(), KeyRevoked(id="2", key_id="ff" * 8, from_index=1), added(key_id="01", public_key="zz")
    )
    assert column(rows, "signer_keys", "key_id") == [key_id]
    assert set(anomalies(rows)) == {
        ("repeated_key", "key_added"), ("revokes_unknown_key", "key_revoked"), ("malformed_key", "key_added"),
    }  # fmt: skip


def test_the_earliest_revocation_of_a_key_counts():
    revoked = [KeyRevoked(id=str(n), key_id=added().key_id, from_index=n) for n in (20, 10, 30)]
    assert column(keys(added(), *revoked), "signer_keys", "revoked_at") == [10]


def budget(amount="1", **fields):
    terms = {"subject_kind": "persona", "subject": "ada", "asset": "usdc", "network": "n"}
    return e.BudgetSet(id="b", amount_base_units=amount, **terms | fields)


def test_of_budgets_the_last_word_counts_however_the_account_is_spelt_and_one_that_means_nothing_is_not_heard():
    wallet = {"subject_kind": "wallet", "subject": "0xAB", "asset": "0xCD"}
    events = [
        budget(), budget("x"), budget("2"), budget("3", window_s=0), budget("4", window_s=-60), budget("5", **wallet),
        budget("6", **wallet | {"subject": "0xab", "asset": "0xcd"}), budget("7", subject="Ada"),
    ]  # fmt: skip
    rows = Journal("budgets").add(*events, by="control").rows()
    assert sorted(column(rows, "budgets", "amount_base_units")) == [2, 6, 7]
    assert anomalies(rows) == {("amount_malformed", "budget_set"): 1, ("window_malformed", "budget_set"): 2}


@pytest.mark.parametrize("name", ["budgets-x", "pricesx", "personas-2", "sys-keys-x", "spend"])
def test_a_partition_whose_name_only_begins_like_a_kinds_is_of_no_kind(name):
    assert kind_of(name).fold is Nothing


def test_reservations_that_contradict_change_nothing():
    reserve = e.SpendReserved(
        id="r",
        reservation_id="r1",
        conversation_id="conv-a",
        tool_call_id="x",
        amount_base_units="5",
        asset="usdc",
        network="n",
    )
    release = e.SpendReleased(id="e", reservation_id="r1", outcome="released")
    unknown = e.SpendReleased(id="e", reservation_id="r9", outcome="released")
    journal = Journal("spend-ada").add(budget(), reserve, reserve, release, release, unknown, by="control")
    rows = journal.rows()
    assert column(rows, "budgets", "amount_base_units") == []  # a budget that no check would count is shown nowhere
    assert column(rows, "reservations", "status") == ["released"]
    assert anomalies(rows) == {
        ("misplaced", "budget_set"): 1,
        ("repeated_reservation", "spend_reserved"): 1,
        ("release_without_reservation", "spend_released"): 2,
    }


def test_a_settlement_names_its_transaction():
    reserve = e.SpendReserved(
        id="r",
        reservation_id="r1",
        conversation_id="a",
        tool_call_id="x",
        amount_base_units="5",
        asset="usdc",
        network="n",
    )
    settle = e.SpendReleased(id="e", reservation_id="r1", outcome="settled", network="n")
    assert column(Journal("spend-ada").add(reserve, settle, by="control").rows(), "reservations", "status") == ["open"]


def test_a_conversation_is_opened_once():
    journal = Journal().open().add(e.ConversationOpened(id="o", origin="codex", conversation_id="x"), by="control")
    rows = journal.start().end().rows()
    assert column(rows, "sessions", "origin") == ["live"]
    assert anomalies(rows) == {("repeated_marker", "conversation_opened"): 1}


def test_a_conversation_that_was_never_opened_is_live():
    assert column(Journal().start().end().rows(), "turns", "origin") == ["live"]


def test_an_update_of_a_turn_that_is_over_is_not_heard():
    journal = Journal().open().start().end().add(e.SessionUpdated(id="u", turn_id="t1", title="late"))
    rows = journal.rows()
    assert column(rows, "sessions", "title") == [None]
    assert anomalies(rows) == {("after_end", "session_updated"): 1}


def test_who_never_joined_cannot_leave():
    rows = Journal().open().add(e.ParticipantLeft(id="1", persona_id="ada"), by="control").rows()
    assert rows["persona_participation"] == []
    assert anomalies(rows) == {("leave_without_join", "participant_left"): 1}


def test_a_decision_without_a_request_changes_nothing():
    rows = decided(Journal().open().intend().start()).end().rows()
    assert rows["approvals"] == []
    assert anomalies(rows) == {("decision_without_request", "approval_decided"): 1}


def test_a_second_decision_changes_nothing():
    rows = decided(paying(), outcome="denied").end().rows()
    assert column(rows, "approvals", "outcome") == ["approved"]


@pytest.mark.parametrize("ask", [requested, decided, asked])
def test_an_edge_event_of_an_unknown_dispatch_is_counted(ask):
    rows = ask(Journal().open().start(), dispatch="d9").end().rows()
    assert list(anomalies(rows).values()) == [1]
    assert {kind for kind, _ in anomalies(rows)} == {"unknown_dispatch"}


def test_a_receipt_of_an_unknown_dispatch_is_judged_by_nobody():
    rows = paid(Journal().open().start(), jws(), dispatch="d9").end().rows(trust())
    assert rows["settlement_verdicts"] == []
    assert anomalies(rows) == {("unknown_dispatch", "payment_receipt"): 1}


def test_a_repeated_intent_changes_nothing():
    intent = e.QueryIntent(
        id="1", query_id="q", credential_id="g", subject="ada", realm="fleet", surface="execute", statement="SELECT 1",
        statement_sha256="00",
    )  # fmt: skip
    rows = Journal("query-audit-e-20261101").add(intent, intent, by="query").rows()
    assert len(rows["query_audit_intents"]) == 1
    assert anomalies(rows) == {("repeated_intent", "query_intent"): 1}


def test_an_outcome_without_an_intent_is_kept_and_named():
    outcome = e.QueryOutcome(id="1", query_id="q", status="ok")
    rows = Journal("query-audit-e-20261101").add(outcome, by="query").rows()
    assert len(rows["query_audit_outcomes"]) == 1
    assert anomalies(rows) == {("outcome_without_intent", "query_outcome"): 1}


def test_the_first_link_names_the_parent_and_all_are_rows():
    def link(parent, root=None):
        return e.SessionLink(id="l", kind="fork", parent_partition=parent, evidence="prefix", root_partition=root)

    journal = Journal().open().add(link("conv-p", "conv-r"), link("conv-q"), by="control").start().end()
    rows = journal.rows()
    assert column(rows, "session_links", "parent_partition") == ["conv-p", "conv-q"]
    assert column(rows, "session_links", "root_partition") == ["conv-r", "conv-q"]
    assert column(rows, "sessions", "root_partition") == ["conv-r"]


def test_a_boundarys_call_is_named_like_the_call():
    def used(journal, turn, call="c1"):
        journal.add(e.Usage(id="u", turn_id=turn, call_id=call, input_tokens=1))
        journal.add(e.ContextSnapshot(id="b", turn_id=turn, boundary="compaction", call_id=call))
        return journal.add(e.ContextSnapshot(id="b", turn_id=turn, boundary="resume")).end(turn)

    journal = used(Journal().open().start("t1"), "t1")
    rows = used(journal.start("t2").add(e.Usage(id="u", turn_id="t2", call_id="c2")), "t2").rows()
    assert column(rows, "context_boundaries", "call_id") == ["conv-a:c1", None, "conv-a:c1#2", None]
    assert column(rows, "usage", "call_id") == ["conv-a:c1", "conv-a:c2", "conv-a:c1#2"]


def test_a_call_without_an_id_has_none():
    rows = Journal().open().start().call("").result("").end().rows()
    assert column(rows, "tool_calls", "tool_call_id") == [None, None]


def test_a_repeated_empty_id_is_still_none():
    rows = Journal().open().start().call("").call("").end().rows()
    assert column(rows, "tool_calls", "tool_call_id") == [None, None]


def test_only_calls_of_superseded_messages_are_marked():
    journal = Journal().open().start().call("1", message_id="m").call("2", message_id="n").end()
    rows = journal.add(e.Superseded(id="z", reason="rewound", message_ids=("m",)), by="control").rows()
    assert column(rows, "tool_calls", "superseded") == [True, False]


def test_a_routine_that_only_ended_has_no_start():
    event = e.RoutineRun(id="1", run_id="1", routine="r", trigger="clock", status="failed", ended_at=at(1))
    assert column(Journal("routines").add(event, by="control").rows(), "routine_runs", "started_at") == [None]


def test_a_person_may_judge_without_repeating_the_text():
    def claim(state, **fields):
        return e.Assertion(id="a", assertion_id="1", kind="note", state=state, author_kind="person", **fields)

    journal = (
        Journal().open().add(claim("active", text="so it is", target_message_id="m"), claim("rejected"), by="control")
    )
    assert [row[5:] for row in journal.rows()["assertions"]] == [("1", "note", "rejected", "person", "so it is", "m")]


def test_a_partition_of_no_kind_holds_notices_alone():
    assert kind_of("something").fold is Nothing
    assert Nothing().rows() == {}
    with pytest.raises(AssertionError):
        Nothing().apply(None, None)
    rows = Journal("something").add(e.Gap(id="1", detail="x"), budget(), by="control").rows()
    assert len(rows["journal_notices"]) == 1
    assert anomalies(rows) == {("misplaced", "budget_set"): 1}


def test_kinds_of_anomalies_are_bounded(monkeypatch):
    monkeypatch.setattr(a, "ANOMALY_KINDS_MAX", 2)
    found = a.Anomalies()
    for number in range(5):
        found.count("unknown_event", str(number), position=number + 1, at=NOON)
    assert [row[5:] for row in found.rows("p", "i")] == [
        ("unknown_event", "0", 1, 1), ("unknown_event", "1", 1, 2), ("unknown_event", "other", 3, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+05:00"])
def test_a_time_that_leaves_the_calendar_is_unknown(text):
    from datetime import datetime

    assert utc(datetime.fromisoformat(text)) is None


def test_an_imported_turn_without_times_has_no_duration():
    journal = (
        Journal("conv-imp-a").open("codex", by="importer").start(by="importer").end(by="importer", occurred_at=at(1))
    )
    assert column(journal.rows(), "turns", "duration_ms") == [None]
    assert column(journal.rows(), "turns", "started_at") == [None]


def test_a_live_turn_without_times_began_and_ended_when_that_was_recorded():
    rows = Journal().open().start().say().end().rows()
    (started_at, recorded_at) = (column(rows, "turns", name)[0] for name in ("started_at", "recorded_at"))
    assert started_at == recorded_at
    assert column(rows, "turns", "duration_ms") == [2000]


def test_a_turn_that_runs_backwards_took_no_time():
    rows = Journal().open().start(occurred_at=at(2)).end(occurred_at=at(1)).rows()
    assert column(rows, "turns", "duration_ms") == [0]


@pytest.mark.parametrize(
    ("payload", "detail"),
    [(b"[]", "json"), (b'"x"', "json"), (b"\xff", "json"), (b"{}", "version"), (b'{"version":1}', "payload")],
)
def test_a_receipts_payload_is_an_object(payload, detail):
    rows = paid(paying(), jws(payload)).end().rows(trust())
    assert column(rows, "settlement_verdicts", "detail") == [detail]


def test_a_receipt_with_a_signature_of_another_size_is_no_ecdsa():
    from tests.facts.payment import P256, b64, signer

    header, body, _ = jws(claims(), key=P256, alg="ES256").split(".")
    rows = paid(paying(), f"{header}.{body}.{b64(b'x' * 63)}").end().rows(trust(signer(key=P256, algorithm="ES256")))
    assert column(rows, "settlement_verdicts", "verdict") == ["bad_signature"]


def test_records_of_one_append_share_their_time():
    journal = Journal().open().start().say("a").say("b").end()
    same = journal.records[0].recorded_at_us
    journal.records = [
        record.__class__(
            **{name: getattr(record, name) for name in record.__struct_fields__} | {"recorded_at_us": same}
        )
        for record in journal.records
    ]
    assert len(set(column(journal.rows(), "messages", "recorded_at"))) == 1


def test_the_text_of_a_document_is_its_blocks_and_not_the_messages():
    blocks = (e.Block(type="document", text="attached"), e.Block(type="text", text="see there"))
    rows = Journal().open().start().say(blocks=blocks).end().rows()
    assert column(rows, "messages", "text") == ["see there"]
    assert column(rows, "blocks", "text") == ["attached", "see there"]


def test_a_file_is_named_in_several_ways_and_by_calls_of_any_kind():
    journal = Journal().open().start()
    for native, action, path in (("1", "search", "/a/b"), ("2", "file_read", "/a/b"), ("3", "file_write", "/a/./b")):
        journal.call(native, action=action, path=path)
    rows = journal.end().rows()
    assert [row[5:9] for row in rows["files"]] == [("/a/b", 3, 1, 1)]


def test_a_spending_check_reads_where_a_conversation_comes_from_once():
    from facts.payments import settled_total

    journal = paying().add(e.ConversationOpened(id="o", origin="codex", conversation_id="x"), by="control")
    assert settled_total(paid(journal, jws()).records, trust(), asset="usdc") == 10_000


def test_the_first_dispatch_that_names_somebody_says_for_whom_a_turn_ran():
    journal = Journal().open().intend("t1", "d1").intend("t1", "d2", persona_id="ada", harness="demo").start("t1")
    rows = journal.end().rows()
    assert column(rows, "turns", "dispatch_id") == ["d1"]
    assert column(rows, "turns", "persona_id") == ["ada"]
    assert column(rows, "turns", "harness") == ["demo"]
    from facts.payments import Spending

    journal = Journal().open().intend("t1", "d1").start("t1", persona_id="eve")
    spending = Spending(trust())
    spending.take(paid(decided(requested(asked(journal.call("x")))), jws()).records)
    assert [fact.persona for fact in spending.payments()] == ["eve"]


def test_a_boundary_of_a_call_that_other_turns_made_keeps_the_calls_own_name():
    def used(journal, turn):
        return journal.add(e.Usage(id="u", turn_id=turn, call_id="c1")).end(turn)

    journal = used(used(Journal().open().start("t1"), "t1").start("t2"), "t2").start("t3")
    journal.add(e.ContextSnapshot(id="b", turn_id="t3", boundary="resume", call_id="c1"))
    assert column(journal.end("t3").rows(), "context_boundaries", "call_id") == ["conv-a:c1"]


def test_times_with_any_offset_stand_in_utc():
    from datetime import UTC, timedelta, timezone

    there = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))
    journal = Journal().open().start(occurred_at=there).say(occurred_at=there).call(occurred_at=there)
    journal.result(occurred_at=there).add(
        e.ModelCall(id="c", turn_id="t1", call_id="c", started_at=there, ended_at=there + timedelta(seconds=1))
    )
    rows = journal.end(occurred_at=there).rows()
    times = column(rows, "messages", "occurred_at") + column(rows, "tool_calls", "occurred_at")
    times += column(rows, "model_call", "started_at") + column(rows, "turns", "started_at")
    assert times == [NOON] * 5
    assert {time.tzinfo for time in times + column(rows, "model_call", "ended_at")} == {UTC}
    assert column(rows, "model_call", "latency_ms") == [1000]
