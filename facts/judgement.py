"""What is judged in whatever state its turn is: the gate, approvals and payments together (ruling 19).

The conversation's fold and a spending check hold the same value; the one adds the tables, the other only these events.
"""

from typing import Any, Final

import msgspec

from facts.approvals import REQUEST_ID, Approvals
from facts.call_ids import Names, renamed
from facts.events import ApprovalDecided, ApprovalRequested, Marker, PaymentReceipt, PaymentRequired
from facts.fold import Row
from facts.intake import Intake, utc
from facts.settlement import Settlement
from facts.trust import ReceiptSigner
from facts.turns import TURN, Turns
from polyc.entry import Record
from polyc.vocabulary import BY_KIND

MARKERS: Final = ("dispatch_intent", "turn_start", "turn_complete")
JUDGED: Final = frozenset(
    BY_KIND[kind].code
    for kind in (*MARKERS, "approval_requested", "approval_decided", "payment_required", "payment_receipt")
)


class Judgement(msgspec.Struct):
    """The judged part of one incarnation of a conversation."""

    turns: Turns
    approvals: Approvals
    payments: Settlement

    @classmethod
    def fresh(cls, partition: str) -> "Judgement":
        """The state before the first record."""
        return cls(Turns(), Approvals(partition), Settlement())

    def take(self, event: Any, record: Record, intake: Intake, *, signers: tuple[ReceiptSigner, ...]) -> None:
        """Take an event of a type in `JUDGED`."""
        kind: str | None
        turn: str | None
        if isinstance(event, Marker):
            turn = event.turn.turn_id
            recorded_at = None if intake.standing.imported else intake.at
            kind = self.turns.mark(
                event,
                partition=intake.partition,
                position=record.position,
                at=intake.at,
                happened_at=utc(event.occurred_at) or recorded_at,
            )
        else:
            turn = self.turns.claimed(event)
            place = (intake.partition, intake.incarnation, record.position, turn, intake.at)
            inside = turn in self.turns.open
            kind = None if inside else self.turns.objection(event)
            if turn is not None and isinstance(event, PaymentRequired):
                self.payments.require(event, place)
            elif turn is not None and isinstance(event, PaymentReceipt):
                self._settle(event, place, index=record.index, inside=inside, signers=signers)
            elif inside and isinstance(event, ApprovalRequested):
                self.approvals.request(event, place)
            elif inside and isinstance(event, ApprovalDecided):
                kind = self.approvals.decide(event, place)
        if kind is not None:
            intake.count(kind, record, turn=turn)

    def _settle(
        self, event: PaymentReceipt, place: Row, *, index: int, inside: bool, signers: tuple[ReceiptSigner, ...]
    ) -> None:
        self.payments.judge(event, place, index=index, inside=inside, approvals=self.approvals, signers=signers)

    def rows(self, names: Names) -> tuple[list[Row], list[Row], list[Row]]:
        """The rows of `approvals`, `payments` and `settlement_verdicts` in committed turns."""
        if not (self.approvals.requests or self.payments.verdicts):
            return [], [], []
        committed = self.turns.committed
        approvals = renamed(self.approvals.rows(committed), names, id_column=REQUEST_ID)
        call_ids = [
            self.approvals.call_id(verdict.native, verdict.place[TURN], request=verdict.request, names=names)
            for verdict in self.payments.verdicts
        ]
        payments, verdicts = self.payments.rows(committed, call_ids=call_ids)
        return approvals, payments, verdicts
