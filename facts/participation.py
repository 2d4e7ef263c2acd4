"""The table `persona_participation`: who participates in a conversation, from when to when (ruling 15)."""

from datetime import datetime

import msgspec

from facts.events import ParticipantJoined, ParticipantLeft
from facts.fold import Row
from facts.intake import utc


class Seat(msgspec.Struct):
    """A persona's participation as the last record left it."""

    position: int
    joined_at: datetime
    left_at: datetime | None
    joined_index: int
    last_index: int
    acted_by: str | None


class Participation(msgspec.Struct):
    """The participation records of one incarnation of a conversation."""

    partition: str
    incarnation: str
    seats: dict[str, Seat] = {}

    def join(self, event: ParticipantJoined, *, position: int, index: int, at: datetime) -> str | None:
        """Take a joining; the kind of anomaly when the persona participates already."""
        seat = self.seats.get(event.persona_id)
        if seat is not None and seat.left_at is None:
            return "repeated_join"
        self.seats[event.persona_id] = Seat(position, utc(event.occurred_at) or at, None, index, index, event.acted_by)
        return None

    def leave(self, event: ParticipantLeft, *, position: int, index: int, at: datetime) -> str | None:
        """Take a leaving; the kind of anomaly when the persona does not participate."""
        seat = self.seats.get(event.persona_id)
        if seat is None or seat.left_at is not None:
            return "leave_without_join"
        seat.position, seat.left_at, seat.last_index = position, utc(event.occurred_at) or at, index
        seat.acted_by = event.acted_by
        return None

    def rows(self) -> list[Row]:
        """One row a persona that ever participated, by persona."""
        return [
            (
                self.partition,
                self.incarnation,
                seat.position,
                persona,
                seat.joined_at,
                seat.left_at,
                seat.joined_index,
                seat.last_index,
                seat.acted_by,
            )
            for persona, seat in sorted(self.seats.items())
        ]
