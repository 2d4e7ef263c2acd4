"""Spending checks: the same verdicts as the tables, over all turn states and conversations, record by record."""

from datetime import timedelta

import pytest
from msgspec import structs

from facts import events as e
from facts.payments import Recorded, Spending, settled_total, spend_partition, totals, window_start
from tests.facts.journal import NOON, Journal, anomalies, at, column
from tests.facts.payment import (
    ISSUED_AT,
    NETWORK,
    PAYER,
    STRANGER,
    asked,
    claims,
    decided,
    dispatched,
    jws,
    paid,
    paying,
    requested,
    signer,
    trust,
)


def settled(*journals, **conditions):
    records = [record for journal in journals for record in journal.records]
    return settled_total(records, trust(), asset="usdc", **conditions)


def test_a_settled_payment_is_spent():
    journal = paid(paying(), jws()).end()
    assert settled(journal) == sum(column(journal.rows(trust()), "payments", "amount_base_units")) == 10_000


def test_a_crash_before_the_commit_marker_bypasses_no_budget():
    assert settled(paid(paying(), jws())) == 10_000


def test_a_late_settlement_is_spent():
    assert settled(paid(paying().end(), jws())) == 10_000


def test_what_is_not_settled_is_not_spent():
    assert settled(paying().end()) == 0
    assert settled(paid(paying(), jws(claims(payer="0xeve")))) == 0
    assert settled(paid(asked(dispatched()), jws())) == 0


def test_a_transaction_is_spent_once_wherever_it_is_shown():
    first = paid(paying("conv-a"), jws())
    again = paid(paying("conv-b"), jws())
    again.records = [record.__class__(**{**fields(record), "index": record.index + 1000}) for record in again.records]
    for journals in ((first, again), (again, first)):
        spending = Spending(trust())
        for journal in journals:
            spending.take(journal.records)
        assert [fact.partition for fact in spending.payments()] == ["conv-a"]


def fields(record):
    return {name: getattr(record, name) for name in record.__struct_fields__}


def test_payments_are_found_by_persona_payer_conversation_asset_network_and_time():
    one = paid(paying("conv-a"), jws())
    other = paid(paying("conv-b"), jws(claims(transaction="0xAA02")))
    assert settled(one, other) == 20_000
    assert settled(one, other, persona="ada", payer=PAYER, network=NETWORK) == 20_000
    assert settled(one, other, persona="eve") == settled(one, other, payer="0xeve") == 0
    assert settled(one, other, network="eip155:1") == 0
    assert settled(one, other, since=NOON) == 20_000
    assert settled(one, other, since=at(60)) == 0
    spending = Spending(trust())
    spending.take(one.records + other.records)
    assert totals(spending.payments(partition="conv-b")) == {("usdc", NETWORK): 10_000}


def test_a_check_is_brought_up_to_date_with_what_is_new():
    journal = paid(paying(), jws())
    spending = Spending(trust())
    spending.take(journal.records)
    assert spending.next_position("conv-a") == len(journal.records) + 1
    assert spending.next_position("conv-b") == 1
    more = decided(requested(asked(journal)))
    paid(more, jws(claims(transaction="0xAA02", issuedAt=ISSUED_AT + 1)))
    spending.take(journal.records[spending.next_position("conv-a") - 1 :])
    assert totals(spending.payments()) == {("usdc", NETWORK): 20_000}


def test_one_by_one_and_all_at_once_are_the_same():
    journal = paid(paid(paying(), jws(claims(payer="0xeve"))), jws()).end()
    spending = Spending(trust())
    for record in journal.records:
        spending.take([record])
        spending.take([record])
    assert [fact.amount for fact in spending.payments()] == [10_000]


def test_an_incarnation_that_was_left_behind_stays_spent():
    old = paid(paying(), jws())
    new = Journal(incarnation=b"\x02" * 16).open()
    assert settled(old, new) == 10_000


def test_payments_of_an_import_satisfy_nothing_live():
    journal = Journal("conv-imp-a").open("codex", by="importer").start(by="importer")
    journal.add(e.ApprovalRequested(id="1", turn_id="t1", request_id="x", tool_name="pay"), by="importer")
    journal.add(e.ApprovalDecided(id="2", turn_id="t1", request_id="x", outcome="approved"), by="importer")
    journal.add(
        e.PaymentReceipt(id="3", turn_id="t1", tool_call_id="x", format="jws", receipt=jws()), by="importer"
    ).end(by="importer")
    rows = journal.rows(trust())
    assert column(rows, "settlement_verdicts", "verdict") == ["amount_mismatch"]
    assert settled(journal) == 0


