"""The table `journal_notices`: what the journal honestly says of itself, in whatever partition it says so."""

from datetime import datetime

import msgspec

from facts.events import Erased, Gap, Recovery
from facts.fold import Row


class Notices(msgspec.Struct):
    """The notices of one incarnation of a partition."""

    partition: str
    incarnation: str
    entries: list[Row] = []

    def notice(self, event: Gap | Recovery | Erased, position: int, at: datetime) -> None:
        """Take a notice."""
        place = (self.partition, self.incarnation, position, at)
        if isinstance(event, Gap):
            row: Row = (*place, "gap", event.partition, None, None, None, event.detail)
        elif isinstance(event, Recovery):
            row = (*place, "recovery", None, None, None, event.from_index, event.detail)
        else:
            row = (*place, "erased", event.partition, event.incarnation, event.position, None, event.reason)
        self.entries.append(row)
