"""Paid calls: reserved within a budget or refused on record; settled by a verified receipt, late ones too."""

import json
import sys
import threading
from dataclasses import replace

import pytest

from control import turns
from control.money import set_budget
from control.service import make_service
from control.spending import Ask
from facts.events import PaymentReceipt, PaymentRequired, Refusal, SpendReleased
from facts.partition import open_fold
from facts.trust import Trust
from polyc.appending import Draft
from polyc.durable import write_file
from polyc.errors import CorruptError, RefusedError
from polyc.vocabulary import BY_KIND
from tests.control.harness_programs import PREAMBLE
from tests.control.serving import POLICY, Client, serving
from tests.facts.payment import NETWORK, PAYER, RESOURCE, claims, jws, listed, signer

ASK = Ask(
    tool_call_id="x",
    amount_base_units=10_000,
    asset="usdc",
    network=NETWORK,
    payee="0xshop",
    resource=RESOURCE,
    payer=PAYER,
    decimals=6,
    scheme="exact",
    tool_name="pay",
)


@pytest.fixture(autouse=True)
def receipt_signers(deployment) -> None:
    write_file(deployment.root.path / "receipt-signers.json", listed(signer()), mode=0o600)


@pytest.fixture
def service(deployment, local):
    for name in ("ada", "bob"):
        local.ensure_persona(name)
    return make_service(replace(local.context, redaction=POLICY), control_url="http://127.0.0.1:1")


def begun(service, deployment, *, partition: str = "conv-a", persona: str = "ada"):
    if deployment.journal.head(partition) is None:
        deployment.open_conversation(partition)
    return turns.begin(service.context, partition=partition, persona_id=persona, harness="h", prompt="buy")[0]


def budget(service, amount: int, *, kind: str = "persona", subject: str = "ada", window_s: int | None = None) -> None:
    set_budget(
        service.context,
        subject_kind=kind,
        subject=subject,
        asset="usdc",
        network=NETWORK,
        amount_base_units=amount,
        window_s=window_s,
    )


def receipt_of(service, transaction: str) -> str:
    return jws(claims(transaction=transaction, issuedAt=service.context.now_s()))


def settle(service, dispatch, call: str, transaction: str) -> bool:
    """Approve the call and show its receipt."""
    from control.edges import append_edge
    from facts.events import ApprovalDecided, ApprovalRequested

    context = service.context
    append_edge(
        context,
        dispatch,
        [
            ApprovalRequested(id="a", dispatch_id=dispatch.dispatch_id, request_id=call, tool_name="pay"),
            ApprovalDecided(
                id="b", dispatch_id=dispatch.dispatch_id, request_id=call, outcome="approved", decided_by="ada"
            ),
        ],
    )
    return service.spending.receive(
        dispatch, tool_call_id=call, form="jws", receipt=receipt_of(service, transaction), reference=None
    )


def rows(deployment, partition: str, table: str) -> list:
    fold = open_fold(partition, Trust(keys=deployment.journal.keys, receipt_signers=(signer(),)))
    for record in deployment.journal.read(partition):
        fold.apply(record)
    return fold.rows().get(table, [])


def test_without_a_budget_nothing_may_be_spent(service, deployment) -> None:
    dispatch = begun(service, deployment)
    assert service.spending.reserve(dispatch, ASK) is None
    refusal = deployment.journal.events("conv-a")[-1]
    assert isinstance(refusal, Refusal)
    assert (refusal.stage, refusal.rule, refusal.tool_call_id) == ("budget", "no_budget", "x")


@pytest.mark.parametrize(("amount", "window_s"), [(-1, None), (10**38, None), (1, 0), (1, -5), (1, 2**31)])
def test_a_budget_that_no_check_would_count_is_refused(service, deployment, amount, window_s) -> None:
    with pytest.raises(RefusedError):
        budget(service, amount, window_s=window_s)
    assert deployment.journal.head("budgets") is None


def test_what_is_reserved_counts_as_spent(service, deployment) -> None:
    budget(service, 25_000)
    dispatch = begun(service, deployment)
    first = service.spending.reserve(dispatch, ASK)
    assert isinstance(deployment.journal.events("conv-a")[-1], PaymentRequired)
    assert deployment.journal.events("conv-a")[-1].reservation_id == first
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y"))
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="z")) is None
    assert deployment.journal.events("conv-a")[-1].rule == "persona_budget"
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="z", amount_base_units=5_000))