def reserved(number, amount="500"):
    return e.SpendReserved(
        id="r", reservation_id=f"r{number}", conversation_id="a", tool_call_id="x", amount_base_units=amount, asset="usdc",
        network=NETWORK,
    )  # fmt: skip


def released(number, outcome, **fields):
    return e.SpendReleased(id="e", reservation_id=f"r{number}", outcome=outcome, network=NETWORK, **fields)


def test_what_is_reserved_counts_until_it_is_released_or_settled():
    journal = Journal("spend-ada").add(reserved(1), reserved(2), reserved(3), reserved(4), by="control")
    spending = Spending(trust())
    spending.take(journal.records)
    assert spending.reserved(persona="ada") == {("usdc", NETWORK): 2000}
    journal.add(
        released(1, "released"), released(2, "settled", transaction="0x1"), released(3, "expired"), by="control"
    )
    spending.take(journal.records)
    assert spending.reserved(persona="ada") == {("usdc", NETWORK): 500}
    assert spending.reserved(persona="eve") == {}


def test_a_reservation_whose_payment_is_known_does_not_count_twice():
    spending = Spending(trust())
    spending.take(Journal("spend-ada").add(reserved(1, "10000"), by="control").records)
    spending.take(paid(paying(reservation_id="r1"), jws()).records)
    assert totals(spending.payments(persona="ada")) == {("usdc", NETWORK): 10_000}
    assert spending.reserved(persona="ada") == {}


def test_spent_is_what_is_settled_and_what_is_reserved():
    spending = Spending(trust())
    spending.take(Journal("spend-ada").add(reserved(1), by="control").records)
    spending.take(paid(paying(), jws()).records)
    money = {"asset": "usdc", "network": NETWORK}
    assert spending.spent(**money, persona="ada") == 10_500
    assert spending.spent(**money, persona="ada", since=at(60)) == 500
    assert spending.spent(**money, wallet=PAYER.upper().replace("0X", "0x")) == 10_500
    assert spending.spent(asset="other", network=NETWORK, persona="ada") == 0


def test_partitions_without_money_are_passed_over():
    spending = Spending(trust())
    spending.take(Journal("personas").add(e.PersonaRecorded(id="1", persona_id="ada"), by="control").records)
    assert spending.payments() == []


def test_a_budget_is_not_passed_by_by_spelling_its_asset_in_another_case():
    lower, upper = "0xab01", "0xAB01"
    spending = Spending(trust())
    spending.take(paid(paying(asset=upper), jws()).records)
    journal = Journal("spend-ada").add(reserved(1), by="control")
    other = e.SpendReserved(
        id="r", reservation_id="r2", conversation_id="a", tool_call_id="y", amount_base_units="7", asset=upper,
        network=NETWORK,
    )  # fmt: skip
    spending.take(journal.add(other, by="control").records)
    for spelling in (lower, upper):
        assert spending.spent(persona="ada", asset=spelling, network=NETWORK) == 10_007
    assert spending.spent(persona="ada", asset="0xab02", network=NETWORK) == 0


def test_what_is_reserved_is_asked_of_one_conversation_or_of_all():
    spending = Spending(trust())
    spending.take(Journal("spend-ada").add(reserved(1), by="control").records)
    spending.take(Journal("spend-eve").add(reserved(2, "7"), by="control").records)
    assert spending.reserved() == spending.reserved(partition="conv-a") == {("usdc", NETWORK): 507}
    assert spending.reserved(persona="eve", partition="conv-a") == {("usdc", NETWORK): 7}
    assert spending.reserved(partition="conv-b") == {}


def test_one_transaction_in_two_networks_is_two_payments():
    base = paid(paying("conv-a"), jws())
    other = paid(paying("conv-b", network="eip155:1"), jws(claims(network="eip155:1")))
    spending = Spending(trust())
    spending.take([*base.records, *other.records])
    assert totals(spending.payments()) == {("usdc", NETWORK): 10_000, ("usdc", "eip155:1"): 10_000}


