"""Follow mode: what is acknowledged becomes visible, nobody waits behind a flood, and failures are told or retried."""

import threading

import pytest

from artifacts.manifest import Behind, Frontier
from journal.port import PartitionHead
from polyc.clock import ManualClock
from polyc.errors import CorruptError, UnavailableError
from projector.frontier import Cut, take_cut
from projector.service import GROUP_S, IDLE_S, Pace, follow
from projector.tick import select
from tests.support import counting_meaning as cm
from tests.support.archive import Archive, contents, texts

WAIT_S = 30  # a bound for a hung test, never a measurement


class Following:
    """The service in a thread; `until` waits for what was published."""

    def __init__(self, archive: Archive, **options: object) -> None:
        self.stop = threading.Event()
        self.published: list = []
        self.unavailable: list[UnavailableError] = []
        self.failure: Exception | None = None
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(archive, options))
        self._thread.start()

    def _run(self, archive: Archive, options: dict) -> None:
        try:
            follow(
                archive.projector, stop=self.stop, on_published=self._note(self.published),
                on_unavailable=self._note(self.unavailable), group_s=0.01, **options,
            )  # fmt: skip
        except Exception as error:
            self.failure = error
        with self._news:
            self._news.notify_all()

    def _note(self, where: list):
        def note(item: object) -> None:
            with self._news:
                where.append(item)
                self._news.notify_all()

        return note

    def until(self, condition) -> None:
        with self._news:
            assert self._news.wait_for(lambda: condition() or self.failure is not None, WAIT_S), "nothing came"
        if self.failure is not None:
            raise self.failure

    def covers(self, archive: Archive) -> bool:
        newest = self.published[-1] if self.published else None
        return newest is not None and newest.frontier_size == archive.journal.size() and newest.behind == 0

    def end(self) -> None:
        self.stop.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


@pytest.fixture
def archive(tmp_path) -> Archive:
    archive = Archive(tmp_path)
    archive.converse("conv-a", "one")
    return archive


def test_what_is_appended_becomes_visible(archive: Archive) -> None:
    following = Following(archive)
    try:
        following.until(lambda: following.covers(archive))
        archive.converse("conv-a", "two")
        archive.converse("conv-b", "other")
        following.until(lambda: following.covers(archive))
        assert texts(archive.latest(), "conv-a", "conv-b") == ["one", "two", "other"]
    finally:
        following.end()


def test_each_entry_at_the_border_comes_once(archive: Archive) -> None:
    """C21: entries that arrive while a tick runs are neither missed nor taken twice."""
    following = Following(archive)
    try:
        for number in range(30):
            archive.converse("conv-a", f"text {number}")
        following.until(lambda: following.covers(archive))
    finally:
        following.end()
    assert texts(archive.latest(), "conv-a") == ["one", *(f"text {n}" for n in range(30))]
    kept = contents(archive.latest())
    archive.new_projector("fresh").rebuild()
    assert contents(archive.latest()) == kept


def test_many_ticks_merge_beside_the_service(archive: Archive) -> None:
    following = Following(archive)
    try:
        for number in range(25):
            archive.converse("conv-a", f"text {number}")
            following.until(lambda: following.covers(archive))
    finally:
        following.end()
    assert following.failure is None
    assert texts(archive.latest(), "conv-a")[-1] == "text 24"


def test_the_service_collects_what_nobody_needs(archive: Archive) -> None:
    following = Following(archive)
    try:
        for number in range(20):
            archive.converse("conv-a", f"text {number}")
            following.until(lambda: following.covers(archive))
        oldest = archive.store.exists("gen/000000000001.json")
        archive.journal.clock.advance(seconds=601)
        for number in range(200):  # the collector runs beside: some tick after it was due
            archive.converse("conv-b", f"text {number}")
            following.until(lambda: following.covers(archive))
            if not archive.store.exists("gen/000000000001.json"):
                break
    finally:
        following.end()
    assert oldest
    assert not archive.store.exists("gen/000000000001.json")
    assert texts(archive.latest(), "conv-a")[-1] == "text 19"


