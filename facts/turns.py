"""The committed-turn gate, and the table `turns`.

The log records a turn's id in three ways, and only this module knows that:
1. markers name conversation and turn in the body; 2. harness events carry `turn_id`; 3. edge events carry
`dispatch_id`, which a marker of Control has mapped to a turn (imported ones carry `turn_id`, they had no dispatch).

A turn is open from its `turn_start` to its `turn_complete`, both of this conversation and both signed by a key that
may (`facts.intake` has seen to that). Its events count when they lie between the two; it is committed when it has
ended. Turn ids are chosen by clients: a marker that names another conversation proves nothing here.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from facts.events import DispatchIntent, EdgeEvent, HarnessEvent, Marker, TurnComplete, TurnStart
from facts.fold import Row
from facts.intake import Intake
from polyc.entry import Record

TURN: Final = 3  # the place of the column turn_id in a row of a conversation's table

# Takes an event of an open turn, its position, its turn and its time of record.
Keep = Callable[[Any, int, str, datetime], None]


class Start(msgspec.Struct, frozen=True):
    """What a turn's start said."""

    position: int
    at: datetime
    started_at: datetime | None
    dispatch_id: str | None
    persona_id: str | None
    harness: str | None
    evidence: str


class End(msgspec.Struct, frozen=True):
    """What a turn's end said; `rank` numbers the ends of a conversation, from 0."""

    rank: int
    position: int
    at: datetime
    completed_at: datetime | None
    status: str
    evidence: str
    failure_code: str | None
    failure_message: str | None
    duration_ms: int | None


class Dispatch(msgspec.Struct, frozen=True):
    """Which turn a dispatch runs, and for whom."""

    turn: str
    harness: str | None
    persona_id: str | None


class Turns(msgspec.Struct):
    """The turns of one incarnation of a conversation."""

    open: dict[str, str] = {}  # turn -> the same: the one text object that all rows of the turn share
    starts: dict[str, Start] = {}
    committed: dict[str, End] = {}
    dispatches: dict[str, Dispatch] = {}

    def shown(self, rows: list[Row]) -> list[Row]:
        """The rows of committed turns, of rows that were kept of open ones: the gate, as the last filter."""
        if not self.open:
            return rows.copy()
        committed = self.committed
        return [row for row in rows if row[TURN] in committed]

    def claimed(self, event: EdgeEvent) -> str | None:
        """The started turn that an edge event belongs to, open or ended; None when nothing maps it to one."""
        turn = event.turn_id
        if event.dispatch_id is not None:
            dispatch = self.dispatches.get(event.dispatch_id)
            if dispatch is None or (turn is not None and turn != dispatch.turn):
                return None
            turn = dispatch.turn
        return turn if turn in self.starts else None

    def objection(self, event: HarnessEvent | EdgeEvent) -> str:
        """Why the event is in no open turn, as an anomaly's kind."""
        turn = event.turn_id
        if isinstance(event, EdgeEvent) and event.dispatch_id is not None:
            dispatch = self.dispatches.get(event.dispatch_id)
            if dispatch is None or (turn is not None and turn != dispatch.turn):
                return "unknown_dispatch"
            turn = dispatch.turn
        if turn is None:
            return "outside_turn"
        return "after_end" if turn in self.committed else "before_start"

    def mark(
        self, event: Marker, *, partition: str, position: int, at: datetime, happened_at: datetime | None
    ) -> str | None:
        """Spelling 1: take a marker; the kind of anomaly when it changes nothing, or is odd.

        `happened_at` is when the turn began or ended: as the event says, and of a live one that does not, when it
        was recorded.
        """
        if partition_of(event.turn.conversation_id) != partition:
            return "foreign_marker"
        if not event.turn.turn_id:
            return "unnamed_turn"
        if isinstance(event, TurnStart):
            return self._start(event, position=position, at=at, happened_at=happened_at)
        if isinstance(event, TurnComplete):
            return self._end(event, position=position, at=at, happened_at=happened_at)
        assert isinstance(event, DispatchIntent), "a marker starts, ends or dispatches a turn"
        return self._intend(event)

    def _intend(self, event: DispatchIntent) -> str | None:
        if event.dispatch_id in self.dispatches:
            return "repeated_marker"
        if not event.dispatch_id:
            return "unnamed_dispatch"
        self.dispatches[event.dispatch_id] = Dispatch(event.turn.turn_id, event.harness, event.persona_id)
        return None

    def _start(self, event: TurnStart, *, position: int, at: datetime, happened_at: datetime | None) -> str | None:
        turn, dispatch_id = event.turn.turn_id, event.dispatch_id or None
        if turn in self.starts:
            return "repeated_marker"
        kind = None
        if dispatch_id is not None:
            own = Dispatch(turn, event.harness, event.persona_id)
            if self.dispatches.setdefault(dispatch_id, own).turn != turn:  # a dispatch is mapped once
                dispatch_id, kind = None, "dispatch_of_another_turn"
        self.starts[turn] = Start(
            position, at, happened_at, dispatch_id, event.persona_id, event.harness, event.evidence
        )
        self.open[turn] = turn
        return kind

    def _end(self, event: TurnComplete, *, position: int, at: datetime, happened_at: datetime | None) -> str | None:
        turn = event.turn.turn_id
        if turn in self.committed:
            return "repeated_marker"
        if turn not in self.open:
            return "end_without_start"
        del self.open[turn]
        self.committed[turn] = End(
            len(self.committed),
            position,
            at,
            happened_at,
            event.status,
            event.evidence,
            event.failure_code,
            event.failure_message,
            event.duration_ms,
        )
        return None

    def persona_of(self, turn: str) -> str | None:
        """On whose behalf a started turn runs: its start says, else the first dispatch that names one."""
        start = self.starts[turn]
        if start.persona_id is not None:
            return start.persona_id
        named = (d.persona_id for d in self.dispatches.values() if d.turn == turn and d.persona_id is not None)
        return next(named, None)

    def duration_ms(self, turn: str) -> int | None:
        """How long a committed turn took: stated, or the difference of its two times."""
        end = self.committed[turn]
        started_at = self.starts[turn].started_at
        if end.duration_ms is not None or end.completed_at is None or started_at is None:
            return end.duration_ms
        return elapsed_ms(started_at, end.completed_at)

    def rows(self, partition: str, incarnation: str, *, origin: str, superseded: dict[str, int]) -> list[Row]:
        """One row a committed turn, by start; `turn_index` counts them."""
        first = [(key, dispatch) for key, dispatch in reversed(self.dispatches.items())]
        names = {dispatch.turn: key for key, dispatch in first}
        personas = {dispatch.turn: dispatch.persona_id for _, dispatch in first if dispatch.persona_id is not None}
        harnesses = {dispatch.turn: dispatch.harness for _, dispatch in first if dispatch.harness is not None}
        rows: list[Row] = []
        for turn, start in self.starts.items():
            end = self.committed.get(turn)
            if end is None:
                continue
            rows.append(
                (
                    partition,
                    incarnation,
                    start.position,
                    turn,
                    start.at,
                    len(rows) + 1,
                    start.dispatch_id or names.get(turn),
                    start.persona_id or personas.get(turn),
                    start.harness or harnesses.get(turn),
                    end.status,
                    end.failure_code,
                    end.failure_message,
                    start.started_at,
                    end.completed_at,
                    self.duration_ms(turn),
                    start.evidence,
                    end.evidence,
                    origin,
                    superseded.get(turn, 0) > start.position,
                )
            )
        return rows


