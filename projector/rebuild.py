"""A rebuild: the whole journal into base packs, a pure function `partitions of a pack → pack`.

Packs are independent of each other, so processes share the work (and other machines could): each opens the journal
for itself, folds the partitions of one pack and leaves a durable pack behind; only names come back.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Final

import msgspec

from artifacts.layout import LayoutParameters
from artifacts.manifest import Fault
from artifacts.store import Store
from facts.trust import Trust
from journal.port import JournalReader, PartitionHead
from polyc.errors import UnavailableError
from polyc.limits import REBUILD_PROCESSES_EVENTS_MIN
from projector.changes import Change, whole
from projector.content import ContentDigests
from projector.meaning import Meaning
from projector.packing import Written, base_groups, write_pack
from projector.replay import check_going, first_cohort, replay

Progress = Callable[[int, int], None]

HEAP_KEPT_BYTES: Final = 32 * 1024 * 1024  # what one conversation frees and the next one needs again


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """How processes help: each opens its own journal, store and meaning by these (importable) functions."""

    count: int
    open_journal: Callable[[], JournalReader]
    open_store: Callable[[], Store]
    open_meaning: Callable[[], Meaning]
    events_min: int = REBUILD_PROCESSES_EVENTS_MIN


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
    by_name = {head.partition: head for head in heads}
    events = {head.partition: head.position for head in heads}
    in_order = sorted(heads, key=lambda head: head.first_index)  # as they lie on the disk
    cohorts = {head.partition: first_cohort(journal, head) for head in in_order}
    jobs = [
        _Job(ordinal, tuple(by_name[name] for name in names), tuple(cohorts[name] for name in names), layout)
        for ordinal, names in enumerate(base_groups(cohorts, events, layout=layout))
    ]
    total = sum(events.values())
    if workers is None or len(jobs) < 2 or total < workers.events_min:
        trust = meaning.trust_of(journal.keyring())
        results: Iterator[_Done] = (
            _write(job, journal, store, meaning=meaning, trust=trust, stopping=stopping) for job in jobs
        )
    else:
        results = _in_processes(jobs, workers)
    done, found = 0, list[_Done]()
    for result in results:
        found.append(result)
        done += result.events
        if progress is not None:
            progress(done, total)
    found.sort(key=lambda item: item.ordinal)
    faults += [fault for item in found for fault in item.faults]
    return [item.written for item in found if item.written is not None]


def _write(
    job: _Job,
    journal: JournalReader,
    store: Store,
    *,
    meaning: Meaning,
    trust: Trust,
    stopping: Callable[[], bool] = lambda: False,
) -> _Done:
    faults: list[Fault] = []
    digests = ContentDigests(meaning.tables)

    def changes() -> Iterator[Change]:
        for head, cohort in zip(job.heads, job.cohorts, strict=True):
            check_going(stopping)
            replayed = replay(journal, head, meaning=meaning, trust=trust)
            if replayed.fault is not None:
                faults.append(replayed.fault)
            if replayed.through:
                if replayed.cohort != cohort:
                    raise UnavailableError("an event was erased while its conversation was being replayed")
                yield whole(replayed, digests)

    with _memory_for_folding():
        written = write_pack(store, changes(), specs=meaning.tables, layout=job.layout, kind="base")
    return _Done(job.ordinal, job.events, written, tuple(faults))


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


def _in_processes(jobs: Sequence[_Job], workers: Workers) -> Iterator[_Done]:
    """The largest packs first, so that no process is left alone with one at the end."""
    context = get_context("spawn")  # a fork would copy the threads of engines and clients in unknown states
    with ProcessPoolExecutor(workers.count, mp_context=context, initializer=_open, initargs=(workers,)) as pool:
        largest_first = sorted(jobs, key=lambda job: -job.events)
        for future in as_completed([pool.submit(_write_in_process, job) for job in largest_first]):
            yield future.result()


class _Process:
    """What a worker process holds for its life."""

    journal: JournalReader
    store: Store
    meaning: Meaning
    trust: Trust


def _open(workers: Workers) -> None:
    _Process.journal = workers.open_journal()
    _Process.store = workers.open_store()
    _Process.meaning = workers.open_meaning()
    _Process.trust = _Process.meaning.trust_of(_Process.journal.keyring())


def _write_in_process(job: _Job) -> _Done:
    process = _Process
    return _write(job, process.journal, process.store, meaning=process.meaning, trust=process.trust)
