"""A rebuild: the whole journal into base packs, a pure function `partitions of a pack → pack`.

Packs are independent of each other, so processes share the work (and other machines could): each opens the journal
for itself, folds the partitions of one pack and leaves a durable pack behind; only names come back.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final

import msgspec

from artifacts.layout import LayoutParameters
from artifacts.manifest import Fault
from artifacts.store import Store
from journal.port import JournalReader, PartitionHead
from polyc.errors import UnavailableError
from projector.changes import Change, whole
from projector.content import ContentDigests
from projector.meaning import Meaning
from projector.packing import Written, base_groups, write_pack
from projector.replay import Replayed, check_going, first_cohort, replay, replay_together
from projector.workers import Sharing, Worker, Workers, alone, together

Progress = Callable[[int, int], None]

PEEKS: Final = 1024  # conversations whose first events are looked at in one piece of work
ROUND_EVENTS: Final = 768  # of conversations that are replayed together: their rows stay in a cache of 2 MiB
HEAP_KEPT_BYTES: Final = 32 * 1024 * 1024  # what one conversation frees and the next one needs again


class _Job(msgspec.Struct, frozen=True):
    """One base pack to be written."""

    ordinal: int
    heads: tuple[PartitionHead, ...]
    cohorts: tuple[str, ...]  # by which the heads were planned to be in this pack
    layout: LayoutParameters

    @property
    def events(self) -> int:
        return sum(head.position for head in self.heads)


class _Done(msgspec.Struct, frozen=True):
    """What became of a job."""

    ordinal: int
    events: int
    written: Written | None
    faults: tuple[Fault, ...]


def write_bases(
    journal: JournalReader,
    store: Store,
    heads: Sequence[PartitionHead],
    *,
    meaning: Meaning,
    layout: LayoutParameters,
    faults: list[Fault],
    progress: Progress | None,
    workers: Workers | None,
    stopping: Callable[[], bool] = lambda: False,
) -> list[Written]:
    """Write every base pack; returns them in the order of the base list, faults beside."""
    total = sum(head.position for head in heads)
    found = list[_Done]()
    with _sharing(journal, store, total, meaning=meaning, workers=workers, stopping=stopping) as share:
        done = 0
        for result in share(_write, _planned(heads, share, layout=layout)):
            found.append(result)
            done += result.events
            if progress is not None:
                progress(done, total)
    found.sort(key=lambda item: item.ordinal)
    faults += [fault for item in found for fault in item.faults]
    return [item.written for item in found if item.written is not None]


@contextmanager
def _sharing(
    journal: JournalReader,
    store: Store,
    events: int,
    *,
    meaning: Meaning,
    workers: Workers | None,
    stopping: Callable[[], bool],
) -> Iterator[Sharing]:
    if workers is not None and events >= workers.events_min:
        with together(workers, stopping=stopping) as share:
            yield share
    else:
        ours = Workers(count=1, open_journal=lambda: journal, open_store=lambda: store, open_meaning=lambda: meaning)
        yield alone(Worker(ours, stopping))


def _planned(heads: Sequence[PartitionHead], share: Sharing, *, layout: LayoutParameters) -> list[_Job]:
    """The packs to be written, the largest first: no process is left alone with one at the end."""
    by_name = {head.partition: head for head in heads}
    events = {head.partition: head.position for head in heads}
    in_order = sorted(heads, key=lambda head: head.first_index)  # as they lie on the disk
    pieces = [tuple(in_order[first : first + PEEKS]) for first in range(0, len(in_order), PEEKS)]
    cohorts = dict(chain.from_iterable(share(_cohorts, pieces)))
    jobs = [
        _Job(ordinal, tuple(by_name[name] for name in names), tuple(cohorts[name] for name in names), layout)
        for ordinal, names in enumerate(base_groups(cohorts, events, layout=layout))
    ]
    return sorted(jobs, key=lambda job: -job.events)


def _cohorts(worker: Worker, heads: tuple[PartitionHead, ...]) -> list[tuple[str, str]]:
    """Each partition and its cohort, to plan by."""
    found = []
    for head in heads:
        check_going(worker.stopping)
        found.append((head.partition, first_cohort(worker.journal, head)))
    return found


def _write(worker: Worker, job: _Job) -> _Done:
    """Fold the partitions of one pack and leave it behind, durable."""
    faults: list[Fault] = []
    meaning, digests = worker.meaning, ContentDigests(worker.meaning.tables)
    cohorts = {head.partition: cohort for head, cohort in zip(job.heads, job.cohorts, strict=True)}

    def changes() -> Iterator[Change]:
        for heads in _rounds(job.heads):
            check_going(worker.stopping)
            found = _replayed(worker, heads)
            faults.extend(replayed.fault for replayed in found if replayed.fault is not None)
            shown = [replayed for replayed in found if replayed.through]
            if any(replayed.cohort != cohorts[replayed.partition] for replayed in shown):
                raise UnavailableError("an event was erased while its conversation was being replayed")
            yield from [whole(replayed, digests) for replayed in shown]

    with _memory_for_folding():
        written = write_pack(worker.store, changes(), specs=meaning.tables, layout=job.layout, kind="base")
    return _Done(job.ordinal, job.events, written, tuple(faults))


def _rounds(heads: Iterable[PartitionHead]) -> Iterator[list[PartitionHead]]:
    """Conversations that are replayed together: as many as have that many events, or one with more."""
    together, events = list[PartitionHead](), 0
    for head in heads:
        if together and events + head.position > ROUND_EVENTS:
            yield together
            together, events = [], 0
        together.append(head)
        events += head.position
    if together:
        yield together


def _replayed(worker: Worker, heads: list[PartitionHead]) -> list[Replayed]:
    journal, meaning, trust = worker.journal, worker.meaning, worker.trust
    if len(heads) == 1:  # perhaps a huge one, whose records are not to be held all at once
        return [replay(journal, heads[0], meaning=meaning, trust=trust)]
    return replay_together(journal, heads, meaning=meaning, trust=trust)


@contextmanager
def _memory_for_folding() -> Iterator[None]:
    """Keep the cycle collector and the kernel out of it.

    Folds hold no cycles, and the collector walks live rows again and again (12-20 % of all). glibc gives a freed heap
    back at once and faults it in again for the next conversation; freeing one large block tells it to keep more (15 %).
    """
    enabled = gc.isenabled()
    gc.disable()
    bytes(HEAP_KEPT_BYTES)
    try:
        yield
    finally:
        if enabled:
            gc.enable()
