"""Events that were kept but fold into nothing: counted by kind and detail code, with place, never with content."""

from datetime import datetime

import msgspec

from facts.fold import Row
from polyc.limits import ANOMALY_KINDS_MAX


class Count(msgspec.Struct):
    """How often one kind of anomaly was seen, first and last."""

    events: int
    first_position: int
    last_position: int
    last_turn: str | None
    last_at: datetime


class Anomalies(msgspec.Struct):
    """The anomalies of one incarnation of a partition."""

    counts: dict[str, Count] = {}

    def count(self, kind: str, detail: str, *, position: int, at: datetime, turn: str | None = None) -> None:
        """Note one event of this kind."""
        key = f"{kind} {detail}"
        if key not in self.counts and len(self.counts) >= ANOMALY_KINDS_MAX:
            key = f"{kind} other"
        known = self.counts.get(key)
        if known is None:
            self.counts[key] = Count(1, position, position, turn, at)
        else:
            known.events += 1
            known.last_position, known.last_turn, known.last_at = position, turn, at

    def has(self, kind: str) -> bool:
        """Whether an event of this kind was noted."""
        return any(key.startswith(f"{kind} ") for key in self.counts)

    def rows(self, partition: str, incarnation: str) -> list[Row]:
        """One row a kind and detail code, in their order."""
        return [
            (
                partition,
                incarnation,
                c.last_position,
                c.last_turn,
                c.last_at,
                *key.split(" ", 1),
                c.events,
                c.first_position,
            )
            for key, c in sorted(self.counts.items())
        ]
