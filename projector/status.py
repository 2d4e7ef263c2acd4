"""How far the artifacts are behind the journal: what `polyc status` shows."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import msgspec

from artifacts.manifest import Fault
from artifacts.newest import Newest
from artifacts.store import Store
from journal.port import JournalReader
from polyc.clock import Clock
from polyc.errors import UnavailableError


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """`lag_s` is the age of the oldest entry that no generation covers; 0.0 when there is none."""

    head: int
    generation: int | None
    frontier_size: int
    published_at: datetime | None
    lag_events: int
    lag_s: float
    faults: tuple[Fault, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "head": self.head,
            "generation": self.generation,
            "frontier": self.frontier_size,
            "published_at": None if self.published_at is None else self.published_at.isoformat(),
            "lag": {"events": self.lag_events, "seconds": round(self.lag_s, 3)},
            "faults": [msgspec.structs.asdict(fault) for fault in self.faults],
        }


def status(journal: JournalReader, store: Store, *, clock: Clock) -> Status:
    """Head, newest generation and lag; CorruptError when the newest manifest does not verify."""
    head = journal.size()
    try:
        manifest = Newest(store, keys=journal.keyring, origin=journal.origin).latest()
    except UnavailableError:
        return Status(
            head=head, generation=None, frontier_size=0, published_at=None, lag_events=head,
            lag_s=_age_s(journal, 0, head, clock), faults=(),
        )  # fmt: skip
    body = manifest.body
    return Status(
        head=head,
        generation=body.generation,
        frontier_size=body.frontier.size,
        published_at=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=body.created_at_us),
        lag_events=max(0, head - body.frontier.size),
        lag_s=_age_s(journal, body.frontier.size, head, clock),
        faults=body.faults,
    )


def _age_s(journal: JournalReader, frontier_size: int, head: int, clock: Clock) -> float:
    if head <= frontier_size:
        return 0.0
    oldest = next(islice(journal.read_all(from_index=frontier_size, to_index=frontier_size + 1), 1), None)
    return 0.0 if oldest is None else max(0.0, (clock.now_us() - oldest.recorded_at_us) / 1_000_000)