@pytest.mark.parametrize(("kind", "subject"), [("conversation", "conv-a"), ("wallet", PAYER)])
def test_every_budget_that_applies_must_have_room(service, deployment, kind, subject) -> None:
    dispatch = begun(service, deployment)
    budget(service, 1_000_000)
    budget(service, 10_000, kind=kind, subject=subject)
    assert service.spending.reserve(dispatch, ASK)
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y")) is None
    assert deployment.journal.events("conv-a")[-1].rule == f"{kind}_budget"


def test_a_wallets_budget_alone_allows_nothing(service, deployment) -> None:
    budget(service, 1_000_000, kind="wallet", subject=PAYER)
    assert service.spending.reserve(begun(service, deployment), ASK) is None


def test_a_settled_payment_stays_spent_and_its_reservation_ends(service, deployment) -> None:
    budget(service, 15_000)
    dispatch = begun(service, deployment)
    reservation = service.spending.reserve(dispatch, ASK)
    assert settle(service, dispatch, "x", "0xAA01")
    released = deployment.journal.events("spend-ada")[-1]
    assert isinstance(released, SpendReleased)
    assert (released.reservation_id, released.outcome, released.transaction) == (reservation, "settled", "0xaa01")
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y")) is None
    turns.finish(service.context, dispatch, turns.TurnEnd(status="completed"))
    assert len(rows(deployment, "conv-a", "payments")) == 1
    assert [row[10] for row in rows(deployment, "spend-ada", "reservations")] == ["settled"]


def test_spending_of_an_unfinished_turn_counts_after_a_restart(service, deployment) -> None:
    budget(service, 15_000)
    dispatch = begun(service, deployment)
    service.spending.reserve(dispatch, ASK)
    assert settle(service, dispatch, "x", "0xAA01")
    restarted = make_service(replace(deployment.local().context, redaction=POLICY), control_url="http://127.0.0.1:1")
    another = begun(restarted, deployment)
    assert rows(deployment, "conv-a", "payments") == []
    assert restarted.spending.reserve(another, replace(ASK, tool_call_id="y")) is None


@pytest.mark.parametrize("kind", ["payment_receipt", "payment_required", "spend_reserved", "budget_set"])
def test_what_its_author_did_not_sign_pays_for_nothing(service, deployment, kind) -> None:
    budget(service, 30_000)
    dispatch = begun(service, deployment)
    assert service.spending.reserve(dispatch, ASK)
    assert settle(service, dispatch, "x", "0x1")
    again = make_service(service.context, control_url="http://127.0.0.1:1")
    assert again.spending.reserve(dispatch, replace(ASK, tool_call_id="y")), "while the signatures hold"
    place = next(r.index for r in deployment.journal.records if r.event_type == BY_KIND[kind].code)
    leaf, _signature = deployment.journal.signatures[place]
    deployment.journal.signatures[place] = (leaf, bytes(64))
    once_more = make_service(service.context, control_url="http://127.0.0.1:1")
    with pytest.raises(CorruptError, match="did not sign"):
        once_more.spending.reserve(dispatch, replace(ASK, tool_call_id="z"))


def test_a_receipt_settles_once_in_the_whole_deployment(service, deployment) -> None:
    budget(service, 100_000)
    budget(service, 100_000, subject="bob")
    first, second = begun(service, deployment), begun(service, deployment, partition="conv-b", persona="bob")
    for dispatch in (first, second):
        assert service.spending.reserve(dispatch, ASK)
    assert settle(service, first, "x", "0xAA01")
    assert not settle(service, second, "x", "0xAA01")
    assert [row[10] for row in rows(deployment, "spend-bob", "reservations")] == ["open"]


@pytest.mark.parametrize("change", [{"payer": "0xother"}, {"resourceUrl": "https://evil.example"}, {"amount": "1"}])
def test_a_receipt_that_does_not_hold_settles_nothing_and_is_kept(service, deployment, change) -> None:
    budget(service, 100_000)
    dispatch = begun(service, deployment)
    service.spending.reserve(dispatch, ASK)
    receipt = jws(claims(issuedAt=service.context.now_s()) | change)
    assert not service.spending.receive(dispatch, tool_call_id="x", form="jws", receipt=receipt, reference=None)
    assert isinstance(deployment.journal.events("conv-a")[-1], PaymentReceipt)
    assert [row[10] for row in rows(deployment, "spend-ada", "reservations")] == ["open"]


