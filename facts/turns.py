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
from typing import Any

import msgspec

from facts.events import DispatchIntent, EdgeEvent, HarnessEvent, Marker, TurnComplete, TurnStart
from facts.fold import Row
from facts.intake import Handle, Intake
from polyc.entry import Record

Keep = Callable[[Any, Row], None]  # takes an event of an open turn and its place: the first columns of its row


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

    open: set[str] = set()
    starts: dict[str, Start] = {}
    committed: dict[str, End] = {}
    dispatches: dict[str, Dispatch] = {}

    def harness_events(self, keep: Keep, intake: Intake) -> Handle:
        """Spelling 2: hands an event to `keep` with its place, when it stands in its open turn; else counts it."""
        is_open, partition, incarnation = self.open, intake.partition, intake.incarnation

        def handle(event: Any, record: Record) -> None:
            turn = event.turn_id
            if turn in is_open:
                keep(event, (partition, incarnation, record.position, turn, intake.at))
            else:
                intake.count(self.objection(event), record, turn=turn)

        return handle

    def edge_events(self, keep: Keep, intake: Intake) -> Handle:
        """Spelling 3: the same for an event that knows only its dispatch."""
        is_open, partition, incarnation = self.open, intake.partition, intake.incarnation

        def handle(event: Any, record: Record) -> None:
            turn = event.turn_id if event.dispatch_id is None else self.claimed(event)
            if turn in is_open:
                keep(event, (partition, incarnation, record.position, turn, intake.at))
            else:
                intake.count(self.objection(event), record, turn=turn)

        return handle

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
        """Spelling 1: take a marker; the kind of anomaly when it changes nothing.

        `happened_at` is when the turn began or ended: as the event says, and of a live one that does not, when it
        was recorded.
        """
        if event.turn.conversation_id not in (partition, partition.removeprefix("conv-")):
            return "foreign_marker"
        if isinstance(event, TurnStart):
            return self._start(event, position=position, at=at, happened_at=happened_at)
        if isinstance(event, TurnComplete):
            return self._end(event, position=position, at=at, happened_at=happened_at)
        assert isinstance(event, DispatchIntent), "a marker starts, ends or dispatches a turn"
        return self._intend(event)

    def _intend(self, event: DispatchIntent) -> str | None:
        if event.dispatch_id in self.dispatches:
            return "repeated_marker"
        self.dispatches[event.dispatch_id] = Dispatch(event.turn.turn_id, event.harness, event.persona_id)
        return None

    def _start(self, event: TurnStart, *, position: int, at: datetime, happened_at: datetime | None) -> str | None:
        turn = event.turn.turn_id
        if turn in self.starts:
            return "repeated_marker"
        self.starts[turn] = Start(
            position, at, happened_at, event.dispatch_id, event.persona_id, event.harness, event.evidence
        )
        self.open.add(turn)
        if event.dispatch_id is not None and event.dispatch_id not in self.dispatches:
            self.dispatches[event.dispatch_id] = Dispatch(turn, event.harness, event.persona_id)
        return None

    def _end(self, event: TurnComplete, *, position: int, at: datetime, happened_at: datetime | None) -> str | None:
        turn = event.turn.turn_id
        if turn in self.committed:
            return "repeated_marker"
        if turn not in self.open:
            return "end_without_start"
        self.open.discard(turn)
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
        return max(0, int((end.completed_at - started_at).total_seconds() * 1000))

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


Spelling = Callable[[Turns, Keep, Intake], Handle]
