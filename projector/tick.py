"""Which of the moved partitions a tick folds, and what of them it publishes.

Fair between one huge and a thousand small conversations: the longest waiting goes first, then the cheapest, until the
tick's events are used up; the rest is named in the manifest as *behind* and comes in the next tick. Audit and
credential partitions, which every query moves, take part only when a slow tick is due (ruling 26).
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from artifacts.index import IndexRow
from artifacts.manifest import Behind, Fault
from artifacts.reader import Generation
from facts.trust import Trust
from journal.port import JournalReader, PartitionHead
from projector.changes import Change, change
from projector.content import ContentDigests
from projector.frontier import Cut
from projector.livefolds import LiveFolds
from projector.meaning import Meaning
from projector.replay import Replayed, check_going, replay

SLOW_PREFIXES: Final = ("query-audit-", "credentials-")


class Selection(msgspec.Struct, frozen=True):
    """The partitions to fold now, by name, and those left behind, the longest waiting first."""

    heads: tuple[PartitionHead, ...]
    behind: tuple[Behind, ...]


def is_slow(partition: str) -> bool:
    """Whether the partition waits for a slow tick."""
    return partition.startswith(SLOW_PREFIXES)


def select(
    cut: Cut, *, waiting: tuple[Behind, ...], since: int, budget_events: int | None, slow: bool = True
) -> Selection:
    """Choose; of those that may take part at least one, and always the longest waiting one."""
    waits = {item.partition: item.since for item in waiting}
    here = [head for head in cut.heads if slow or not is_slow(head.partition)]
    names = {head.partition for head in here}
    first = next((item.partition for item in waiting if item.partition in names), None)
    chosen: dict[str, PartitionHead] = {}
    used = 0
    for head in sorted(here, key=lambda head: (head.partition != first, head.position, head.partition)):
        if chosen and budget_events is not None and used + head.position > budget_events:
            break
        chosen[head.partition] = head
        used += head.position
    left = [Behind(h.partition, waits.get(h.partition, since)) for h in cut.heads if h.partition not in chosen]
    behind = sorted(left, key=lambda item: (item.since, item.partition))
    return Selection(tuple(chosen[name] for name in sorted(chosen)), tuple(behind))


class Tick:
    """The folding of one tick: yields changes, and gathers what it met on the way."""

    def __init__(
        self,
        journal: JournalReader,
        current: Generation,
        *,
        meaning: Meaning,
        trust: Trust,
        live: LiveFolds,
        since: int,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._journal = journal
        self._current = current
        self._meaning = meaning
        self._trust = trust
        self._live = live
        self._since = since
        self._stopping = stopping
        self._digests = ContentDigests(meaning.tables)
        self._row_tables = [spec.name for spec in meaning.tables if spec.family == "row"]
        self.faults: list[Fault] = []
        self.erased: set[str] = set()  # partitions whose content must leave every pack

    def changes(self, heads: tuple[PartitionHead, ...]) -> Iterator[Change]:
        """What must be published of these partitions, in their order."""
        for head in heads:
            check_going(self._stopping)
            published = self._current.layers.newest(head.partition)
            replayed = replay(
                self._journal, head, meaning=self._meaning, trust=self._trust, since=self._since, live=self._live
            )
            self.erased |= replayed.erasures
            if replayed.fault is not None:
                self.faults.append(replayed.fault)
            if published is not None and replayed.erased > published.erased:
                self.erased.add(head.partition)
            if _worth_publishing(replayed, published):
                counts = self._current.layers.counts(head.partition, self._row_tables)
                yield change(replayed, self._digests, published=published, counts=counts)


def _worth_publishing(replayed: Replayed, published: IndexRow | None) -> bool:
    """A fault publishes the good records before it when they are more than what is published, else nothing."""
    if replayed.through == 0:
        return False
    if replayed.fault is None or published is None:
        return True
    return published.incarnation != replayed.incarnation.hex() or replayed.through > published.to_position