def test_a_late_receipt_counts_for_budgets_but_is_no_row_of_its_turn(service, deployment) -> None:
    budget(service, 15_000)
    dispatch = begun(service, deployment)
    service.spending.reserve(dispatch, ASK)
    from control.edges import append_edge
    from facts.events import ApprovalDecided, ApprovalRequested

    approval = {"dispatch_id": dispatch.dispatch_id, "request_id": "x"}
    append_edge(
        service.context,
        dispatch,
        [
            ApprovalRequested(id="a", tool_name="pay", **approval),
            ApprovalDecided(id="b", outcome="approved", decided_by="ada", **approval),
        ],
    )
    turns.finish(service.context, dispatch, turns.TurnEnd(status="completed"))
    service.context.dispatches.end(dispatch)
    arguments = {"tool_call_id": "x", "form": "jws", "receipt": receipt_of(service, "0xAA01"), "reference": None}
    assert service.spending.receive(dispatch, **arguments)
    assert rows(deployment, "conv-a", "payments") == []
    another = begun(service, deployment)
    assert service.spending.reserve(another, replace(ASK, tool_call_id="y")) is None


def test_an_unused_reservation_no_longer_counts_after_its_time(service, deployment) -> None:
    budget(service, 10_000)
    dispatch = begun(service, deployment)
    assert service.spending.reserve(dispatch, ASK)
    deployment.clock.advance(seconds=3599)
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y")) is None
    deployment.clock.advance(seconds=2)
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y"))


def test_a_window_forgets_what_was_settled_before_it(service, deployment) -> None:
    budget(service, 10_000, window_s=60)
    dispatch = begun(service, deployment)
    service.spending.reserve(dispatch, ASK)
    assert settle(service, dispatch, "x", "0xAA01")
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y")) is None
    deployment.clock.advance(seconds=61)
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y"))


def test_of_two_controls_that_check_at_once_only_one_passes(service, deployment) -> None:
    """Both saw room for one; the second's append finds the partition moved on, checks again, and refuses."""
    budget(service, 10_000)
    other = make_service(replace(deployment.local().context, redaction=POLICY), control_url="http://127.0.0.1:1")
    first, second = begun(service, deployment), begun(other, deployment, partition="conv-b")
    original = other.spending._objection

    def slow(dispatch, ask):
        rule = original(dispatch, ask)
        if rule is None and service.spending.reserve(first, ASK):
            assert True
        return rule

    other.spending._objection = slow
    assert other.spending.reserve(second, ASK) is None
    assert len(rows(deployment, "spend-ada", "reservations")) == 1


def test_when_the_conversation_cannot_learn_of_it_the_reservation_is_given_back(service, deployment) -> None:
    budget(service, 10_000)
    dispatch = begun(service, deployment)
    turns.finish(service.context, dispatch, turns.TurnEnd(status="cancelled"))
    with pytest.raises(RefusedError):
        service.spending.reserve(dispatch, ASK)
    assert [row[10] for row in rows(deployment, "spend-ada", "reservations")] == ["released"]


