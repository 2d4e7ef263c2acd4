"""Who commits: the callers' own threads, one at a time, and nobody is forgotten."""

import threading
from collections.abc import Callable

import pytest

from journal.committer import Committer, Pending
from polyc.appending import Ack, Head, SignedAppend, SignedEntry
from polyc.errors import RefusedError, UnavailableError
from polyc.limits import EVENTS_PER_COMMIT_MAX


def append(name: str, events: int = 1) -> SignedAppend:
    return SignedAppend(name, bytes(16), bytes(8), bytes(64), (SignedEntry(b"", b"", b""),) * events)


def ack(pending: Pending) -> Ack:
    return Ack(0, 1, 1, Head(pending.signed.partition, bytes(16), 1, bytes(32)), "note")


class Disk:
    """Seals batches when it is let, and remembers them and the thread that did it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.threads: list[int] = []
        self.open = threading.Event()
        self.open.set()
        self.reached = threading.Semaphore(0)
        self.fault: BaseException | None = None
        self.committer = Committer(
            self.judge, self.seal, queue_max=8, failed=lambda _error: UnavailableError("stopped")
        )

    def judge(self, signed: SignedAppend) -> SignedAppend:
        if signed.partition == "bad":
            raise RefusedError("not well made")
        return signed

    def seal(self, batch: list[Pending]) -> None:
        self.reached.release()
        self.open.wait()
        if self.fault is not None:
            raise self.fault
        self.batches.append([pending.signed.partition for pending in batch])
        self.threads.append(threading.get_ident())
        self.committer.answer([(pending, ack(pending)) for pending in batch])

    def say(self, *names: str) -> list[str]:
        return [pending.result().head.partition for pending in self.committer.submit([append(name) for name in names])]

    def beside(self, work: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def wait_for_queued(self, count: int) -> None:
        while len(self.committer._queue) < count:
            threading.Event().wait(0.001)


def test_a_lone_writer_commits_on_its_own_thread():
    disk = Disk()
    assert disk.say("a") == ["a"]
    assert disk.threads == [threading.get_ident()]


def test_who_comes_while_one_commits_shares_the_next_commit_on_the_first_ones_thread():
    disk = Disk()
    disk.open.clear()
    others = [disk.beside(lambda: disk.say("first"))]
    disk.reached.acquire()
    for number in range(3):
        others.append(disk.beside(lambda name=f"late {number}": disk.say(name)))
        disk.wait_for_queued(number + 1)
    disk.open.set()
    for thread in others:
        thread.join()
    assert disk.batches == [["first"], ["late 0", "late 1", "late 2"]]
    assert disk.threads == [others[0].ident, others[1].ident]


def test_a_refused_append_is_answered_and_holds_nobody_up():
    disk = Disk()
    first, bad, last = disk.committer.submit([append("a"), append("bad"), append("b")])
    assert [first.result().head.partition, last.result().head.partition] == ["a", "b"]
    with pytest.raises(RefusedError):
        bad.result()
    assert disk.batches == [["a", "b"]]


class Judges:
    """Judges the named appends only when it is let, and remembers which thread judged what."""

    def __init__(self, disk: Disk, *names: str, fault: dict[str, BaseException] | None = None) -> None:
        self.threads: dict[str, int] = {}
        self.open = threading.Event()
        self._disk, self._names, self._fault = disk, names, fault or {}
        self._reached = threading.Semaphore(0)
        disk.committer._judge = self._judge

    def _judge(self, signed: SignedAppend) -> SignedAppend:
        self.threads[signed.partition] = threading.get_ident()
        if signed.partition in self._names:
            self._reached.release()
            assert self.open.wait(30)
        if signed.partition in self._fault:
            raise self._fault[signed.partition]
        return self._disk.judge(signed)

    def beside(self, work: Callable[[], object]) -> threading.Thread:
        """Do the work in a thread until it judges."""
        thread = self._disk.beside(work)
        self._reached.acquire()
        return thread


def test_who_comes_while_the_leader_judges_helps_and_goes_into_the_same_commit():
    disk = Disk()
    judges = Judges(disk, "leader", "helper")
    leader = judges.beside(lambda: disk.say("leader"))
    helper = judges.beside(lambda: disk.say("helper"))
    judges.open.set()
    leader.join()
    helper.join()
    assert judges.threads == {"leader": leader.ident, "helper": helper.ident}
    assert disk.batches == [["leader", "helper"]]
    assert disk.threads == [leader.ident]


def test_only_one_helps_and_it_judges_for_others():
    disk = Disk()
    judges = Judges(disk, "leader", "helper")
    leader = judges.beside(lambda: disk.say("leader"))
    helper = judges.beside(lambda: disk.say("helper"))
    (third,) = disk.committer.submit([append("third")])  # comes back at once: somebody will judge it
    assert judges.threads.keys() == {"leader", "helper"}
    judges.open.set()
    assert third.result().head.partition == "third"
    leader.join()
    helper.join()
    assert judges.threads["third"] in {leader.ident, helper.ident}
    assert disk.batches == [["leader", "helper", "third"]]


def test_what_fails_while_somebody_helps_is_told_to_its_own_caller():
    disk = Disk()
    judges = Judges(disk, "leader", fault={"helper": OSError("fault"), "bad": RefusedError("not well made")})
    leader = judges.beside(lambda: disk.say("leader"))
    for name, error in (("helper", UnavailableError), ("bad", RefusedError)):
        with pytest.raises(error):
            disk.say(name)
    judges.open.set()
    leader.join()
    assert disk.batches == [["leader"]]
    assert disk.say("next") == ["next"]


def test_an_interrupted_helper_leaves_its_leader_in_peace():
    disk = Disk()
    judges = Judges(disk, "leader", fault={"helper": KeyboardInterrupt()})
    leader = judges.beside(lambda: disk.say("leader"))
    with pytest.raises(KeyboardInterrupt):
        disk.say("helper")
    judges.open.set()
    leader.join()
    assert disk.batches == [["leader"]]


class Waiting:
    """Three callers who wait behind a commit, and who of them was woken; no threads, so that nothing races."""

    def __init__(self) -> None:
        self.committer = Committer(lambda signed: signed, lambda _batch: None, failed=lambda _error: AssertionError())
        self.committer._leading = True  # somebody commits: these three wait
        self.pending = self.committer.submit([append("a"), append("b"), append("c")])
        for each in self.pending:
            each.is_queued = False  # that commit took them
            assert not self.committer.must_lead(each, waits=True)

    @property
    def woken(self) -> list[str]:
        return [each.signed.partition for each in self.pending if not each._woken.locked()]

    def answer(self) -> None:
        self.committer.answer([(each, ack(each)) for each in self.pending])


def test_who_was_answered_wakes_the_next_and_all_have_their_answer_at_once():
    waiting = Waiting()
    waiting.answer()
    a, b, c = waiting.pending
    assert [each.is_answered for each in (a, b, c)] == [True] * 3
    assert waiting.woken == ["a"]
    assert a.result().head.partition == "a"
    assert waiting.woken == ["a", "b"]
    assert b.result().head.partition == "b"
    assert waiting.woken == ["a", "b", "c"]
    assert c.result().head.partition == "c"


def test_who_leaves_before_its_turn_wakes_the_next_all_the_same():
    waiting = Waiting()
    waiting.answer()
    assert waiting.pending[1].result(timeout_s=0.0).head.partition == "b"
    assert waiting.woken == ["a", "c"]


def test_who_was_interrupted_while_waiting_is_not_counted_on():
    waiting = Waiting()
    first = waiting.pending[0]

    class Interrupted:
        def acquire(self, *, timeout: float) -> bool:
            raise KeyboardInterrupt

        def locked(self) -> bool:
            return False

    first._woken = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        first.result()
    waiting.answer()
    assert waiting.woken == ["a", "b"], "b is woken by the one who answers, not by the one who went"


def test_who_does_not_wait_is_answered_beside_those_who_do():
    waiting = Waiting()
    waiting.pending[0].is_waited_for = waiting.pending[1].is_waited_for = False
    waiting.answer()
    assert waiting.woken == ["a", "b", "c"]


def test_an_interrupted_waiter_who_was_told_to_lead_leads_first():
    disk = Disk()
    disk.committer._leading = True
    (pending,) = disk.committer.submit([append("a")])
    disk.committer.must_lead(pending, waits=True)
    disk.committer._passed_on()  # the commit ended: who waits is told to lead
    disk.committer.forsake(pending)
    assert disk.batches == [["a"]]
    assert disk.say("b") == ["b"]


def test_a_commit_is_bounded_by_its_events():
    disk = Disk()
    half = EVENTS_PER_COMMIT_MAX // 2 + 1
    for pending in disk.committer.submit(
        [append("a", half), append("b", half), append("c", EVENTS_PER_COMMIT_MAX + 1)]
    ):
        pending.result()
    assert disk.batches == [["a"], ["b"], ["c"]]


def test_an_append_whose_caller_gave_up_is_sealed_by_whoever_leads():
    disk = Disk()
    disk.open.clear()
    leader = disk.beside(lambda: disk.say("leader"))
    disk.reached.acquire()
    (given_up,) = disk.committer.submit([append("given up")])
    with pytest.raises(UnavailableError) as late:
        given_up.result(timeout_s=0.0)
    assert late.value.code == "deadline_exceeded"
    disk.open.set()
    leader.join()
    assert disk.batches == [["leader"], ["given up"]]
    assert given_up.result().head.partition == "given up"


def test_everybody_hears_of_a_failed_commit_and_the_next_one_goes_on():
    disk = Disk()
    disk.fault = OSError("disk")
    for pending in disk.committer.submit([append("a"), append("b")]):
        with pytest.raises(UnavailableError):
            pending.result()
    disk.fault = None
    assert disk.say("c") == ["c"]


def test_an_interrupted_leader_leaves_the_lead_to_those_who_wait():
    disk = Disk()
    disk.open.clear()
    disk.fault = KeyboardInterrupt()
    raised: list[BaseException] = []

    def interrupted() -> None:
        try:
            disk.say("interrupted")
        except BaseException as error:  # what the caller's thread would have died of
            raised.append(error)

    leader = disk.beside(interrupted)
    disk.reached.acquire()
    waiting = disk.beside(lambda: disk.say("waiting"))
    disk.wait_for_queued(1)
    while not disk.committer._queue[0].is_waited_for:
        threading.Event().wait(0.001)
    disk.committer._seal = lambda batch: (setattr(disk, "fault", None), disk.seal(batch))
    disk.open.set()
    leader.join()
    waiting.join()
    assert [type(error) for error in raised] == [KeyboardInterrupt]
    assert disk.batches == [["waiting"]]


def test_who_is_alone_with_the_store_holds_commits_off_and_they_follow():
    disk = Disk()
    with disk.committer.alone():
        waiting = disk.committer.submit([append("a")])
        assert disk.batches == []
    assert disk.batches == [["a"]]
    assert waiting[0].result().head.partition == "a"


def test_closing_seals_what_waits_and_takes_no_more():
    disk = Disk()
    disk.open.clear()
    leader = disk.beside(lambda: disk.say("leader"))
    disk.reached.acquire()
    (left,) = disk.committer.submit([append("left")])
    closing = disk.beside(disk.committer.close)
    disk.open.set()
    leader.join()
    closing.join()
    assert left.result().head.partition == "left"
    with pytest.raises(UnavailableError):
        disk.say("late")


def test_who_was_answered_is_waited_for_and_a_commit_is_shared_again():
    disk = Disk()
    disk.committer.submit([append("a"), append("b")])  # the last commit answered two
    disk.batches.clear()
    real, first = disk.judge, threading.Event()

    def judge(signed: SignedAppend) -> SignedAppend:
        first.set()
        return real(signed)

    disk.committer._judge = judge

    def second() -> None:
        first.wait()
        disk.say("second")

    other = disk.beside(second)
    disk.committer._arrived.wait = lambda _timeout_s: threading.Condition.wait(disk.committer._arrived, 30)
    assert disk.say("first") == ["first"]
    other.join()
    assert disk.batches == [["first", "second"]]


def test_a_writer_who_does_not_come_back_is_waited_for_once():
    disk = Disk()
    disk.committer.submit([append("a"), append("b")])
    waits: list[float] = []
    disk.committer._arrived.wait = lambda timeout_s: bool(waits.append(timeout_s))
    assert [disk.say("a"), disk.say("a"), disk.say("a")] == [["a"]] * 3
    assert len(waits) == 1
