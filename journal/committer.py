"""Group commit: many appends a transaction, by the callers' own threads.

Whoever finds that nobody leads does: it judges what waits, its own append among it and what comes meanwhile, and
commits that. Writers who were answered tend to come back at once, so it waits a moment for as many as the last commit
answered and left waiting. When a commit ends, the first of those who wait is told to lead. So a lone writer never
changes threads and never waits, and each waiter is woken once, by the one answered before it: all at once they would
stand in line for Python's lock, and the leader behind them after each signature (docs/adr/0021). The leader judges, and
one helper: who comes while it does and finds nobody helping. Not everybody, because a signature's verification gives
Python's lock away: with every caller doing its own, or one thread verifying beside one that commits, an append costs
ten changes of threads, more than all the cryptography (docs/adr/0013). The queue is bounded: beyond it callers are told
to wait.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from journal.door import Inspected
from polyc.appending import Ack, SignedAppend
from polyc.errors import PolycError, RefusedError, UnavailableError
from polyc.limits import APPEND_QUEUE_MAX, COMMIT_SIZE_BYTES_MAX, EVENTS_PER_COMMIT_MAX

# A commit waits so long, once, for writers whom it has reason to expect: less than most disks take to sync.
GATHER_S_MAX: Final = 0.001
EVENTS_GATHERED_MAX: Final = 1024  # with so many it goes ahead


class Pending:
    """An append that waits for its commit; answered exactly once."""

    __slots__ = (
        "_answer",
        "_committer",
        "_follower",
        "_judged",
        "_woken",
        "is_queued",
        "is_told_to_lead",
        "is_waited_for",
        "signed",
    )

    def __init__(self, signed: SignedAppend, committer: "Committer") -> None:
        self.signed = signed
        self.is_queued = False
        self.is_waited_for = False
        self.is_told_to_lead = False
        self._committer = committer
        self._follower: Pending | None = None  # whom to wake
        self._judged: Inspected | None = None
        self._answer: Ack | PolycError | None = None
        self._woken = threading.Lock()
        self._woken.acquire()

    @property
    def inspected(self) -> Inspected:
        """The append, found to be well made and truly signed."""
        assert self._judged is not None, "only judged appends are sealed"
        return self._judged

    def judged(self, inspected: Inspected) -> None:
        """The door's first half took it."""
        self._judged = inspected

    def resolve(self, answer: Ack | PolycError) -> None:
        """Give the caller its answer."""
        self.put_down(answer)
        self.wake()

    def put_down(self, answer: Ack | PolycError, *, follower: "Pending | None" = None) -> None:
        """Set the answer of a caller whom somebody else wakes; it then wakes the follower's."""
        assert self._answer is None, "an append is answered once"
        self._follower = follower  # before the answer: who finds that may leave at once
        self._answer = answer

    def tell_to_lead(self) -> None:
        """Wake the caller: it is to lead."""
        self.is_told_to_lead = True
        self.wake()

    @property
    def is_answered(self) -> bool:
        """Whether the caller has its answer."""
        return self._answer is not None

    def wake(self) -> None:
        """Let the caller look whether it is answered, or told to lead."""
        if self._woken.locked():  # else it was told to lead and, its time being over, did not wait for that
            self._woken.release()

    def result(self, *, timeout_s: float = -1) -> Ack:
        """Wait for the answer; a timeout says nothing about what became of the append."""
        try:
            self._wait(timeout_s)
        except BaseException:  # not answered: whoever answers later must not count on this caller
            self._committer.forsake(self)
            raise
        finally:
            follower, self._follower = self._follower, None
            if follower is not None:
                follower.wake()
        if isinstance(self._answer, PolycError):
            raise self._answer
        assert self._answer is not None, "who waited to the end was answered"
        return self._answer

    def _wait(self, timeout_s: float) -> None:
        while self._answer is None:
            if self._committer.must_lead(self, waits=True):
                self._committer.lead()
            elif not self._woken.acquire(timeout=timeout_s):
                if self._committer.must_lead(self, waits=False):
                    self._committer.lead()
                elif self._answer is None:
                    raise UnavailableError(
                        "no answer in time; the append may still be sealed",
                        code="deadline_exceeded",
                        hint="repeat it under the same append id",
                    )