def test_a_store_that_is_away_is_tried_again(archive: Archive) -> None:
    create, broken = archive.store.create, [True, True]

    def flaky(name: str, content: bytes) -> bool:
        if name.startswith("gen/") and broken:
            broken.pop()
            raise OSError(28, "No space left on device")
        return create(name, content)

    archive.store.create = flaky
    following = Following(archive)
    try:
        following.until(lambda: following.covers(archive))
        assert len(following.unavailable) == 2
    finally:
        following.end()


def test_corrupt_evidence_stops_the_service(archive: Archive) -> None:
    archive.publish()
    archive.journal.truncate(archive.journal.size() - 1)
    following = Following(archive)
    with pytest.raises(CorruptError):
        following.until(lambda: False)
    following.end()


def test_a_projector_that_is_asked_to_stop_stops_between_partitions(archive: Archive) -> None:
    archive.publish()
    for number in range(5):
        archive.converse(f"conv-{number}", "text")
    asked = iter([False, False, True])
    archive.projector.stop_when(lambda: next(asked))
    with pytest.raises(UnavailableError):
        archive.projector.run_once()
    assert archive.latest().number == 1
    archive.projector.stop_when(lambda: False)
    assert archive.projector.run_once() is not None


def heads(**positions: int) -> Cut:
    found = tuple(PartitionHead(name, b"", n, b"", 0, n) for name, n in sorted(positions.items()))
    return Cut(found, Frontier(1, "", ""))


def chosen(cut: Cut, *waiting: Behind, budget: int | None) -> tuple[list[str], list[str]]:
    selection = select(cut, waiting=waiting, since=50, budget_events=budget)
    return [head.partition for head in selection.heads], [item.partition for item in selection.behind]


def test_small_conversations_go_before_a_huge_one() -> None:
    assert chosen(heads(huge=1000, a=3, b=4), budget=10) == (["a", "b"], ["huge"])


def test_the_longest_waiting_goes_first_whatever_its_size() -> None:
    cut = heads(huge=1000, a=3, b=4)
    assert chosen(cut, Behind("huge", 10), budget=10) == (["huge"], ["a", "b"])


def test_at_least_one_is_taken_and_without_a_budget_all_are() -> None:
    assert chosen(heads(huge=1000), budget=1) == (["huge"], [])
    assert chosen(heads(huge=1000, a=1), budget=None) == (["a", "huge"], [])


def test_audit_and_credentials_wait_for_a_slow_tick() -> None:
    cut = heads(**{"conv-a": 3, "query-audit-edge-20260101": 1, "credentials-202601": 2})
    selection = select(cut, waiting=(), since=50, budget_events=None, slow=False)
    assert [head.partition for head in selection.heads] == ["conv-a"]
    assert {item.partition for item in selection.behind} == {"query-audit-edge-20260101", "credentials-202601"}
    due = select(cut, waiting=selection.behind, since=60, budget_events=None, slow=True)
    assert len(due.heads) == 3
    assert due.behind == ()


def test_a_query_alone_publishes_nothing_until_a_slow_tick(archive: Archive) -> None:
    archive.publish()
    archive.journal.say("credentials-202601", cm.say("minted"), cm.COMMIT)
    assert archive.projector.run_once(slow=False) is None
    archive.converse("conv-a", "two")
    published = archive.projector.run_once(slow=False)
    assert published is not None
    assert (published.behind, published.slow) == (1, 1)
    assert archive.projector.run_once(slow=False) is None
    assert archive.projector.run_once(slow=True) is not None
    assert texts(archive.latest(), "conv-a", "credentials-202601") == ["one", "two", "minted"]


def test_a_query_alone_asks_for_nothing_that_only_a_key_can_change(archive: Archive) -> None:
    archive.publish()
    asked: list[str] = []
    keyring = archive.journal.keyring
    archive.journal.keyring = lambda: asked.append("keys") or keyring()
    archive.journal.say("query-audit-edge-20260101", cm.say("asked"), cm.COMMIT)
    assert archive.projector.run_once(slow=False, make_searchable=False) is None
    assert asked == []
    archive.converse("conv-a", "two")
    assert archive.projector.run_once(slow=False) is not None
    assert asked != [], "whatever else moves, a rebuild may be due"


