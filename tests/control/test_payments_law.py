"""Laws of money under any order of reserving, paying, waiting and restarting, for every reader."""

from dataclasses import replace
from random import Random

import pytest

from control import turns
from control.edges import append_edge
from control.money import set_budget
from control.service import make_service
from control.spending import Ask
from facts import codec
from facts.events import ApprovalDecided, ApprovalRequested, SpendReserved
from facts.partition import open_fold
from facts.payments import Spending, spend_partition, window_start
from facts.trust import Trust
from polyc.durable import write_file
from tests.control.serving import POLICY
from tests.facts.payment import NETWORK, RESOURCE, claims, jws, listed, signer

PERSONAS = {"ada": "conv-a", "bob": "conv-b"}
WALLETS = ("0xAA01", "0xaa01", "0xBB02", None)
ASSETS = ("0xCC03", "0xcc03")
BUDGETS = {("persona", "ada"): 100, ("persona", "bob"): 80, ("conversation", "conv-a"): 70, ("wallet", "0xAa01"): 90}
WINDOW_S = 600
STEPS = 40


class Deployed:
    """Two personas who pay, each in a conversation, and the readers of what they paid."""

    def __init__(self, deployment, local, chance: Random) -> None:
        self.deployment, self.local, self.chance = deployment, local, chance
        known = signer()
        write_file(deployment.root.path / "receipt-signers.json", listed(known), mode=0o600)
        self.trust = Trust(keys=deployment.journal.keys, receipt_signers=(known,))
        for persona, partition in PERSONAS.items():
            local.ensure_persona(persona)
            deployment.open_conversation(partition)
        self.restart()
        for (kind, subject), amount in BUDGETS.items():
            terms = {"asset": "0xCc03", "network": NETWORK, "amount_base_units": amount, "window_s": WINDOW_S}
            set_budget(self.service.context, subject_kind=kind, subject=subject, **terms)
        self.dispatches = {
            persona: turns.begin(
                self.service.context, partition=partition, persona_id=persona, harness="h", prompt="buy"
            )[0]
            for persona, partition in PERSONAS.items()
        }
        self.asked: list[tuple[str, Ask]] = []

    def restart(self) -> None:
        self.service = make_service(replace(self.local.context, redaction=POLICY), control_url="http://127.0.0.1:1")

    def step(self, number: int) -> None:
        match self.chance.choice(("reserve", "reserve", "reserve", "pay", "pay", "replay", "wait", "restart")):
            case "reserve":
                persona, call = self.chance.choice(list(PERSONAS)), f"x{number}"
                amount, asset = self.chance.choice((1, 7, 30, 65)), self.chance.choice(ASSETS)
                ask = Ask(
                    tool_call_id=call,
                    amount_base_units=amount,
                    asset=asset,
                    network=NETWORK,
                    payee="0xshop",
                    resource=RESOURCE,
                    payer=self.chance.choice(WALLETS),
                )
                if self.service.spending.reserve(self.dispatches[persona], ask):
                    self.asked.append((persona, ask))
            case "pay" | "replay" as how if self.asked:
                persona, ask = self.chance.choice(self.asked)
                self.pay(persona, ask, transaction=f"0xF{number:03}" if how == "pay" else "0xf001")
            case "wait":
                self.deployment.clock.advance(seconds=self.chance.choice((1, 149)))
            case "restart":
                self.restart()
            case _:
                pass

    def pay(self, persona: str, ask: Ask, *, transaction: str) -> bool:
        """Approve the call once more and show a receipt for it."""
        dispatch, context = self.dispatches[persona], self.service.context
        about = {"dispatch_id": dispatch.dispatch_id, "request_id": ask.tool_call_id}
        approval = [
            ApprovalRequested(id="a", tool_name="pay", **about),
            ApprovalDecided(id="b", outcome="approved", decided_by=persona, **about),
        ]
        append_edge(context, dispatch, approval)
        receipt = jws(claims(transaction=transaction, issuedAt=context.now_s(), payer=ask.payer))
        return self.service.spending.receive(
            dispatch, tool_call_id=ask.tool_call_id, form="jws", receipt=receipt, reference=None
        )

    def read_anew(self) -> Spending:
        spending = Spending(self.trust)
        for head in self.deployment.journal.changed_since(0):
            spending.take(self.deployment.journal.read(head.partition))
        return spending

    def rows(self, partition: str) -> dict[str, list]:
        fold = open_fold(partition, self.trust)
        for record in self.deployment.journal.read(partition):
            fold.apply(record)
        return fold.rows()


def test_a_reservation_that_nobody_checked_breaks_the_law(deployment, local) -> None:
    it = Deployed(deployment, local, Random(0))
    event = SpendReserved(
        id="r", reservation_id="r", conversation_id="conv-a", tool_call_id="x", amount_base_units="101", asset="0xCC03",
        network=NETWORK,
    )  # fmt: skip
    deployment.author("control").append(spend_partition("ada"), [codec.encode(event)])
    assert it.read_anew().spent(persona="ada", asset="0xcc03", network=NETWORK) > BUDGETS["persona", "ada"]


@pytest.mark.parametrize("seed", range(4))
def test_no_order_of_events_passes_a_budget_by_and_all_readers_say_the_same(deployment, local, seed) -> None:
    it = Deployed(deployment, local, Random(seed))
    for number in range(1, STEPS):
        it.step(number)
        now = it.service.spending._now()
        anew = it.read_anew()
        it.service.spending._read()
        for (kind, subject), limit in BUDGETS.items():
            name = {"persona": "persona", "conversation": "partition", "wallet": "wallet"}[kind]
            asked = {"asset": "0xcc03", "network": NETWORK, "since": window_start(now, WINDOW_S), name: subject}
            spent = anew.spent(**asked)
            assert spent == it.service.spending._spending.spent(**asked)
            assert spent <= limit
    for dispatch in it.dispatches.values():
        turns.finish(it.service.context, dispatch, turns.TurnEnd(status="completed"))
    anew, tables = it.read_anew(), [it.rows(partition) for partition in PERSONAS.values()]
    payments = [row for rows in tables for row in rows["payments"]]
    assert sum(int(row[7]) for row in payments) == sum(fact.amount for fact in anew.payments())
    assert len({row[6].lower() for row in payments}) == len(payments) == len(anew.payments())
    assert payments
    for persona in PERSONAS:
        it.service.spending._refresh(persona)
        reservations = it.rows(spend_partition(persona))["reservations"]
        standing = sum(int(row[7]) for row in reservations if row[10] == "open")
        assert standing == sum(it.read_anew().reserved(persona=persona).values())
        assert it.rows(spend_partition(persona))["anomalies"] == []