def wallet_reservation(number, payer, conversation="a"):
    return e.SpendReserved(
        id="r", reservation_id=f"r{number}", conversation_id=conversation, tool_call_id="x", amount_base_units="500",
        asset="usdc", network=NETWORK, payer=payer,
    )  # fmt: skip


@pytest.mark.parametrize("subject", ["ada", "eve", PAYER], ids=["ada", "eve", "the wallet itself"])
@pytest.mark.parametrize(("payer", "counted"), [(PAYER.lower(), 500), (PAYER, 500), (None, 500), ("0xother", 0)])
def test_a_wallets_reservations_are_whoevers_that_may_be_paid_from_it(subject, payer, counted):
    journal = Journal(spend_partition(subject)).add(wallet_reservation(1, payer), by="control")
    spending = Spending(trust())
    spending.take(journal.records)
    wanted = 500 if subject == PAYER else counted
    assert spending.spent(wallet=PAYER, asset="usdc", network=NETWORK) == wanted
    assert spending.reserved(wallet=PAYER.lower()) == ({("usdc", NETWORK): 500} if wanted else {})
    assert spending.spent(partition="conv-a", asset="usdc", network=NETWORK) == 500
    assert column(journal.rows(), "reservations", "payer") == [payer]


def test_a_released_reservation_keeps_its_payer():
    journal = Journal("spend-ada").add(wallet_reservation(1, PAYER), released(1, "released"), by="control")
    assert column(journal.rows(), "reservations", "payer") == [PAYER]


def test_one_transaction_spelt_in_two_ways_settles_one_reservation():
    journal = Journal("spend-ada").add(reserved(1), reserved(2), by="control")
    journal.add(released(1, "settled", transaction="0xAB"), released(2, "settled", transaction="0xab"), by="control")
    journal.add(released(2, "settled", transaction=""), by="control")
    rows = journal.rows()
    assert column(rows, "reservations", "status") == ["settled", "open"]
    assert anomalies(rows) == {("receipt_used_before", "spend_released"): 2}


def test_a_window_reaches_back_to_its_very_first_instant():
    journal = paid(paying(), jws())
    (fact,) = taken(journal).payments()
    for window_s, amount in ((60, 10_000), (59, 0)):
        since = window_start(fact.recorded_at + timedelta(seconds=60), window_s)
        assert taken(journal).spent(persona="ada", asset="usdc", network=NETWORK, since=since) == amount
    for window_s in (2**31, 2**63):
        assert window_start(NOON, window_s) < NOON


def taken(*journals, one_by_one=False):
    spending = Spending(trust())
    for journal in journals:
        for records in [[record] for record in journal.records] if one_by_one else [journal.records]:
            spending.take(records)
    return spending


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_payment_is_whoevers_the_turn_is_found_to_be_however_it_is_read(one_by_one):
    journal = Journal("conv-a").open().start("t1", dispatch_id="d1")
    paid(decided(requested(asked(journal, reservation_id="r1"))), jws())
    assert taken(journal, one_by_one=one_by_one).payments(persona="ada") == []
    journal.intend("t1", "d2", persona_id="ada").intend("t1", "d3", persona_id="eve")
    spending = taken(journal, one_by_one=one_by_one)
    assert [fact.amount for fact in spending.payments(persona="ada")] == [10_000]
    assert spending.payments(persona="eve") == []
    assert spending.payment_of("r1") == spending.payments()[0]


def test_the_reservation_of_a_payment_that_was_shown_before_is_not_paid():
    first, again = paid(paying("conv-a", reservation_id="r1"), jws()), paying("conv-b", reservation_id="r2")
    again.records = [structs.replace(record, index=record.index - 50) for record in paid(again, jws()).records]
    spending = taken(first)
    assert spending.payment_of("r1") is not None
    spending.take(again.records)
    assert spending.payment_of("r1") is None
    assert spending.payment_of("r2") == spending.payments()[0]


