"""Who does the work of a rebuild: this process alone, or several that each open journal, store and meaning.

A piece of work is an importable function of a `Worker` and an item; only the item and the result travel. Workers stop
between conversations when the parent does, and end with a parent that was killed.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cached_property
from multiprocessing import get_context, parent_process
from multiprocessing.synchronize import Event
from typing import Final, Protocol, TypeVar

import msgspec

from artifacts.store import Store
from facts.trust import Trust
from journal.port import JournalReader
from polyc.errors import UnavailableError
from polyc.limits import REBUILD_PROCESSES_EVENTS_MIN
from projector.meaning import Meaning
from projector.replay import check_going

Item = TypeVar("Item")
Result = TypeVar("Result")

STOP_POLL_S: Final = 0.2  # how soon a rebuild by processes hears that it should stop


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """How processes help: each opens its own journal, store and meaning by these (importable) functions."""

    count: int
    open_journal: Callable[[], JournalReader]
    open_store: Callable[[], Store]
    open_meaning: Callable[[], Meaning]
    events_min: int = REBUILD_PROCESSES_EVENTS_MIN


class Worker:
    """What a process works with, opened on first use: a fault there is the fault of that piece of work."""

    def __init__(self, workers: Workers, stopping: Callable[[], bool]) -> None:
        self.stopping = stopping
        self._workers = workers

    @cached_property
    def journal(self) -> JournalReader:
        """The journal, to be read."""
        return self._workers.open_journal()

    @cached_property
    def store(self) -> Store:
        """Where packs are left."""
        return self._workers.open_store()

    @cached_property
    def meaning(self) -> Meaning:
        """Tables and folds."""
        return self._workers.open_meaning()

    @cached_property
    def trust(self) -> Trust:
        """Whose events count."""
        return self.meaning.trust_of(self.journal.keyring())


class Sharing(Protocol):
    """Does the work of every item; results come as they are ready, in any order."""

    def __call__(self, work: Callable[[Worker, Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The results of `work` on each item."""


def alone(worker: Worker) -> Sharing:
    """This process does everything, in order."""
    return lambda work, items: (work(worker, item) for item in items)


@contextmanager
def together(workers: Workers, *, stopping: Callable[[], bool]) -> Iterator[Sharing]:
    """Processes share the work, while the block runs; StoppedError when we are asked to stop."""
    context = get_context("spawn")  # a fork would copy the threads of engines and clients in unknown states
    ending = context.Event()
    pool = ProcessPoolExecutor(workers.count, mp_context=context, initializer=_enter, initargs=(workers, ending))

    def share(work: Callable[[Worker, Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        running = {pool.submit(_work, work, item) for item in items}
        while running:
            check_going(stopping)
            ended, running = wait(running, timeout=STOP_POLL_S, return_when=FIRST_COMPLETED)
            for future in ended:
                yield _result(future)

    try:
        yield share
    finally:  # whoever still folds, when this ends early, stops at its next conversation
        ending.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _result(future: Future[Result]) -> Result:
    try:
        return future.result()
    except BrokenProcessPool:
        raise UnavailableError(
            "a process that helped with a rebuild was killed", hint="is there memory enough? nothing was published"
        ) from None


_worker: Worker  # of a process that works for another


def _enter(workers: Workers, ending: Event) -> None:
    global _worker  # noqa: PLW0603 - a pool hands its work nothing but arguments
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    _worker = Worker(workers, ending.is_set)


def _work(work: Callable[[Worker, Item], Result], item: Item) -> Result:
    return work(_worker, item)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for ever: it holds both ends of the queue it waits at."""
    parent = parent_process()
    assert parent is not None, "a worker process has a parent"
    parent.join()
    os._exit(1)
