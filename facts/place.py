"""Where an event stands, as the folds of the deployment's partitions need it."""

from datetime import datetime
from typing import Any

import msgspec

from facts.fold import Row
from facts.intake import utc


class Place(msgspec.Struct, frozen=True):
    """Partition, incarnation (hex), position, log index and time of record."""

    partition: str
    incarnation: str
    position: int
    index: int
    at: datetime

    @property
    def row(self) -> Row:
        """The columns that every row of a fleet table starts with."""
        return (self.partition, self.incarnation, self.position, self.at)

    def when(self, event: Any) -> datetime:
        """When the event happened, as far as it says; else when it was recorded."""
        return utc(event.occurred_at) or self.at
