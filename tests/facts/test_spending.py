"""Spending checks: the same verdicts as the tables, over all turn states and conversations, record by record."""

from facts import events as e
from facts.payments import Spending, settled_total, totals
from tests.facts.journal import NOON, Journal, at, column
from tests.facts.payment import (
    ISSUED_AT,
    NETWORK,
    PAYER,
    asked,
    claims,
    decided,
    dispatched,
    jws,
    paid,
    paying,
    requested,
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
    assert spending.reserved("ada") == {("usdc", NETWORK): 2000}
    journal.add(
        released(1, "released"), released(2, "settled", transaction="0x1"), released(3, "expired"), by="control"
    )
    spending.take(journal.records)
    assert spending.reserved("ada") == {("usdc", NETWORK): 500}
    assert spending.settled_references("ada") == {"0x1"}
    assert spending.reserved("eve") == {}
    assert spending.settled_references("eve") == frozenset()


def test_a_reservation_whose_payment_is_known_does_not_count_twice():
    spending = Spending(trust())
    spending.take(Journal("spend-ada").add(reserved(1, "10000"), by="control").records)
    spending.take(paid(paying(reservation_id="r1"), jws()).records)
    assert totals(spending.payments(persona="ada")) == {("usdc", NETWORK): 10_000}
    assert spending.reserved("ada") == {}


def test_spent_is_what_is_settled_and_what_is_reserved():
    spending = Spending(trust())
    spending.take(Journal("spend-ada").add(reserved(1), by="control").records)
    spending.take(paid(paying(), jws()).records)
    money = {"asset": "usdc", "network": NETWORK}
    assert spending.spent(**money, persona="ada") == 10_500
    assert spending.spent(**money, persona="ada", since=at(60)) == 500
    assert spending.spent(**money, wallet=PAYER.upper().replace("0X", "0x")) == 10_000
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
    assert spending.reserved("eve", partition="conv-a") == {("usdc", NETWORK): 7}
    assert spending.reserved(partition="conv-b") == {}


def test_one_transaction_in_two_networks_is_two_payments():
    base = paid(paying("conv-a"), jws())
    other = paid(paying("conv-b", network="eip155:1"), jws(claims(network="eip155:1")))
    spending = Spending(trust())
    spending.take([*base.records, *other.records])
    assert totals(spending.payments()) == {("usdc", NETWORK): 10_000, ("usdc", "eip155:1"): 10_000}