def partition_of(conversation_id: str) -> str:
    """The partition of a conversation, which events name with or without its prefix.

    >>> partition_of("a"), partition_of("conv-a")
    ('conv-a', 'conv-a')
    """
    return conversation_id if conversation_id.startswith("conv-") else f"conv-{conversation_id}"


def elapsed_ms(since: datetime, until: datetime) -> int:
    """Whole milliseconds from one instant to another, exactly; 0 when time ran backwards.

    >>> noon, later = map(datetime.fromisoformat, ("2026-01-01T12:00:00Z", "2026-01-01T12:00:01.001999Z"))
    >>> elapsed_ms(noon, later), elapsed_ms(later, noon)
    (1001, 0)
    """
    took = until - since
    return max(0, took.days * 86_400_000 + took.seconds * 1000 + took.microseconds // 1000)


class Keeping(Protocol):
    """What the fold of a conversation offers to the events of its turns."""

    turns: Turns
    intake: Intake
    keeps: dict[int, Keep]  # by event type


def harness_event(fold: Keeping, event: Any, record: Record) -> None:
    """Spelling 2: hand an event that stands in its open turn to whoever keeps its type; count any other."""
    turn = fold.turns.open.get(event.turn_id)
    if turn is None:
        fold.intake.count(fold.turns.objection(event), record, turn=event.turn_id)
    else:
        fold.keeps[record.event_type](event, record.position, turn, fold.intake.at)


def edge_event(fold: Keeping, event: Any, record: Record) -> None:
    """Spelling 3: the same for an event that knows only its dispatch."""
    named: Any = event.turn_id if event.dispatch_id is None else fold.turns.claimed(event)
    turn = fold.turns.open.get(named)
    if turn is None:
        fold.intake.count(fold.turns.objection(event), record, turn=named)
    else:
        fold.keeps[record.event_type](event, record.position, turn, fold.intake.at)
