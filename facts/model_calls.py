"""The tables `model_call`, `usage` and `context_boundaries`.

A streamed record is repeated as it grows: of several `model_call` or `usage` events with one call id in one turn the
last counts. The same call id in another turn is another use of it (`facts.call_ids`).
"""

from collections.abc import Mapping

import msgspec

from facts.call_ids import named_by_turn
from facts.events import ContextSnapshot, ModelCall, Usage
from facts.fold import Row
from facts.intake import utc
from facts.turns import End

TURN, CALL_ID = 3, 5
NATIVE_OF_CALL, NATIVE_OF_USAGE, CALL_ID_OF_BOUNDARY = 13, 14, 9


class ModelCalls(msgspec.Struct):
    """The model calls of one incarnation of a conversation, of all turns."""

    prefix: str  # of qualified ids
    calls: list[Row | None] = []  # None = replaced by a later one
    usages: list[Row | None] = []
    boundaries: list[Row] = []
    latest_call: dict[str, dict[str, int]] = {}  # turn -> native call id -> its last row
    latest_usage: dict[str, dict[str, int]] = {}
    turns_of: dict[str, str] = {}  # native call id -> the first turn that used it
    shared: dict[str, list[str]] = {}  # native call ids that several turns used

    def call(self, event: ModelCall, place: Row) -> None:
        """Take a model call of an open turn."""
        partition, incarnation, position, turn, at = place
        native = event.call_id
        started_at, ended_at, latency_ms = event.started_at, event.ended_at, event.latency_ms
        if started_at is not None or ended_at is not None:
            started_at, ended_at = utc(started_at), utc(ended_at)
            if latency_ms is None and started_at is not None and ended_at is not None:
                latency_ms = max(0, int((ended_at - started_at).total_seconds() * 1000))
        self._take(self.calls, self.latest_call, native, turn)
        self.calls.append(
            (
                partition,
                incarnation,
                position,
                turn,
                at,
                self.prefix + native,
                event.provider,
                event.model,
                started_at,
                ended_at,
                latency_ms,
                event.stop_reason,
                event.error,
                native,
            )
        )

    def usage(self, event: Usage, place: Row) -> None:
        """Take a usage record of an open turn."""
        partition, incarnation, position, turn, at = place
        native = event.call_id
        self._take(self.usages, self.latest_usage, native, turn)
        self.usages.append(
            (
                partition,
                incarnation,
                position,
                turn,
                at,
                self.prefix + native,
                event.provider,
                event.model,
                event.input_tokens,
                event.output_tokens,
                event.cache_read_tokens,
                event.cache_write_tokens,
                event.reasoning_tokens,
                event.input_uncached_tokens,
                native,
            )
        )

    def boundary(self, event: ContextSnapshot, place: Row) -> None:
        """Take a context boundary of an open turn."""
        self.boundaries.append(
            (
                *place,
                event.boundary,
                event.inheritance,
                event.pre_tokens,
                event.post_tokens,
                self.prefix + event.call_id if event.call_id else None,
                utc(event.occurred_at),
            )
        )

    def _take(self, rows: list[Row | None], latest_of: dict[str, dict[str, int]], native: str, turn: str) -> None:
        """Make room for a row that is about to be appended."""
        latest = latest_of.get(turn)
        if latest is None:
            latest = latest_of[turn] = {}
        elif native in latest:
            rows[latest[native]] = None
        latest[native] = len(rows)
        first = self.turns_of.setdefault(native, turn)
        if first != turn:
            turns = self.shared.setdefault(native, [first])
            if turn not in turns:
                turns.append(turn)

    def rows(self, committed: Mapping[str, End]) -> tuple[list[Row], list[Row], list[Row]]:
        """The rows of `model_call`, `usage` and `context_boundaries` in committed turns."""
        calls = [row for row in self.calls if row is not None and row[TURN] in committed]
        usages = [row for row in self.usages if row is not None and row[TURN] in committed]
        boundaries = [row for row in self.boundaries if row[TURN] in committed]
        if self.shared:
            calls = [self._named(row, row[NATIVE_OF_CALL], CALL_ID, committed) for row in calls]
            usages = [self._named(row, row[NATIVE_OF_USAGE], CALL_ID, committed) for row in usages]
            boundaries = [
                self._named(
                    row, (row[CALL_ID_OF_BOUNDARY] or "").removeprefix(self.prefix), CALL_ID_OF_BOUNDARY, committed
                )
                for row in boundaries
            ]
        return calls, usages, boundaries

    def _named(self, row: Row, native: str, id_column: int, committed: Mapping[str, End]) -> Row:
        return named_by_turn(row, native, id_column=id_column, uses=self.shared, committed=committed)
