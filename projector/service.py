"""Follow mode: a new entry is published at once, or 250 ms after the publication before it, whichever is later.

Audit and credentials, which every query moves, come every five seconds (ruling 26). A tick folds at most a second's
worth of events; what it leaves is named in the manifest and comes next: the service never falls behind silently, and
never answers a flood with one endless tick. Merging, search packs of a first generation and the collector run beside,
in a thread of their own. A journal or store that is away is tried again, later each time; corrupt evidence stops the
service.
"""

import threading
from collections.abc import Callable
from typing import Final

from artifacts.gc import collect
from polyc.clock import Clock
from polyc.errors import UnavailableError
from polyc.limits import TICK_EVENTS_MAX
from projector.compaction import Compactor
from projector.publish import Projector, Published

GROUP_S: Final = 0.25  # artifacts.md, "A tick of the projector (≤ 250 ms group)": what arrives meanwhile shares one
IDLE_S: Final = 0.05  # after a tick that found only slow partitions moved: every query appends, no turn waits for that
SLOW_S: Final = 5.0  # ruling 26: audit and credential tables
WAIT_S: Final = 1.0  # how long one wait for the journal lasts: the answer to `stop` is never slower
COLLECT_S: Final = 600.0  # merged packs pile up at one a tick: ten minutes of them is what the disk must bear
HISTORY_KEPT: Final = 16  # generations to look back at with `polyc generations`
RETRY_S_MAX: Final = 30.0
END_S: Final = 3.0  # a merge that takes longer ends with the process: it is a daemon thread


class _Maintenance:
    """A thread that merges packs whenever something was published; keeps the error that ended it."""

    def __init__(self, compactor: Compactor, projector: Projector) -> None:
        self._compactor = compactor
        self._store, self._keys, self._clock = projector.store, projector.journal.keyring, projector.clock
        self._collected_s = self._clock.monotonic_s()
        self._due = threading.Condition()
        self._pending = self._ending = False
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="projector-maintenance", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something was published."""
        with self._due:
            self._pending = True
            self._due.notify()

    def end(self) -> None:
        """Let the merge in hand end, but not for ever: what it wrote is named, or collected later."""
        with self._due:
            self._ending = True
            self._due.notify()
        self._thread.join(END_S)

    def _run(self) -> None:
        try:
            while self._next():
                self._merge()
        except Exception as error:  # a supervisor's catch-all: the service raises it in its own thread
            self.failure = error

    def _next(self) -> bool:
        with self._due:
            self._due.wait_for(lambda: self._pending or self._ending)
            self._pending = False
            return not self._ending

    def _merge(self) -> None:
        try:
            while not self._ending and (self._compactor.maintain() or self._compactor.make_searchable()):
                pass
            if self._clock.monotonic_s() >= self._collected_s + COLLECT_S:
                self._collected_s = self._clock.monotonic_s()
                collect(self._store, keys=self._keys, clock=self._clock, keep_generations=HISTORY_KEPT)
        except (UnavailableError, OSError):  # a lost race, or the store is away: the next publication tries again
            return


def follow(
    projector: Projector,
    *,
    stop: threading.Event,
    on_published: Callable[[Published], None] | None = None,
    on_unavailable: Callable[[UnavailableError], None] | None = None,
    group_s: float = GROUP_S,
    budget_events: int = TICK_EVENTS_MAX,
) -> None:
    """Publish until `stop`; returns after the tick in hand, raises CorruptError when evidence does not verify."""
    projector.stop_when(stop.is_set)
    maintenance = _Maintenance(projector.compactor(projector.new_reader()), projector)
    pace = Pace(projector.clock, group_s=group_s)
    failures, seen, urgent = 0, 0, False
    try:
        while not stop.is_set():
            try:
                if not urgent:
                    projector.journal.wait_beyond(seen, pace.patience_s())
                    stop.wait(pace.rest_s())
                seen, slow = projector.journal.size(), pace.slow_is_due()
                published = projector.run_once(budget_events=budget_events, slow=slow, make_searchable=False)
            except UnavailableError as error:
                failures += 1
                if on_unavailable is not None and not stop.is_set():
                    on_unavailable(error)
                stop.wait(min(RETRY_S_MAX, group_s * 2**failures))
                continue
            if maintenance.failure is not None:
                raise maintenance.failure
            failures, urgent = 0, published is not None and published.behind > published.slow
            waiting = published.slow > 0 if published else projector.covered() < seen
            pace.ran(published=published is not None, slow=slow, waiting=waiting)
            maintenance.wake()
            if published is not None and on_published is not None:
                on_published(published)
    finally:
        maintenance.end()


class Pace:
    """When the next tick may run, and whether it takes the slow partitions along."""

    def __init__(self, clock: Clock, *, group_s: float) -> None:
        self._clock = clock
        self._group_s = group_s
        self._last_s = self._last_slow_s = -SLOW_S
        self._rest_s = 0.0
        self._slow_waits = False

    def patience_s(self) -> float:
        """How long to wait for news: not beyond the next slow tick when something waits for it."""
        due_s = self._last_slow_s + SLOW_S - self._clock.monotonic_s()
        return max(0.0, min(WAIT_S, due_s)) if self._slow_waits else WAIT_S

    def rest_s(self) -> float:
        """How much of the group's time, or of an idle tick's, is left since the tick before."""
        return max(0.0, self._last_s + self._rest_s - self._clock.monotonic_s())

    def slow_is_due(self) -> bool:
        """Whether five seconds went by since the last tick that took the slow ones."""
        return self._clock.monotonic_s() >= self._last_slow_s + SLOW_S

    def ran(self, *, published: bool, slow: bool, waiting: bool) -> None:
        """A tick ran and published, or found nothing to; `waiting` tells that slow partitions moved and were left."""
        self._last_s = self._clock.monotonic_s()
        self._rest_s = self._group_s if published else min(self._group_s, IDLE_S)
        if slow:
            self._last_slow_s = self._last_s
        self._slow_waits = waiting
