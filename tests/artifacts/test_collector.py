"""The collector removes what nobody names and nothing a reader may still hold (C15)."""

import pytest

from artifacts.gc import Collected, collect
from artifacts.layout import LEASES, PACKS, generation_name
from artifacts.lease import Lease, live, read_leases
from polyc.errors import CorruptError
from polyc.limits import LEASE_LIFETIME_S, ORPHAN_AGE_S_MIN
from tests.support.archive import Archive, texts
from tests.support.faulty_store import FaultyStore


def gc(archive: Archive, **options: object) -> Collected:
    store = options.pop("store", archive.store)
    return collect(store, keys=archive.journal.keyring, clock=archive.journal.clock, **options)


def packs(archive: Archive) -> set[str]:
    return {entry.name.split("/")[1] for entry in archive.store.list(PACKS)}


def named(archive: Archive) -> set[str]:
    return {pack_id for pack_id, _ in archive.latest().layers.packs()}


@pytest.fixture
def archive() -> Archive:
    """Four generations; only the last one's packs are needed by it."""
    archive = Archive()
    for text in ("one", "two", "three"):
        archive.converse("conv-a", text)
        archive.projector.run_once()
    archive.projector.compact()
    return archive


def test_only_what_no_kept_generation_names_goes(archive: Archive) -> None:
    before = packs(archive)
    collected = gc(archive, keep_generations=1)
    assert packs(archive) == named(archive) < before
    assert collected.kept == len(named(archive))
    assert texts(archive.latest(), "conv-a") == ["one", "two", "three"]
    assert archive.projector.run_once() is None


def test_a_dry_run_tells_the_same_and_changes_nothing(archive: Archive) -> None:
    before = [entry.name for entry in archive.store.list(PACKS)]
    planned = gc(archive, keep_generations=1, dry_run=True)
    assert [entry.name for entry in archive.store.list(PACKS)] == before
    assert gc(archive, keep_generations=1) == planned
    assert planned.freed_bytes > 0


def test_the_newest_generations_stay_without_any_lease(archive: Archive) -> None:
    gc(archive)
    assert archive.new_reader().at(3).number == 3
    with pytest.raises(CorruptError):
        archive.new_reader().at(2)


def test_a_pinned_generation_outlives_the_collector_and_expires_with_its_lease(archive: Archive) -> None:
    reader = archive.new_reader()
    with reader.pin() as pin:
        held = pin.generation
        archive.converse("conv-a", "four")
        archive.projector.run_once()
        archive.projector.compact()
        gc(archive, keep_generations=1)
        assert texts(held, "conv-a") == ["one", "two", "three"]
    archive.journal.clock.advance(seconds=LEASE_LIFETIME_S + 1)  # the reader crashed: nobody gave the lease back
    gc(archive, keep_generations=1)
    assert packs(archive) == named(archive)
    assert archive.store.list(LEASES) == []


def test_a_reader_whose_lease_ran_out_goes_on_with_the_newest(archive: Archive) -> None:
    reader = archive.new_reader()
    with reader.pin():
        pass
    archive.journal.clock.advance(seconds=LEASE_LIFETIME_S + 1)
    archive.converse("conv-a", "four")
    archive.projector.run_once()
    archive.projector.compact()
    gc(archive, keep_generations=1)
    assert texts(reader.latest(), "conv-a")[-1] == "four"
    with reader.pin() as pin:
        assert texts(pin.generation, "conv-a")[-1] == "four"


def test_a_lease_given_back_holds_nothing(archive: Archive) -> None:
    reader = archive.new_reader()
    with reader.pin():
        pass
    reader.release()
    assert archive.store.list(LEASES) == []


def test_one_lease_serves_many_queries_and_is_renewed_in_time(archive: Archive) -> None:
    reader = archive.new_reader()
    for _ in range(5):
        with reader.pin() as pin:
            assert pin.expires_at_us > archive.journal.clock.now_us() + LEASE_LIFETIME_S * 400_000
    assert len(archive.store.list(LEASES)) == 1
    archive.journal.clock.advance(seconds=LEASE_LIFETIME_S * 0.6)
    with reader.pin() as pin:
        assert pin.expires_at_us > archive.journal.clock.now_us() + LEASE_LIFETIME_S * 400_000
    assert len(archive.store.list(LEASES)) == 2


