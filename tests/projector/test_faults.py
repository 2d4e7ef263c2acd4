"""The fault table: each write lost, and each write kept but reported failed (C10, C19).

Whatever fails, a reader sees a whole generation, old or new; the next run ends where one run without faults ends.
"""

import pytest

from polyc.errors import CorruptError, UnavailableError
from tests.projector.test_erasure import erase
from tests.support import counting_meaning as cm
from tests.support.archive import Archive, contents, texts
from tests.support.faulty_store import FaultyStore

OLD, NEW = ["one", "two"], ["one", "two", "three"]


def prepared() -> Archive:
    archive = Archive()
    archive.converse("conv-a", "one")
    archive.projector.run_once()
    archive.converse("conv-a", "two")
    archive.projector.run_once()
    archive.converse("conv-a", "three")
    return archive


def publish(archive: Archive, store: FaultyStore) -> None:
    archive.new_projector("p", store=store).run_once()


def compact(archive: Archive, store: FaultyStore) -> None:
    projector = archive.new_projector("p", store=store)
    projector.run_once()
    projector.compact()


def rebuild(archive: Archive, store: FaultyStore) -> None:
    archive.new_projector("p", store=store).rebuild()


WORK = {"publish": publish, "compact": compact, "rebuild": rebuild}


def writes_of(work: str) -> int:
    archive = prepared()
    store = FaultyStore(archive.store, fail_at=0, kept=False)
    WORK[work](archive, store)
    return store.writes


TABLE = [(work, n, kept) for work in WORK for n in range(1, writes_of(work) + 1) for kept in (False, True)]


def test_the_table_covers_packs_manifests_lists_and_hints() -> None:
    failed = set()
    for work, n, kept in TABLE:
        archive = prepared()
        store = FaultyStore(archive.store, fail_at=n, kept=kept)
        with pytest.raises((OSError, UnavailableError)):
            WORK[work](archive, store)
        failed.add(store.failed.split(" ")[0] + store.failed.split(" ")[-1].split("/")[0])
    assert failed == {"publishpacks", "creategen", "createbase", "hinthint"}


@pytest.mark.parametrize(("work", "n", "kept"), TABLE)
def test_a_failed_write_loses_nothing_and_shows_nothing_half(work: str, n: int, kept: bool) -> None:
    archive = prepared()
    reader = archive.new_reader()
    assert texts(reader.latest(), "conv-a") == OLD
    with pytest.raises((OSError, UnavailableError)):
        WORK[work](archive, FaultyStore(archive.store, fail_at=n, kept=kept))
    assert texts(reader.latest(), "conv-a") in (OLD, NEW)
    assert texts(archive.latest(), "conv-a") in (OLD, NEW)
    again = archive.new_projector("again")
    again.run_once()
    assert texts(reader.latest(), "conv-a") == NEW
    kept_contents = contents(archive.latest())
    again.rebuild()
    assert contents(archive.latest()) == kept_contents
    assert again.run_once() is None


def test_a_manifest_is_written_after_every_file_it_names() -> None:
    archive = prepared()
    order: list[str] = []

    class Recording(FaultyStore):
        def _write(self, what, act):
            order.append(what.split(" ")[0] + " " + what.split(" ")[-1].split("/")[0])
            return act()

    archive.new_projector("p", store=Recording(archive.store, fail_at=0, kept=False)).rebuild()
    assert order == ["publish packs", *order[1:-3], "create base", "create gen", "hint hint"]


class Watched(FaultyStore):
    """A reader looks before and after each write."""

    reader = None
    seen: list[list[str]]

    def _write(self, what, act):
        self.seen.append(texts(self.reader.latest(), "conv-a"))
        done = act()
        self.seen.append(texts(self.reader.latest(), "conv-a"))
        return done


@pytest.mark.parametrize("work", WORK)
def test_a_reader_during_a_publication_sees_the_old_rows_and_then_the_new_ones(work: str) -> None:
    archive = prepared()
    store = Watched(archive.store, fail_at=0, kept=False)
    store.reader, store.seen = archive.new_reader(), []
    WORK[work](archive, store)
    assert store.seen == [OLD] * store.seen.count(OLD) + [NEW] * store.seen.count(NEW)
    assert OLD in store.seen
    assert store.seen[-1] == NEW


def test_of_two_projectors_one_wins_each_number_and_no_row_is_lost() -> None:
    archive = prepared()
    one, two = archive.new_projector("one"), archive.new_projector("two")
    one.artifacts.latest()
    two.artifacts.latest()
    assert one.run_once() is not None
    archive.converse("conv-b", "other")
    assert two.run_once() is not None
    assert one.run_once() is None
    assert archive.latest().number == 4


class Overtaken(FaultyStore):
    """Another projector publishes just before our manifest."""

    rival = None

    def create(self, name: str, content: bytes) -> bool:
        rival, self.rival = self.rival, None
        if rival is not None and name.startswith("gen/"):
            assert rival.run_once() is not None
        return self.inner.create(name, content)


def test_the_loser_of_a_race_looks_again_and_plans_again() -> None:
    archive = prepared()
    store = Overtaken(archive.store, fail_at=0, kept=False)
    store.rival = archive.new_projector("rival")
    ours = archive.new_projector("ours", store=store)
    assert ours.run_once() is None  # the rival published the same entries: nothing is left to do
    generation = archive.latest()
    assert (generation.number, texts(generation, "conv-a")) == (3, NEW)


class Collected(FaultyStore):
    """Another projector publishes and the collector follows, just before our first table is read."""

    rival = None

    def read(self, name: str) -> bytes:
        if self.rival is not None and name.endswith(".parquet") and not name.endswith("index.parquet"):
            rival, self.rival = self.rival, None
            assert rival.run_once() is not None
            kept = {pack_id for pack_id, _ in rival.artifacts.latest().layers.packs()}
            for entry in self.inner.list("packs/"):
                if entry.name.split("/")[1] not in kept:
                    self.inner.delete(entry.name)
        return self.inner.read(name)


def test_packs_collected_under_a_projector_are_a_lost_race_and_no_damage() -> None:
    archive = prepared()
    archive.projector.run_once()
    erase(archive)
    store = Collected(archive.store, fail_at=0, kept=False)
    store.rival = archive.new_projector("rival")
    assert archive.new_projector("ours", store=store).run_once() is None  # the rival published the same entries
    assert store.rival is None
    assert archive.latest().number == 4


def test_packs_that_are_simply_gone_are_damage() -> None:
    archive = prepared()
    for entry in [entry.name for entry in archive.store.list("packs/")]:
        archive.store.delete(entry)
    with pytest.raises(CorruptError) as caught:
        archive.new_projector("ours").run_once()
    assert caught.value.kind == "missing"


def test_a_projector_that_always_loses_says_so() -> None:
    archive = prepared()

    class Taken(FaultyStore):
        def create(self, name: str, content: bytes) -> bool:
            return False if name.startswith("gen/") else self.inner.create(name, content)

    with pytest.raises(UnavailableError):
        archive.new_projector("p", store=Taken(archive.store, fail_at=0, kept=False)).run_once()


def test_packs_of_a_lost_race_are_named_by_nobody() -> None:
    archive = prepared()
    store = Overtaken(archive.store, fail_at=0, kept=False)
    store.rival = archive.new_projector("rival", meaning=cm.meaning("2"))
    archive.new_projector("ours", store=store).run_once()
    named = {pack_id for pack_id, _ in archive.latest().layers.packs()}
    stored = {entry.name.split("/")[1] for entry in archive.store.list("packs/")}
    assert named < stored