def test_the_service_takes_slow_partitions_every_five_seconds(archive: Archive) -> None:
    following = Following(archive)
    try:
        following.until(lambda: following.covers(archive))
        archive.journal.say("credentials-202601", cm.say("minted"), cm.COMMIT)
        archive.converse("conv-a", "two")
        following.until(lambda: following.published[-1].frontier_size == archive.journal.size())
        assert following.published[-1].slow == 1
        archive.journal.clock.advance(seconds=5)
        following.until(lambda: following.covers(archive))
    finally:
        following.end()


def test_a_tick_that_published_nothing_holds_up_the_next_turn_only_shortly() -> None:
    clock = ManualClock()
    pace = Pace(clock, group_s=GROUP_S)
    assert pace.rest_s() == 0.0
    pace.ran(published=True, slow=True, waiting=False)
    assert pace.rest_s() == pytest.approx(GROUP_S)
    clock.advance(seconds=1)
    pace.ran(published=False, slow=False, waiting=True)
    assert pace.rest_s() == pytest.approx(IDLE_S)
    assert IDLE_S < GROUP_S


def test_who_waits_keeps_the_place_it_got() -> None:
    selection = select(heads(x=5, y=6, z=7), waiting=(Behind("x", 10), Behind("z", 20)), since=50, budget_events=1)
    assert selection.behind == (Behind("z", 20), Behind("y", 50))


def test_what_was_left_behind_comes_next_and_nothing_is_lost(archive: Archive) -> None:
    archive.publish()
    for number in range(8):
        archive.converse(f"conv-{number}", *(f"text {n}" for n in range(number + 1)))
    archive.converse("conv-a", "two")
    ticks = 0
    while (published := archive.projector.run_once(budget_events=6)) is not None:
        ticks += 1
        assert published.frontier_size == archive.journal.size()
    assert ticks > 3
    assert archive.latest().manifest.body.behind == ()
    kept = contents(archive.latest())
    archive.projector.rebuild()
    assert contents(archive.latest()) == kept


def test_a_huge_conversation_under_constant_small_ones_comes_through(archive: Archive) -> None:
    archive.publish()
    archive.converse("conv-huge", *(f"text {n}" for n in range(50)))
    for number in range(4):
        archive.converse(f"conv-{number}", "small")
        archive.projector.run_once(budget_events=10)
    assert len(texts(archive.latest(), "conv-huge")) == 50


def test_a_cut_is_the_size_its_partitions_reach(archive: Archive) -> None:
    cut = take_cut(archive.journal, since=0)
    assert cut is not None
    assert cut.frontier.size == archive.journal.size()
    assert take_cut(archive.journal, since=cut.frontier.size) is None


def test_a_cut_under_constant_appends_is_still_one_snapshot(archive: Archive) -> None:
    changed_since = archive.journal.changed_since

    def busy(index: int) -> list[PartitionHead]:
        heads = changed_since(index)
        archive.converse("conv-busy", "again")
        return heads

    archive.journal.changed_since = busy
    cut = take_cut(archive.journal, since=0)
    assert cut is not None
    assert cut.frontier.size == max(head.last_index for head in cut.heads) + 1
    assert int(cut.frontier.note.split("\n")[1]) >= cut.frontier.size


def test_a_checkpoint_that_does_not_cover_the_cut_is_corrupt(archive: Archive) -> None:
    note = archive.journal.checkpoint()
    archive.converse("conv-b", "more")
    archive.journal.checkpoint = lambda: note
    with pytest.raises(CorruptError):
        take_cut(archive.journal, since=0)


@pytest.mark.parametrize("note", ["", "origin\n", "origin\nmany\nroot\n", "origin\n7\nnot base64!\n"])
def test_a_note_that_is_none_is_corrupt(archive: Archive, note: str) -> None:
    archive.journal.checkpoint = lambda: note
    with pytest.raises(CorruptError):
        take_cut(archive.journal, since=0)


def test_a_live_fold_is_dropped_when_keys_move(archive: Archive) -> None:
    archive.publish()
    keys = archive.journal.keys
    archive.journal.append(keys.append(keys.added(_signer(), "harness")))
    archive.converse("conv-a", "two")
    archive.publish()
    assert texts(archive.latest(), "conv-a") == ["one", "two"]


def _signer():
    from polyc.ids import SeededIds
    from polyc.signing import new_signer

    return new_signer(SeededIds("another"))