class Interleaved(FaultyStore):
    """Does something of another process just before a named step of ours."""

    def __init__(self, archive: Archive, *, before: str, act) -> None:
        super().__init__(archive.store, fail_at=0, kept=False)
        self._before, self._act = before, act

    def _write(self, what: str, act):
        if what.startswith(self._before) and self._act is not None:
            todo, self._act = self._act, None
            todo()
        return act()


@pytest.mark.parametrize("before", ["delete gen", "delete packs", "delete base"])
def test_a_reader_that_pins_while_the_collector_runs_keeps_its_packs(archive: Archive, before: str) -> None:
    held = []

    def pin() -> None:
        with archive.new_reader().pin() as pinned:
            held.append(pinned.generation)

    gc(archive, keep_generations=1, store=Interleaved(archive, before=before, act=pin))
    assert texts(held[0], "conv-a") == ["one", "two", "three"]


def test_a_pin_that_loses_against_the_collector_moves_on_to_the_newest(archive: Archive) -> None:
    def overtake() -> None:
        archive.converse("conv-a", "four")
        archive.projector.run_once()
        archive.projector.compact()
        gc(archive, keep_generations=1)

    reader = archive.new_reader(store=Interleaved(archive, before="create leases", act=overtake))
    with reader.pin() as pin:
        assert texts(pin.generation, "conv-a") == ["one", "two", "three", "four"]


@pytest.mark.parametrize("name", ["gen/", "base/", "packs/"])
def test_a_look_at_the_newest_that_is_collected_meanwhile_is_taken_again(archive: Archive, name: str) -> None:
    archive.converse("conv-a", "four")
    archive.projector.run_once()
    read, collected = archive.store.read, []

    def overtaken(wanted: str) -> bytes:
        if wanted.startswith(name) and not collected:
            collected.append(wanted)
            archive.converse("conv-a", "five")
            archive.projector.run_once()
            archive.projector.compact()
            gc(archive, keep_generations=1)
        return read(wanted)

    reader = archive.new_reader()
    archive.store.read = overtaken
    assert texts(reader.latest(), "conv-a")[-1] == "five"
    assert collected


def test_packs_without_a_manifest_stay_an_hour(archive: Archive) -> None:
    archive.converse("conv-a", "four")
    faulty = FaultyStore(archive.store, fail_at=2, kept=False)  # the pack is durable, the manifest is not
    with pytest.raises(Exception, match="store failed"):
        archive.new_projector("crashing", store=faulty).run_once()
    orphans = packs(archive) - named(archive)
    gc(archive, keep_generations=1)
    assert packs(archive) - named(archive) <= orphans
    assert packs(archive) - named(archive)
    archive.journal.clock.advance(seconds=ORPHAN_AGE_S_MIN + 1)
    gc(archive, keep_generations=1)
    assert packs(archive) == named(archive)


def test_a_collector_that_crashes_anywhere_is_finished_by_the_next_one(archive: Archive) -> None:
    dry = gc(archive, keep_generations=1, dry_run=True)
    for fail_at in range(1, len(dry.deleted) + 1):
        for kept in (False, True):
            again = Archive()
            for text in ("one", "two", "three"):
                again.converse("conv-a", text)
                again.projector.run_once()
            again.projector.compact()
            with pytest.raises(OSError, match="made to fail"):
                gc(again, keep_generations=1, store=FaultyStore(again.store, fail_at=fail_at, kept=kept))
            assert texts(again.latest(), "conv-a") == ["one", "two", "three"]
            again.journal.clock.advance(seconds=ORPHAN_AGE_S_MIN + 1)
            gc(again, keep_generations=1)
            assert packs(again) == named(again)


def test_a_manifest_that_does_not_verify_stops_the_collector_before_anything_goes(archive: Archive) -> None:
    before = packs(archive)
    content = archive.store.read(generation_name(2))
    archive.store.delete(generation_name(2))
    archive.store.create(generation_name(2), content.replace(b'"v":1', b'"v":2'))
    with pytest.raises(CorruptError):
        gc(archive, keep_generations=1)
    assert packs(archive) == before


def test_a_lease_nobody_can_read_holds_nothing(archive: Archive) -> None:
    archive.store.create("leases/strange.json", b"{}")
    assert read_leases(archive.store) == {}
    gc(archive, keep_generations=1)
    assert packs(archive) == named(archive)


def test_a_lease_ends_at_its_end() -> None:
    lease = Lease(generation=1, base="", packs=(), expires_at_us=10)
    assert live([lease], now_us=9) == [lease]
    assert live([lease], now_us=10) == []
