"""The importing loop over a journal in memory, with the same rules of idempotency as the door's."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from facts.codec import decode
from sources import IMPORTS_PARTITION, Cursors, Following, Importer, Report

NOW_US = 1_900_000_000_000_000


class MemoryJournal:
    """Partitions as lists of incarnations; a repeated append id with other bytes is a fault of the importer."""

    def __init__(self) -> None:
        self.partitions: dict[str, list[list]] = {}
        self.appends: dict[bytes, tuple] = {}
        self.sizes: list[int] = []

    def append(self, partition, batch) -> bool:
        """Whether it was new."""
        for draft in batch.drafts:
            assert decode(draft.event_type, draft.payload, place=partition) is not None, "every event is one"
        content = (partition, batch.drafts)
        if (known := self.appends.get(batch.append_id)) is not None:
            assert known == content, "an append id stands for one content"
            return False
        self.appends[batch.append_id] = content
        self.sizes.append(len(batch.drafts))
        incarnations = self.partitions.setdefault(partition, [])
        if not incarnations or batch.new_incarnation:
            assert batch.opens or partition == IMPORTS_PARTITION
            incarnations.append([])
        incarnations[-1].extend(batch.drafts)
        return True

    def leaf(self, partition):
        """What changes with every append."""
        incarnations = self.partitions.get(partition)
        return None if incarnations is None else f"{len(incarnations)}:{len(incarnations[-1])}".encode()

    def events(self, partition):
        """What the importer asks for when its cursors are lost or old."""
        return [(d.event_type, d.payload) for d in self.partitions[partition][-1]]

    def current(self) -> dict[str, list]:
        """The events of each conversation's current incarnation; an opening's id names the incarnation: left out."""
        return {
            name: [(0, msgspec.json.decode(found[-1][0].payload) | {"id": ""}), *found[-1][1:]]
            for name, found in self.partitions.items()
            if name != IMPORTS_PARTITION
        }

    def drafts(self) -> dict[str, list]:
        """The drafts of each conversation's current incarnation."""
        return {name: found[-1] for name, found in self.partitions.items() if name != IMPORTS_PARTITION}


class Loop:
    """Imports into a memory journal, again and again."""

    def __init__(self, cursors: Cursors | None = None, *, following: Following | None = None) -> None:
        self.following = following
        self.journal = MemoryJournal()
        self.cursors = cursors or Cursors.open(None)

    def lose_cursors(self) -> None:
        """The cache is gone."""
        self.cursors = Cursors.open(None)

    def run(self, *paths: Path, final: bool = False, now_us: int = NOW_US) -> tuple[Report, int]:
        """Import; answers the report and how many appends were new."""
        return self.run_all(paths, final=final, now_us=now_us)

    def run_all(self, paths: Iterable[Path], *, final: bool = False, now_us: int = NOW_US) -> tuple[Report, int]:
        importer = Importer(self.cursors, past=self.journal, following=self.following)
        survey = importer.survey(paths, now_us=now_us, final=final)
        new = 0
        ended = []  # settled later, as the real loop does: when a group of appends is durable
        for planned in importer.plan(survey):
            for batch in planned.batches():
                new += self.journal.append(planned.partition, batch)
            ended.append(planned)
        for planned in ended:
            importer.settle(planned, leaf=self.journal.leaf(planned.partition))
        for batch in importer.quarantined():
            new += self.journal.append(IMPORTS_PARTITION, batch)
        importer.finish()
        return importer.report, new
