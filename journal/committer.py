"""Group commit: one committer, many waiters per fsync.

Callers hand in work and wait; the committer takes all that has gathered, seals it in one transaction and wakes each
caller with its own answer. Writers who were answered tend to come back at once, so a commit waits a moment for as many
appends as the last one answered and left waiting; a lone writer therefore never waits. The queue is bounded: beyond it
callers are told to wait.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from journal.door import Inspected
from polyc.appending import Ack
from polyc.clock import Clock
from polyc.errors import PolycError, RefusedError, UnavailableError
from polyc.limits import APPEND_QUEUE_MAX, COMMIT_SIZE_BYTES_MAX, EVENTS_PER_COMMIT_MAX

# How long a commit waits for the next append it has reason to expect: a share of what the last one took, within bounds.
GATHER_SHARE: Final = 4
GATHER_S_MIN: Final = 0.002
GATHER_S_MAX: Final = 0.05
GATHER_WAITS_MAX: Final = 16  # and how often
EVENTS_GATHERED_MAX: Final = 2048  # with so many it goes ahead: its fsync is paid for, and others judge meanwhile


class Pending:
    """An append that waits for its commit; answered exactly once."""

    __slots__ = ("_answer", "_done", "event_count", "inspected")

    def __init__(self, inspected: Inspected) -> None:
        self.inspected = inspected
        self.event_count = len(inspected.event_types)
        self._answer: Ack | PolycError | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def resolve(self, answer: Ack | PolycError) -> None:
        """Give the caller its answer."""
        assert self._answer is None, "an append is answered once"
        self._answer = answer
        self._done.release()

    def result(self, *, timeout_s: float = -1) -> Ack:
        """Wait for the answer; a timeout says nothing about what became of the append."""
        if not self._done.acquire(timeout=timeout_s):
            raise UnavailableError(
                "no answer in time; the append may still be sealed",
                code="deadline_exceeded",
                hint="repeat it under the same append id",
            )
        self._done.release()
        assert self._answer is not None
        if isinstance(self._answer, PolycError):
            raise self._answer
        return self._answer


class Task:
    """Something else that only the writer may do; runs between two commits."""

    __slots__ = ("_done", "_error", "_run")
    event_count: Final = 0

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self._error: BaseException | None = None
        self._done = threading.Event()

    def run(self) -> None:
        """Do it, and keep what it raised for the waiter."""
        try:
            self._run()
        except Exception as error:
            self._error = error
        finally:
            self._done.set()

    def wait(self) -> None:
        """Wait until it was done; raises what it raised."""
        self._done.wait()
        if self._error is not None:
            raise self._error


class Committer:
    """The thread that seals what gathered. `seal` answers every append of the batch it is given."""

    def __init__(
        self,
        seal: Callable[[Sequence[Pending]], None],
        *,
        clock: Clock,
        queue_max: int = APPEND_QUEUE_MAX,
        failed: Callable[[BaseException], PolycError],
    ) -> None:
        self._seal = seal
        self._failed = failed
        self._clock = clock
        self._queue: deque[Pending | Task] = deque()
        self._queue_max = queue_max
        self._changed = threading.Condition()
        self._expected = 1  # how many appends the next commit has reason to wait for
        self._wait_s = GATHER_S_MIN  # for the next of them
        self._queued_events = 0
        self._awaited = 1  # how many must have gathered before the committer wants to be woken
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="journal-committer", daemon=True)
        self._thread.start()

    def submit(self, items: Sequence[Pending | Task]) -> None:
        """Queue the appends in this order, all or none."""
        with self._changed:
            if self._closing:
                raise UnavailableError("the journal is closing")
            if len(self._queue) + len(items) > max(self._queue_max, len(items)):
                raise RefusedError(
                    "too many appends wait for their commit", code="resource_exhausted", hint="try again later"
                )
            self._queue.extend(items)
            self._queued_events += sum(item.event_count for item in items)
            if len(self._queue) >= self._awaited or self._queued_events >= EVENTS_GATHERED_MAX:
                self._changed.notify()

    def close(self) -> None:
        """Seal what was queued, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while gathered := self._gathered():
            if isinstance(gathered, Task):
                gathered.run()
                continue
            batch, began_s = gathered, self._clock.monotonic_s()
            try:
                self._seal(batch)
            except Exception as error:  # every caller must hear of it; the journal decides what still works
                answer = self._failed(error)
                for pending in batch:
                    pending.resolve(answer)
            self._expected = len(batch) + len(self._queue)
            took_s = self._clock.monotonic_s() - began_s
            self._wait_s = min(max(GATHER_S_MIN, took_s / GATHER_SHARE), GATHER_S_MAX)

    def _gathered(self) -> list[Pending] | Task:
        """What waits now, up to one commit's bounds or the next task; empty only when closing."""
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            self._gather()
            batch: list[Pending] = []
            events = size_bytes = 0
            while self._queue:
                first = self._queue[0]
                if isinstance(first, Task):
                    if not batch:
                        self._queue.popleft()
                        return first
                    break
                events += first.event_count
                size_bytes += first.inspected.size_bytes
                if batch and (events > EVENTS_PER_COMMIT_MAX or size_bytes > COMMIT_SIZE_BYTES_MAX):
                    break
                self._queue.popleft()
                self._queued_events -= first.event_count
                batch.append(first)
            return batch

    def _gather(self) -> None:
        """Wait for the appends that are expected, as long as some still come."""
        self._awaited = self._expected
        for _ in range(GATHER_WAITS_MAX):
            gathered = len(self._queue)
            enough = gathered >= self._awaited or self._queued_events >= EVENTS_GATHERED_MAX
            if enough or self._closing or isinstance(self._queue[-1], Task):
                break
            self._changed.wait(self._wait_s)
            if len(self._queue) == gathered:
                break
        self._awaited = 1
