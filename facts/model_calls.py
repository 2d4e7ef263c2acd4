"""The tables `model_call`, `usage` and `context_boundaries`.

A streamed record is repeated as it grows: of several `model_call` or `usage` events with one call id in one turn the
last counts. The same call id in another turn is another use of it (`facts.call_ids`). An empty id is no id: such
events are of calls that nobody named, and none replaces another.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from facts.call_ids import named_by_turn, qualified
from facts.events import ContextSnapshot, ModelCall, Usage
from facts.fold import Row
from facts.intake import utc
from facts.turns import End, Turns, elapsed_ms

POSITION, CALL_ID = 2, 5
NATIVE_OF_CALL, NATIVE_OF_USAGE, CALL_ID_OF_BOUNDARY = 13, 14, 9


class Use(msgspec.Struct, gc=False):
    """A native call id in one turn: the texts that its rows share, and the positions of the last events about it."""

    native: str
    call_id: str | None
    turn: str
    called_at: int = 0
    used_at: int = 0


class ModelCalls(msgspec.Struct):
    """The model calls of one incarnation of a conversation, of all turns."""

    partition: str
    incarnation: str
    calls: list[Row] = []
    usages: list[Row] = []
    boundaries: list[Row] = []
    uses: dict[str, Use] = {}  # native call id -> its use in the first turn that used it
    further: dict[str, dict[str, Use]] = {}  # native call id -> turn -> its use in a further turn
    replaced: set[int] = set()  # positions of events that a later one with their call id replaced

    def call(self, event: ModelCall, position: int, turn: str, at: datetime) -> None:
        """Take a model call of an open turn."""
        use = self.uses.get(event.call_id)
        if use is None or use.turn is not turn:
            use = self._use(event.call_id, turn)
        if use.called_at:
            self.replaced.add(use.called_at)
        use.called_at = position
        started_at, ended_at, latency_ms = event.started_at, event.ended_at, event.latency_ms
        if started_at is not None and started_at.tzinfo is not UTC:
            started_at = utc(started_at)
        if ended_at is not None and ended_at.tzinfo is not UTC:
            ended_at = utc(ended_at)
        if latency_ms is None and started_at is not None and ended_at is not None:
            latency_ms = elapsed_ms(started_at, ended_at)
        self.calls.append(
            (
                self.partition,
                self.incarnation,
                position,
                turn,
                at,
                use.call_id,
                event.provider,
                event.model,
                started_at,
                ended_at,
                latency_ms,
                event.stop_reason,
                event.error,
                use.native,
            )
        )

    def usage(self, event: Usage, position: int, turn: str, at: datetime) -> None:
        """Take a usage record of an open turn."""
        use = self.uses.get(event.call_id)
        if use is None or use.turn is not turn:
            use = self._use(event.call_id, turn)
        if use.used_at:
            self.replaced.add(use.used_at)
        use.used_at = position
        self.usages.append(
            (
                self.partition,
                self.incarnation,
                position,
                turn,
                at,
                use.call_id,
                event.provider,
                event.model,
                event.input_tokens,
                event.output_tokens,
                event.cache_read_tokens,
                event.cache_write_tokens,
                event.reasoning_tokens,
                event.input_uncached_tokens,
                use.native,
            )
        )

    def boundary(self, event: ContextSnapshot, position: int, turn: str, at: datetime) -> None:
        """Take a context boundary of an open turn."""
        self.boundaries.append(
            (
                self.partition,
                self.incarnation,
                position,
                turn,
                at,
                event.boundary,
                event.inheritance,
                event.pre_tokens,
                event.post_tokens,
                qualified(self.partition, event.call_id or ""),
                utc(event.occurred_at),
            )
        )

    def _use(self, native: str, turn: str) -> Use:
        """The use of a native id in this turn, made when the turn has none yet; of no id, a use of its own."""
        first = self.uses.get(native)
        if first is None:
            use = Use(native, qualified(self.partition, native), turn)
            if native:
                self.uses[native] = use
            return use
        if first.turn == turn:
            return first
        uses = self.further.setdefault(native, {})
        if turn not in uses:
            uses[turn] = Use(first.native, first.call_id, turn)
        return uses[turn]

    def rows(self, turns: Turns) -> tuple[list[Row], list[Row], list[Row]]:
        """The rows of `model_call`, `usage` and `context_boundaries` in committed turns."""
        calls, usages, boundaries = turns.shown(self.calls), turns.shown(self.usages), turns.shown(self.boundaries)
        if self.replaced:
            calls = [row for row in calls if row[POSITION] not in self.replaced]
            usages = [row for row in usages if row[POSITION] not in self.replaced]
        if self.further:
            committed = turns.committed
            calls = [self._named(row, row[NATIVE_OF_CALL], CALL_ID, committed) for row in calls]
            usages = [self._named(row, row[NATIVE_OF_USAGE], CALL_ID, committed) for row in usages]
            boundaries = [self._boundary_named(row, committed) for row in boundaries]
        return calls, usages, boundaries

    def _boundary_named(self, row: Row, committed: Mapping[str, End]) -> Row:
        native = (row[CALL_ID_OF_BOUNDARY] or "").removeprefix(f"{self.partition}:")
        return self._named(row, native, CALL_ID_OF_BOUNDARY, committed)

    def _named(self, row: Row, native: str, id_column: int, committed: Mapping[str, End]) -> Row:
        further = self.further.get(native)
        if further is None:
            return row
        return named_by_turn(
            row, native, id_column=id_column, turns=[self.uses[native].turn, *further], committed=committed
        )
