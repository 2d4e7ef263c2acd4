"""Payments: settled means that every check passed; each check has its own verdict."""

from decimal import Decimal

import pytest

from facts import events as e
from facts.catalog import TABLES
from facts.payments import settled_total
from tests.facts.journal import NOON, Journal, anomalies, at, column
from tests.facts.payment import (
    ED,
    ISSUED_AT,
    K256,
    NETWORK,
    P256,
    PAYER,
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
from tests.facts.warehouse import warehouse


def verdicts(journal, by=None):
    rows = journal.end().rows(by or trust())
    return list(
        zip(column(rows, "settlement_verdicts", "verdict"), column(rows, "settlement_verdicts", "detail"), strict=True)
    )


def test_a_payment_that_passes_every_check_is_settled():
    rows = paid(paying(), jws()).end().rows(trust())
    (row,) = rows["payments"]
    payment = dict(zip(TABLES["payments"].column_names, row, strict=True))
    assert payment["tool_call_id"] == "conv-a:x"
    assert payment["reference"] == "0xAA01"
    assert payment["amount_base_units"] == Decimal(10_000)
    assert (payment["payer"], payment["payee"], payment["network"]) == (PAYER, "0xshop", NETWORK)
    assert int(payment["settled_at"].timestamp()) == ISSUED_AT
    assert column(rows, "settlement_verdicts", "verdict") == ["settled"]
    assert column(rows, "approvals", "request_id") == column(rows, "tool_calls", "tool_call_id") == ["conv-a:x"]


@pytest.mark.parametrize(("alg", "key"), [("EdDSA", ED), ("ES256", P256), ("ES256K", K256)])
def test_three_algorithms_settle(alg, key):
    receipt = jws(key=key, alg=alg)
    assert verdicts(paid(paying(), receipt), trust(signer(key=key, algorithm=alg))) == [("settled", None)]


def test_an_unapproved_payment_is_not_settled():
    assert verdicts(paid(asked(dispatched()), jws())) == [("unapproved", "never_requested")]
    assert verdicts(paid(requested(asked(dispatched())), jws())) == [("unapproved", "undecided")]
    denied = decided(requested(asked(dispatched())), outcome="denied")
    assert verdicts(paid(denied, jws())) == [("unapproved", "denied")]


def test_approval_comes_before_payment():
    journal = paid(requested(asked(dispatched())), jws())
    assert verdicts(decided(journal)) == [("unapproved", "undecided")]


def test_an_approval_of_another_turn_approves_nothing_here():
    journal = decided(requested(dispatched(turn="t1", dispatch="d1")), dispatch="d1").end("t1")
    journal.intend("t2", "d2").start("t2")
    rows = paid(asked(journal, dispatch="d2"), jws(), dispatch="d2").end("t2").rows(trust())
    assert column(rows, "settlement_verdicts", "verdict") == ["unapproved"]


def test_one_approval_pays_for_one_payment():
    journal = paid(paid(asked(paying()), jws()), jws(claims(transaction="0xAA02")))
    assert verdicts(journal) == [("settled", None), ("unapproved", "used_before")]


@pytest.mark.parametrize("transaction", ["0xAA01", "0xaa01", "0XAA01"])
def test_a_transaction_settles_once(transaction):
    journal = requested(asked(paid(paying(), jws())))
    assert verdicts(paid(decided(journal), jws(claims(transaction=transaction, issuedAt=ISSUED_AT + 1)))) == [
        ("settled", None),
        ("duplicate", "settled_before"),
    ]


def test_a_second_receipt_for_one_asking_is_a_duplicate():
    journal = paid(paid(paying(), jws()), jws(claims(transaction="0xAA02")))
    assert verdicts(journal) == [("settled", None), ("duplicate", "paid_before")]


def test_a_claim_without_a_transaction_settles_once_whatever_its_signature():
    first, second = (jws(claims(transaction=None), key=P256, alg="ES256") for _ in range(2))
    assert first != second, "ECDSA signs the same bytes in many ways"
    journal = decided(requested(asked(paid(paying(), first))))
    by = trust(signer(key=P256, algorithm="ES256"))
    assert verdicts(paid(journal, second), by) == [("settled", None), ("duplicate", "settled_before")]


def test_a_forged_receipt_does_not_use_up_the_true_one():
    journal = paid(paid(paying(), jws(claims(payer="0xeve"))), jws())
    assert verdicts(journal) == [("wrong_payer", "payer"), ("settled", None)]


@pytest.mark.parametrize(
    ("terms", "change", "verdict"),
    [
        ({"resource": "https://api.example/other"}, {}, ("wrong_resource", "resource")),
        ({"network": "eip155:1"}, {}, ("wrong_resource", "network")),
        ({"payer": "0x01"}, {}, ("wrong_payer", "payer")),
        ({"payer": PAYER.lower()}, {}, ("settled", None)),
        ({"payer": None}, {}, ("settled", None)),
        ({"amount_base_units": "9" * 38}, {}, ("settled", None)),
        ({"amount_base_units": "9" * 39}, {}, ("malformed", "amount")),
        ({"amount_base_units": "1.5"}, {}, ("malformed", "amount")),
        ({}, {"amount": "10000"}, ("settled", None)),
        ({}, {"amount": "9999"}, ("amount_mismatch", "amount")),
        ({}, {"asset": "other"}, ("amount_mismatch", "asset")),
        ({}, {"issuedAt": ISSUED_AT - 3600}, ("expired", "issued_before_it_was_asked")),
        ({}, {"issuedAt": ISSUED_AT + 3600}, ("expired", "issued_after_it_was_recorded")),
    ],
)
def test_the_receipt_must_be_of_what_was_asked(terms, change, verdict):
    assert verdicts(paid(paying(**terms), jws(claims(**change)))) == [verdict]


@pytest.mark.parametrize(
    "amount",
    ["", "-1", "+1", "1e3", "0x10", " 1", "1 ", "1_000", "1,000", "\u0663", "\u00b2", "NaN", "Infinity", "1.0", "1\n"],
)
def test_an_amount_that_is_not_plain_digits_settles_nothing(amount):
    assert verdicts(paid(paying(amount_base_units=amount), jws())) == [("malformed", "amount")]


@pytest.mark.parametrize(("amount", "value"), [("0", 0), ("00010000", 10_000), ("9" * 38, 10**38 - 1)])
def test_amounts_are_exact_from_the_receipt_to_the_engine(amount, value):
    from facts.payments import settled_total

    journal = paid(paying(amount_base_units=amount), jws())
    rows = journal.end().rows(trust())
    assert settled_total(journal.records, trust(), asset="usdc") == value
    query = "SELECT amount_base_units, SUM(amount_base_units) FROM payments GROUP BY 1"
    assert warehouse(rows).execute(query).fetchall() == [(value, value)]


def test_a_denial_after_the_approval_takes_nothing_back_and_one_before_it_stands():
    assert verdicts(paid(decided(paying(), outcome="denied"), jws())) == [("settled", None)]
    denied = decided(decided(requested(asked(dispatched())), outcome="denied"))
    assert verdicts(paid(denied, jws())) == [("unapproved", "denied")]


@pytest.mark.parametrize("outcome", ["denied", "expired", "cancelled"])
def test_only_an_approval_approves(outcome):
    journal = decided(requested(asked(dispatched())), outcome=outcome)
    assert verdicts(paid(journal, jws())) == [("unapproved", outcome)]


def test_an_approval_of_another_call_approves_nothing_here():
    journal = decided(requested(asked(dispatched()), native="y"), native="y")
    assert verdicts(paid(journal, jws())) == [("unapproved", "never_requested")]


def test_positions_say_what_came_first_whatever_the_clocks_say():
    """C14's kind: the approval's own time lies after the payment's, its place in the log before it."""
    from facts import events as e
    from tests.facts.journal import at

    journal = requested(asked(dispatched()))
    late = e.ApprovalDecided(id="b", dispatch_id="d1", request_id="x", outcome="approved", occurred_at=at(600))
    assert verdicts(paid(journal.add(late, by="edge"), jws())) == [("settled", None)]


def test_an_asset_in_another_case_is_the_same_asset():
    address = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
    journal = paid(paying(asset=address), jws(claims(asset=address.lower())))
    assert verdicts(journal) == [("settled", None)]


def test_a_receipt_issued_after_the_offers_expiry_is_expired():
    from tests.facts.journal import at

    assert verdicts(paid(paying(expires_at=at(0)), jws())) == [("expired", "issued_too_late")]


def test_what_was_never_asked_settles_nothing():
    journal = decided(requested(dispatched()))
    assert verdicts(paid(journal, jws())) == [("amount_mismatch", "nothing_was_asked")]


def test_a_reference_beside_the_receipt_must_agree():
    assert verdicts(paid(paying(), jws(), reference="0xaa01")) == [("settled", None)]
    assert verdicts(paid(paying(), jws(), reference="0xbb")) == [("malformed", "reference_differs")]


def test_a_late_receipt_is_no_row_but_settles_its_transaction():
    journal = paid(paying().end("t1"), jws())
    rows = journal.rows(trust())
    assert rows["payments"] == rows["settlement_verdicts"] == []
    assert anomalies(rows) == {("after_end", "payment_receipt"): 1}


def test_a_payment_of_an_unfinished_turn_is_in_no_table():
    rows = paid(paying(), jws()).rows(trust())
    assert rows["payments"] == rows["settlement_verdicts"] == rows["approvals"] == []


def test_only_an_edge_reports_receipts():
    from facts import events as e

    journal = paying()
    event = e.PaymentReceipt(id="p", dispatch_id="d1", tool_call_id="x", format="jws", receipt=jws())
    assert verdicts(journal.add(event, by="harness")) == []


def test_approvals_and_payments_of_a_repeated_call_id_join():
    journal = paid(paying(), jws())
    again = decided(requested(asked(journal.call("x", name="pay"))))
    rows = paid(again, jws(claims(transaction="0xAA02"))).end().rows(trust())
    assert column(rows, "approvals", "request_id") == ["conv-a:x", "conv-a:x#2"]
    assert column(rows, "payments", "tool_call_id") == ["conv-a:x", "conv-a:x#2"]


def test_a_payment_an_approval_and_their_call_share_an_id_though_an_earlier_call_that_bore_it_needed_neither():
    journal = Journal().open().start("t0").call("x", "t0", name="Read").result("x", "t0").end("t0")
    journal.intend("t1", "d1", persona_id="ada").start("t1")
    decided(requested(asked(journal)))  # the request may be on record before the call that it is about
    rows = paid(journal.call("x", "t1", name="pay"), jws()).end("t1").rows(trust())
    assert column(rows, "tool_calls", "tool_call_id") == ["conv-a:x", "conv-a:x", "conv-a:x#2"]
    assert column(rows, "approvals", "request_id") == ["conv-a:x#2"]
    assert column(rows, "payments", "tool_call_id") == column(rows, "settlement_verdicts", "tool_call_id")
    joined = """SELECT c.name, a.outcome, p.reference FROM tool_calls c
        JOIN approvals a ON a.request_id = c.tool_call_id JOIN payments p ON p.tool_call_id = c.tool_call_id"""
    assert warehouse(rows).execute(joined).fetchall() == [("pay", "approved", "0xAA01")]


def test_a_receipt_that_no_approval_covers_shows_its_own_turns_call():
    journal = Journal().open().start("t0").call("x", "t0").end("t0").intend("t1", "d1").start("t1").call("x", "t1")
    rows = paid(asked(journal), jws()).end("t1").rows(trust())
    assert column(rows, "settlement_verdicts", "tool_call_id") == ["conv-a:x#2"]


A, B = "https://api.example/a", "https://api.example/b"


def asked_twice(*terms):
    """A call that was asked to pay several times, with as many approvals."""
    journal = dispatched().call("x", name="pay")
    for term in terms:
        decided(requested(asked(journal, **term)))
    return journal


@pytest.mark.parametrize("order", [(A, B), (B, A)])
def test_receipts_of_several_askings_may_come_in_any_order(order):
    journal = asked_twice({"resource": A, "amount_base_units": "1"}, {"resource": B, "amount_base_units": "20"})
    for number, resource in enumerate(order):
        paid(journal, jws(claims(resourceUrl=resource, transaction=f"0xAA0{number}")))
    rows = journal.end().rows(trust())
    assert column(rows, "settlement_verdicts", "verdict") == ["settled", "settled"]
    assert sorted(column(rows, "payments", "amount_base_units")) == [1, 20]
    assert settled_total(journal.records, trust(), asset="usdc") == 21


def test_an_asking_that_was_over_does_not_hide_the_one_that_renewed_it():
    journal = asked_twice({"expires_at": at(-60)}, {"amount_base_units": "7"})
    assert column(paid(journal, jws()).end().rows(trust()), "payments", "amount_base_units") == [7]


def test_of_askings_that_a_receipt_fits_the_oldest_is_paid_first():
    journal = asked_twice({"amount_base_units": "1"}, {"amount_base_units": "20"})
    assert column(paid(journal, jws()).end().rows(trust()), "payments", "amount_base_units") == [1]


def test_a_receipt_that_fits_no_asking_says_why_of_the_oldest():
    journal = asked_twice({"resource": A}, {"payer": "0xeve"})
    rows = paid(journal, jws()).end().rows(trust())
    assert column(rows, "settlement_verdicts", "verdict") == ["wrong_resource"]
    journal = asked_twice({"payer": "0xeve"}, {"resource": A})
    assert column(paid(journal, jws()).end().rows(trust()), "settlement_verdicts", "verdict") == ["wrong_payer"]


def approved_at(expires_at, occurred_at, outcome="approved"):
    journal = asked(dispatched().call("x", name="pay"))
    request = e.ApprovalRequested(id="a", dispatch_id="d1", request_id="x", tool_name="pay", expires_at=expires_at)
    decision = e.ApprovalDecided(
        id="b", dispatch_id="d1", request_id="x", outcome=outcome, decided_by="ada", occurred_at=occurred_at
    )
    rows = paid(journal.add(request, decision, by="edge"), jws()).end().rows(trust())
    shown = [column(rows, "approvals", name)[0] for name in ("outcome", "decided_by", "reason")]
    return shown, column(rows, "settlement_verdicts", "detail"), anomalies(rows)


LATE = ["expired", None, "decided_too_late"]


@pytest.mark.parametrize(
    ("expires_at", "occurred_at"),
    [(at(5), at(5)), (at(5), at(6)), (NOON, None), (at(-1), None)],
    ids=["at the very instant", "after it", "by the log's time at it", "by the log's time after it"],
)
@pytest.mark.parametrize("outcome", ["approved", "denied"])
def test_a_decision_at_or_after_the_expiry_comes_too_late(expires_at, occurred_at, outcome):
    shown, detail, odd = approved_at(expires_at, occurred_at, outcome)
    assert (shown, detail) == (LATE, ["expired"])
    assert odd == {("decision_after_expiry", "approval_decided"): 1}


@pytest.mark.parametrize(("expires_at", "occurred_at"), [(at(5), at(4.999)), (None, at(600)), (at(5), None)])
def test_a_decision_before_the_expiry_stands(expires_at, occurred_at):
    shown, detail, odd = approved_at(expires_at, occurred_at)
    assert (shown, detail, odd) == (["approved", "ada", None], [None], {})


def test_a_request_that_nobody_decided_in_time_may_be_cancelled():
    shown, detail, odd = approved_at(NOON, at(600), "cancelled")
    assert (shown[0], detail, odd) == ("cancelled", ["cancelled"], {})


def test_what_settled_in_another_conversation_is_a_duplicate_here_for_every_reader():
    first, second = paid(paying("conv-a"), jws()), paying("conv-b")
    paid(second, jws(), settled_in="conv-a")
    rows = second.end().rows(trust())
    assert column(rows, "settlement_verdicts", "detail") == ["settled_in_another_conversation"]
    assert rows["payments"] == []
    assert settled_total(first.records + second.records, trust(), asset="usdc") == 10_000


def test_a_dispatch_that_runs_another_turn_does_not_run_this_one_too():
    journal = dispatched().end().start("t2", dispatch_id="d1").end("t2")
    rows = journal.rows()
    assert column(rows, "turns", "turn_id") == ["t1", "t2"]
    assert column(rows, "turns", "dispatch_id") == ["d1", None]
    assert anomalies(rows) == {("dispatch_of_another_turn", "turn_start"): 1}