def test_a_harness_pays_over_http_after_a_person_approved(deployment, local, tmp_path) -> None:
    program = """
receipt = json.loads(turn["prompt"])
say(type="tool_call", tool_call_id="x", name="pay", arguments="{}")
approved = post("/api/edge/approvals", request_id="x", tool_name="pay", wait_s=30.0)
payment = post("/api/edge/payments", tool_call_id="x", amount_base_units="10000", asset="usdc", tool_name="pay",
    network=receipt["network"], payee="0xshop", resource=receipt["resource"], payer=receipt["payer"])
settled = post("/api/edge/receipts", tool_call_id="x", format="jws", receipt=receipt["receipt"])
over = post("/api/edge/payments", tool_call_id="y", amount_base_units="10000", asset="usdc", tool_name="pay",
    network=receipt["network"], payee="0xshop", resource=receipt["resource"], payer=receipt["payer"])
answer(json.dumps([approved[1]["outcome"], payment[1]["outcome"], settled[1]["settled"], over[1]["outcome"]]))
done()"""
    (tmp_path / "pay.py").write_text(PREAMBLE + program)
    config = {"pay": {"kind": "subprocess", "command": [sys.executable, str(tmp_path / "pay.py")]}}
    write_file(deployment.root.path / "harnesses.json", json.dumps(config).encode(), mode=0o600)
    with serving(local.context) as url:
        ada = Client(url, local.create_session("ada").bearer)
        admin = Client(url, local.create_session("root", admin=True).bearer)
        admin.post(
            "/api/budgets",
            subject_kind="persona",
            subject="ada",
            asset="usdc",
            network=NETWORK,
            amount_base_units="15000",
        )
        conversation = ada.open()
        receipt = jws(claims(issuedAt=local.context.now_s()))
        prompt = json.dumps({"network": NETWORK, "resource": RESOURCE, "payer": PAYER, "receipt": receipt})
        lines: list = []
        thread = threading.Thread(target=lambda: lines.extend(ada.turn(conversation, "pay", prompt=prompt)))
        thread.start()
        waiting: list = []
        while not waiting and thread.is_alive():
            waiting = ada.get("/api/approvals").json()["approvals"]
        ada.post(f"/api/approvals/{waiting[0]['approval_id']}", outcome="approved")
        thread.join(timeout=30)
    assert json.loads(lines[-2]["text"]) == ["approved", "reserved", True, "refused"]
    assert len(rows(deployment, conversation, "payments")) == 1
    assert [row[8] for row in rows(deployment, conversation, "refusals")] == ["budget"]


@pytest.mark.parametrize(("kind", "subject"), [("persona", "adda"), ("conversation", "conv-nobody")])
def test_a_budget_of_nobody_is_refused(service, kind, subject) -> None:
    with pytest.raises(RefusedError, match=f"no such {kind}"):
        budget(service, 1, kind=kind, subject=subject)


UPPER, LOWER = "0xAB01", "0xab01"


@pytest.mark.parametrize("spelt", [{"asset": UPPER}, {"asset": LOWER}])
@pytest.mark.parametrize("budgeted", [UPPER, LOWER])
def test_no_budget_is_passed_by_by_spelling_its_asset_in_another_case(service, deployment, budgeted, spelt) -> None:
    for kind, subject, amount in (("persona", "ada", 100_000), ("conversation", "conv-a", 10_000)):
        deployment.journal.head("conv-a") or deployment.open_conversation("conv-a")
        terms = {"subject_kind": kind, "subject": subject, "network": NETWORK, "window_s": None}
        set_budget(service.context, asset=budgeted, amount_base_units=amount, **terms)
    dispatch = begun(service, deployment)
    assert service.spending.reserve(dispatch, replace(ASK, **spelt))
    for other in (UPPER, LOWER):
        assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y", asset=other)) is None
    assert deployment.journal.events("conv-a")[-1].rule == "conversation_budget"


@pytest.mark.parametrize(
    ("payer", "rule"),
    [(PAYER.lower(), "wallet_budget"), (PAYER, "wallet_budget"), (None, "payer_not_named"), ("0xother", None)],
)
def test_no_wallets_budget_is_passed_by_by_spelling_or_not_naming_it(service, deployment, payer, rule) -> None:
    budget(service, 100_000)
    budget(service, 9_999, kind="wallet", subject=PAYER)
    dispatch = begun(service, deployment)
    reservation_id = service.spending.reserve(dispatch, replace(ASK, payer=payer))
    assert (reservation_id is None) is (rule is not None)
    if rule is not None:
        refusal = deployment.journal.events("conv-a")[-1]
        assert (refusal.rule, refusal.reason) == (rule, "over_budget" if rule == "wallet_budget" else rule)


def test_a_wallets_budget_counts_what_every_persona_reserved_of_it(service, deployment) -> None:
    for name in ("ada", "bob"):
        budget(service, 100_000, subject=name)
    budget(service, 15_000, kind="wallet", subject=PAYER)
    ada, bob = begun(service, deployment), begun(service, deployment, partition="conv-b", persona="bob")
    assert service.spending.reserve(ada, ASK)
    assert service.spending.reserve(bob, replace(ASK, payer=PAYER.lower())) is None
    assert service.spending.reserve(bob, replace(ASK, payer="0xother"))