class Committer:
    """Who leads. `seal` answers every append it is given.

    One thread at a time is in `seal`, or one or two in `judge`, never both.
    """

    def __init__(
        self,
        judge: Callable[[SignedAppend], Inspected],
        seal: Callable[[Sequence[Pending]], None],
        *,
        queue_max: int = APPEND_QUEUE_MAX,
        failed: Callable[[BaseException], PolycError],
    ) -> None:
        self._judge = judge
        self._seal = seal
        self._failed = failed
        self._queue: deque[Pending] = deque()
        self._queue_max = queue_max
        self._mutex = threading.Lock()
        self._unled = threading.Condition(self._mutex)  # nobody leads
        self._arrived = threading.Condition(self._mutex)  # as many as the leader awaits
        self._helped = threading.Condition(self._mutex)  # nobody helps any more
        self._expected = 1  # how many appends the next commit has reason to wait for
        self._awaited = 0  # how many this commit must have before the leader wants to be woken
        self._group: _Group | None = None  # what the leader gathers
        self._leading = False
        self._helping = False
        self._wanting_alone = 0
        self._closing = False

    def submit(self, appends: Sequence[SignedAppend]) -> list[Pending]:
        """Queue the appends in this order, all or none; leads when nobody does, or helps the one who does."""
        items = [Pending(signed, self) for signed in appends]
        with self._mutex:
            if self._closing:
                raise UnavailableError("the journal is closing")
            if len(self._queue) + len(items) > max(self._queue_max, len(items)):
                raise RefusedError(
                    "too many appends wait for their commit", code="resource_exhausted", hint="try again later"
                )
            for item in items:
                item.is_queued = True
            self._queue.extend(items)
            gathered = 0 if self._group is None else len(self._group.items)
            if 0 < self._awaited <= gathered + len(self._queue):
                self._arrived.notify()
            leads = bool(items) and not self._leading
            self._leading = self._leading or leads
            helps = bool(items) and self._group is not None and not self._helping
            self._helping = self._helping or helps
        if leads:
            self.lead()
        elif helps:
            self._help()
        return items

    def must_lead(self, pending: Pending, *, waits: bool) -> bool:
        """Whether this append's caller is to lead; if not, it waits from now on, or no longer."""
        with self._mutex:
            told, pending.is_told_to_lead = pending.is_told_to_lead, False
            if pending.is_queued and not self._leading:
                told = self._leading = True
            pending.is_waited_for = waits and not told
        return told

    def forsake(self, pending: Pending) -> None:
        """This append's caller stopped waiting; what it was told to do meanwhile is done."""
        if self.must_lead(pending, waits=False):
            self.lead()

    def answer(self, answers: Sequence[tuple[Pending, Ack | PolycError]]) -> None:
        """Answer the appends of a commit at once; those who wait wake one after another, the first by us."""
        first: Pending | None = None
        with self._mutex:
            for pending, answer in reversed(answers):
                if pending.is_waited_for:
                    pending.put_down(answer, follower=first)
                    first = pending
                else:
                    pending.resolve(answer)
        if first is not None:
            first.wake()

    def lead(self) -> None:
        """Judge and commit what waits, then let the next one lead; go on when there is work that nobody waits for."""
        leads = True
        while leads:
            group = _Group()
            try:
                self._gather(group)
                batch = [pending for pending in group.items if not pending.is_answered]
                if batch:
                    self._seal(batch)
                    self._expect(len(batch))
            except BaseException as error:  # every caller must hear of it; the journal decides what still works
                answer = self._failed(error)
                for pending in group.items:
                    if not pending.is_answered:
                        pending.resolve(answer)
                if not isinstance(error, Exception):
                    self._passed_on(goes_on=False)
                    raise
            leads = not self._passed_on()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody judges or seals within the block."""
        with self._mutex:
            self._wanting_alone += 1
            while self._leading:
                self._unled.wait()
            self._wanting_alone -= 1
            self._leading = True
        try:
            yield
        finally:
            if not self._passed_on():
                self.lead()

    def close(self) -> None:
        """Seal what was queued, and take no more."""
        with self._mutex:
            self._closing = True
        with self.alone():
            pass

    def _gather(self, group: "_Group") -> None:
        """Judge what waits and what comes meanwhile; when nothing does, once, await those whom we expect."""
        with self._mutex:
            self._group = group
        try:
            self._judge_queued()
            with self._mutex:
                if not self._queue and 0 < len(group.items) < self._expected and group.events < EVENTS_GATHERED_MAX:
                    self._awaited = self._expected
                    self._arrived.wait(GATHER_S_MAX)
                    self._awaited = 0
            self._judge_queued()
        finally:
            with self._mutex:
                self._group = None
                while self._helping:
                    self._helped.wait()

    def _help(self) -> None:
        """Judge beside the leader until nothing waits; a fault is the append's own."""
        pending = None
        try:
            while (pending := self._next()) is not None:
                self._judge_one(pending)
        except BaseException as error:
            assert pending is not None, "only judging fails"
            pending.resolve(self._failed(error))
            if not isinstance(error, Exception):
                raise
        finally:
            with self._mutex:
                self._helping = False
                self._helped.notify()

    def _judge_queued(self) -> None:
        while (pending := self._next()) is not None:
            self._judge_one(pending)

    def _judge_one(self, pending: Pending) -> None:
        try:
            pending.judged(self._judge(pending.signed))
        except RefusedError as refused:
            pending.resolve(refused)

    def _next(self) -> Pending | None:
        """The queue's first append, if it fits in what is being gathered: now part of it, in the queue's order."""
        with self._mutex:
            if self._group is None or not self._queue or not self._group.admits(self._queue[0].signed):
                return None
            pending = self._queue.popleft()
            pending.is_queued = False
            self._group.items.append(pending)
        return pending

    def _expect(self, answered: int) -> None:
        """Writers who were answered tend to come back at once; together with those who wait they make a commit."""
        with self._mutex:
            self._expected = 1 if self._closing else answered + len(self._queue)

    def _passed_on(self, *, goes_on: bool = True) -> bool:
        """Let somebody else lead: who wants to be alone, who waits, or whoever comes next; False when we must go on."""
        with self._mutex:
            if self._queue and not self._wanting_alone:
                for pending in self._queue:
                    if pending.is_waited_for:
                        pending.tell_to_lead()
                        return True
                if goes_on:
                    return False
            self._leading = False
            self._unled.notify()
        return True


class _Group:
    """The appends of the commit in the making, refused ones among them, within one commit's bounds."""

    __slots__ = ("_size_bytes", "events", "items")

    def __init__(self) -> None:
        self.items: list[Pending] = []
        self.events = 0
        self._size_bytes = 0

    def admits(self, signed: SignedAppend) -> bool:
        """Whether it fits; then it is counted. One alone always does."""
        events = self.events + len(signed.entries)
        size_bytes = self._size_bytes + sum([len(item.payload) for item in signed.entries])
        if self.items and (events > EVENTS_PER_COMMIT_MAX or size_bytes > COMMIT_SIZE_BYTES_MAX):
            return False
        self.events, self._size_bytes = events, size_bytes
        return True
