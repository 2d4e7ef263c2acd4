"""Budgets and reservations: partitions `budgets` and `spend-…` (ruling 19).

A reservation counts as spent while it is open. Settling it records its receipt's transaction, and the partition is
appended to with an expected position: so one receipt settles once, and two concurrent calls cannot both pass.

A budget is of an account and an asset, however its hexadecimal is written: the last word on it counts.
"""

import msgspec

from facts.events import BudgetSet, SpendReleased, SpendReserved
from facts.fold import Row, Rows
from facts.intake import utc
from facts.place import Place
from facts.receipts import canonical_account
from facts.registry import base_units
from facts.turns import partition_of

AMOUNT_OF_BUDGET, AMOUNT_OF_RESERVATION, STATUS = 8, 7, 10


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
        if event.window_s is not None and event.window_s <= 0:
            return "window_malformed"
        subject, asset = canonical_account(event.subject), canonical_account(event.asset)
        key = f"{event.subject_kind}\x1f{subject}\x1f{asset}\x1f{event.network}"
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
        partition = partition_of(event.conversation_id)
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
            event.payer,
        )
        return None

    def _release(self, event: SpendReleased, place: Place) -> str | None:
        row = self.reservations.get(event.reservation_id)
        if row is None or row[STATUS] != "open":
            return "release_without_reservation"
        if event.outcome == "settled":
            nonce = f"{event.network} {canonical_account(event.transaction or '')}"
            if not event.transaction or nonce in self.settled:
                return "receipt_used_before"
            self.settled[nonce] = event.reservation_id
        self.reservations[event.reservation_id] = (
            *place.row,
            *row[4:STATUS],
            event.outcome,
            row[STATUS + 1],
            event.transaction,
            row[-1],
        )
        return None

    def open_reservations(self) -> list[Row]:
        """The rows of `reservations` that are neither settled nor released, amounts as their digits."""
        return [row for row in self.reservations.values() if row[STATUS] == "open"]

    def rows(self) -> Rows:
        """The rows of `budgets` and `reservations`, by key, amounts as exact decimals."""
        return {
            "budgets": [_exact(row, AMOUNT_OF_BUDGET) for _, row in sorted(self.budgets.items())],
            "reservations": [_exact(row, AMOUNT_OF_RESERVATION) for _, row in sorted(self.reservations.items())],
        }


def _exact(row: Row, column: int) -> Row:
    return (*row[:column], base_units(row[column]), *row[column + 1 :])