def test_a_receipt_shown_in_another_conversation_is_a_payment_in_no_table_and_no_check(service, deployment) -> None:
    budget(service, 100_000)
    budget(service, 100_000, subject="bob")
    first, second = begun(service, deployment), begun(service, deployment, partition="conv-b", persona="bob")
    for dispatch in (first, second):
        assert service.spending.reserve(dispatch, ASK)
    assert settle(service, first, "x", "0xAA01")
    assert not settle(service, second, "x", "0xaa01")
    for dispatch in (first, second):
        turns.finish(service.context, dispatch, turns.TurnEnd(status="completed"))
    assert [len(rows(deployment, name, "payments")) for name in ("conv-a", "conv-b")] == [1, 0]
    assert rows(deployment, "conv-b", "settlement_verdicts")[0][7:9] == (
        "duplicate",
        "settled_in_another_conversation",
    )


def test_a_payment_whose_reservation_a_crash_left_open_ends_it_at_the_next_check(service, deployment) -> None:
    budget(service, 100_000)
    dispatch = begun(service, deployment)
    assert service.spending.reserve(dispatch, ASK)
    service.spending._settle = lambda *_: None  # the process dies after the receipt is on record
    assert settle(service, dispatch, "x", "0xAA01")
    assert [row[10] for row in rows(deployment, "spend-ada", "reservations")] == ["open"]
    deployment.clock.advance(seconds=7200)
    restarted = make_service(service.context, control_url="http://127.0.0.1:1")
    assert restarted.spending.reserve(dispatch, replace(ASK, tool_call_id="y"))
    found = {row[10]: row[12] for row in rows(deployment, "spend-ada", "reservations")}
    assert found == {"settled": "0xaa01", "open": None}
    assert rows(deployment, "spend-ada", "anomalies") == []


def test_a_receipt_after_its_reservations_time_settles_and_contradicts_nothing(service, deployment) -> None:
    budget(service, 20_000)
    dispatch = begun(service, deployment)
    assert service.spending.reserve(dispatch, ASK)
    deployment.clock.advance(seconds=3600)
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y"))
    assert settle(service, dispatch, "x", "0xAA01")
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="z", amount_base_units=1)) is None
    assert [row[10] for row in rows(deployment, "spend-ada", "reservations")] == ["expired", "open"]
    assert rows(deployment, "spend-ada", "anomalies") == []


def test_what_is_exactly_within_a_budget_is_allowed_and_one_unit_more_is_not(service, deployment) -> None:
    huge = 10**38 - 1
    budget(service, huge)
    dispatch = begun(service, deployment)
    assert service.spending.reserve(dispatch, replace(ASK, amount_base_units=huge))
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y", amount_base_units=0))
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y", amount_base_units=1)) is None


def test_a_window_ends_with_its_very_first_instant(service, deployment) -> None:
    budget(service, 10_000, window_s=60)
    dispatch = begun(service, deployment)
    service.spending.reserve(dispatch, ASK)
    assert settle(service, dispatch, "x", "0xAA01")
    recorded = next(record for record in deployment.journal.read("conv-a") if record.event_type == 35).recorded_at_us
    deployment.clock.advance(seconds=60 - (deployment.clock.now_us() - recorded) / 1e6)
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y")) is None
    deployment.clock.advance(seconds=1)
    assert service.spending.reserve(dispatch, replace(ASK, tool_call_id="y"))


def test_a_receipt_is_kept_as_evidence_also_while_another_conversation_cannot_be_read(service, deployment) -> None:
    budget(service, 100_000)
    dispatch = begun(service, deployment)
    assert service.spending.reserve(dispatch, ASK)
    deployment.open_conversation("conv-z")
    deployment.author("edge").append("conv-z", [Draft(BY_KIND["payment_receipt"].code, b"{}")])
    assert settle(service, dispatch, "x", "0xAA01")
    assert isinstance(deployment.journal.events("conv-a")[-1], PaymentReceipt)
    with pytest.raises(CorruptError, match="conv-z@2"):  # but nothing more is allowed on such a sight
        service.spending.reserve(dispatch, replace(ASK, tool_call_id="y"))
    turns.finish(service.context, dispatch, turns.TurnEnd(status="completed"))
    assert len(rows(deployment, "conv-a", "payments")) == 1
