"""A rebuild: the whole journal into base packs, a pure function `partitions of a pack → pack`.

Packs are independent of each other, so processes share the work (and other machines could): each opens the journal
for itself, folds the partitions of one pack and leaves a durable pack behind; only names come back.
"""

import gc
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import cached_property
from multiprocessing import get_context, parent_process
from multiprocessing.synchronize import Event
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

STOP_POLL_S: Final = 0.2  # how soon a rebuild by processes hears that it should stop
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
    cohorts = {}
    for head in in_order:
        check_going(stopping)
        cohorts[head.partition] = first_cohort(journal, head)
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
        results = _in_processes(jobs, workers, stopping)
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


def _in_processes(jobs: Sequence[_Job], workers: Workers, stopping: Callable[[], bool]) -> Iterator[_Done]:
    """The largest packs first: no process is left alone with one at the end. StoppedError when asked to stop."""
    context = get_context("spawn")  # a fork would copy the threads of engines and clients in unknown states
    ending = context.Event()
    pool = ProcessPoolExecutor(workers.count, mp_context=context, initializer=_enter, initargs=(workers, ending))
    try:
        largest_first = sorted(jobs, key=lambda job: -job.events)
        running = {pool.submit(_write_in_process, job) for job in largest_first}
        while running:
            check_going(stopping)
            ended, running = wait(running, timeout=STOP_POLL_S, return_when=FIRST_COMPLETED)
            for future in ended:
                yield future.result()
    finally:  # whoever still folds, when this ends early, stops at its next conversation
        ending.set()
        pool.shutdown(wait=True, cancel_futures=True)


class _Process:
    """What a worker process holds for its life, opened with its first job: a fault there is the job's."""

    def __init__(self, workers: Workers, ending: Event) -> None:
        self.ending = ending
        self._workers = workers

    @cached_property
    def journal(self) -> JournalReader:
        return self._workers.open_journal()

    @cached_property
    def store(self) -> Store:
        return self._workers.open_store()

    @cached_property
    def meaning(self) -> Meaning:
        return self._workers.open_meaning()

    @cached_property
    def trust(self) -> Trust:
        return self.meaning.trust_of(self.journal.keyring())


_process: _Process


def _enter(workers: Workers, ending: Event) -> None:
    global _process  # noqa: PLW0603 - a pool hands its jobs nothing but their arguments
    threading.Thread(target=_end_with_parent, name="rebuild-parent", daemon=True).start()
    _process = _Process(workers, ending)


def _write_in_process(job: _Job) -> _Done:
    process = _process
    return _write(
        job, process.journal, process.store,
        meaning=process.meaning, trust=process.trust, stopping=process.ending.is_set,
    )  # fmt: skip


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for ever: it holds both ends of the queue it waits at."""
    parent = parent_process()
    assert parent is not None, "a worker process has a parent"
    parent.join()
    os._exit(1)