def test_a_receipt_is_known_to_have_settled_elsewhere_before_it_is_recorded():
    spending = taken(paid(paying("conv-a"), jws()))
    assert spending.settled_before("jws", jws(), index=500).partition == "conv-a"
    assert spending.settled_before("jws", jws(claims(transaction="0xaa01")), index=500).partition == "conv-a"
    assert spending.settled_before("jws", jws(claims(transaction="0xAA02")), index=500) is None
    assert spending.settled_before("jws", jws(key=STRANGER), index=500) is None


# -- what was erased


def erased(journal, *positions):
    """The journal's records without the payloads of these positions (of none: of all)."""
    gone = positions or [record.position for record in journal.records]
    return [structs.replace(r, payload=None) if r.position in gone else r for r in journal.records]


def reservation(*, subject="ada", payer=PAYER, settled="0xAA01", conversation="conv-a"):
    journal = Journal(spend_partition(subject)).add(
        e.SpendReserved(
            id="1", reservation_id="r1", conversation_id=conversation, tool_call_id="x", amount_base_units="10000",
            asset="usdc", network=NETWORK, payer=payer,
        ),
        by="control",
    )  # fmt: skip
    if settled:
        end = e.SpendReleased(id="2", reservation_id="r1", outcome="settled", network=NETWORK, transaction=settled)
        journal.add(end, by="control")
    return journal.records


def spent(*runs, judged_by=None, **subject):
    spending = Spending(judged_by or trust())
    for records in runs:
        spending.take(records)
    return spending.spent(asset="usdc", network=NETWORK, **subject)


@pytest.mark.parametrize("subject", [{"persona": "ada"}, {"wallet": PAYER}, {"partition": "conv-a"}])
def test_a_payment_counts_once_whether_its_conversation_was_erased_or_not(subject):
    journal = paid(paying(reservation_id="r1"), jws())
    for conversation in (
        journal.records,
        erased(journal),
        erased(journal, 2, 3),
        erased(journal, len(journal.records)),
    ):
        for runs in ((conversation, reservation()), (reservation(), conversation)):
            assert spent(*runs, **subject) == 10_000
    assert spent(erased(journal), reservation(settled=None), **subject) == 10_000  # still open: reserved
    assert spent(erased(journal), **subject) == 0  # the sibling: without the record beside it nothing is known
    assert spent(erased(journal), reservation(), persona="eve") == 0


def test_a_settled_reservation_is_no_second_opinion_on_a_conversation_that_stands():
    journal = paid(paying(reservation_id="r1"), jws())
    elsewhere = trust(signer(key=STRANGER))  # by whom the receipt is a forgery
    assert spent(journal.records, reservation(), judged_by=elsewhere, persona="ada") == 0
    assert spent(erased(journal), reservation(conversation="conv-b"), persona="ada") == 0


def test_the_record_that_names_the_payer_is_the_one_that_counts():
    journal = paid(paying(reservation_id="r1"), jws())
    silent, named = reservation(payer=None), reservation(subject=PAYER)
    for runs in ((silent, named), (named, silent)):
        assert spent(erased(journal), *runs, wallet=PAYER) == 10_000
        assert spent(erased(journal), *runs, persona="ada") == 10_000
    assert spent(erased(journal), silent, wallet=PAYER) == 0


def test_what_is_on_record_of_a_payment_is_told_per_subject():
    journal = paid(paying(reservation_id="r1"), jws())
    spending = Spending(trust())
    spending.take(journal.records)
    [fact] = spending.payments()
    assert spending.recorded(fact, subject="ada") is None
    spending.take(reservation(settled=None, payer=None))
    assert spending.recorded(fact, subject="ada") == Recorded(is_open=True, names_payer=False)
    assert spending.recorded(structs.replace(fact, reservation_id=None), subject="ada") is None
    spending = Spending(trust())
    spending.take(reservation())
    assert spending.recorded(fact, subject="ada") == Recorded(is_open=False, names_payer=True)
    assert spending.recorded(structs.replace(fact, nonce="other"), subject="ada") is None


def test_a_receipt_of_an_erased_payment_is_known():
    journal = paid(paying(reservation_id="r1"), jws())
    spending = Spending(trust())
    spending.take([*erased(journal), *reservation()])
    known = spending.settled_before("jws", jws(), index=99)
    assert (known.partition, known.amount, known.reference) == ("conv-a", 10_000, "0xAA01")
    assert spending.settled_before("jws", jws(claims(transaction="0xAA02")), index=99) is None
