"""Budgets and reservations: partitions `spend-…` and `budgets` (ruling 19).

A reservation counts as spent while it is open. Settling it records its receipt's transaction, and the partition is
appended to with an expected position: so one receipt settles once, and two concurrent calls cannot both pass.
"""

import msgspec

from facts.events import BudgetSet, SpendReleased, SpendReserved
from facts.fold import Row, Rows
from facts.intake import utc
from facts.place import Place
from facts.registry import base_units

AMOUNT_OF_BUDGET, CONVERSATION_OF_RESERVATION, AMOUNT_OF_RESERVATION, STATUS, REFERENCE = 8, 5, 7, 10, 12


class Budgets(msgspec.Struct):
    """The budgets, reservations and receipt nonces of one partition; amounts are kept as their digits."""

    budgets: dict[str, Row] = {}
    reservations: dict[str, Row] = {}
    settled: dict[str, str] = {}  # network and transaction -> the reservation that they settled

    def apply(self, event: BudgetSet | SpendReserved | SpendReleased, place: Place) -> str | None:
        """Take a budget, a reservation or its end."""
        if isinstance(event, BudgetSet):
            return self._budget(event, place)
        if isinstance(event, SpendReserved):
            return self._reserve(event, place)
        return self._release(event, place)

    def _budget(self, event: BudgetSet, place: Place) -> str | None:
        if base_units(event.amount_base_units) is None:
            return "amount_malformed"
        key = f"{event.subject_kind}\x1f{event.subject}\x1f{event.asset}\x1f{event.network}"
        self.budgets[key] = (
            *place.row,
            event.subject_kind,
            event.subject,
            event.asset,
            event.network,
            event.amount_base_units,
            event.window_s,
            event.acted_by,
        )
        return None

    def _reserve(self, event: SpendReserved, place: Place) -> str | None:
        if event.reservation_id in self.reservations:
            return "repeated_reservation"
        if base_units(event.amount_base_units) is None:
            return "amount_malformed"
        conversation = event.conversation_id
        partition = conversation if conversation.startswith("conv-") else f"conv-{conversation}"
        self.reservations[event.reservation_id] = (
            *place.row,
            event.reservation_id,
            partition,
            f"{partition}:{event.tool_call_id}",
            event.amount_base_units,
            event.asset,
            event.network,
            "open",
            utc(event.expires_at),
            None,
        )
        return None

    def _release(self, event: SpendReleased, place: Place) -> str | None:
        row = self.reservations.get(event.reservation_id)
        if row is None or row[STATUS] != "open":
            return "release_without_reservation"
        if event.outcome == "settled":
            nonce = f"{event.network} {event.transaction}"
            if event.transaction is None or nonce in self.settled:
                return "receipt_used_before"
            self.settled[nonce] = event.reservation_id
        self.reservations[event.reservation_id] = (
            *place.row,
            *row[4:STATUS],
            event.outcome,
            row[STATUS + 1],
            event.transaction,
        )
        return None

    def rows(self) -> Rows:
        """The rows of `budgets` and `reservations`, by key, amounts as exact decimals."""
        return {
            "budgets": [_exact(row, AMOUNT_OF_BUDGET) for _, row in sorted(self.budgets.items())],
            "reservations": [_exact(row, AMOUNT_OF_RESERVATION) for _, row in sorted(self.reservations.items())],
        }


def _exact(row: Row, column: int) -> Row:
    return (*row[:column], base_units(row[column]), *row[column + 1 :])
