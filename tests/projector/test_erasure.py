"""Erased content leaves every artifact of the next generation; the store can prove that it is gone."""

import json

import pytest

from artifacts.gc import collect
from polyc.appending import Draft
from polyc.errors import CorruptError
from polyc.limits import LEASE_LIFETIME_S
from polyc.vocabulary import BY_KIND
from projector.erasure import needles_of, prove_gone
from tests.support.archive import Archive, contents, texts

SECRET = "the harbour master's number"
NEEDLES = [SECRET.encode()]


def erased(partition: str) -> Draft:
    return Draft(BY_KIND["erased"].code, json.dumps({"type": "erased", "partition": partition}).encode())


@pytest.fixture
def archive(tmp_path) -> Archive:
    archive = Archive(tmp_path)
    archive.converse("conv-a", SECRET, "harmless")
    archive.converse("conv-b", "innocent")
    archive.publish()
    archive.converse("conv-a", "later")
    archive.publish()
    return archive


def erase(archive: Archive, *, told_in: str = "conv-a") -> None:
    archive.journal.erase("conv-a", 1)
    archive.journal.say(told_in, erased("conv-a"))


def collected(archive: Archive) -> None:
    collect(archive.store, keys=archive.journal.keyring, clock=archive.journal.clock, keep_generations=1)


@pytest.mark.parametrize("told_in", ["conv-a", "conv-b", "notices"])
def test_the_next_generation_holds_nothing_of_it_in_any_pack(archive: Archive, told_in: str) -> None:
    before = archive.latest().number
    erase(archive, told_in=told_in)
    generation = archive.publish()
    assert generation.number == before + 1
    assert texts(generation, "conv-a", "conv-b") == ["harmless", "later", "innocent"]
    named = {f"packs/{pack_id}/" for pack_id, _ in generation.layers.packs()}
    assert [found for found in prove_gone(archive.store, NEEDLES) if any(found.file.startswith(n) for n in named)] == []
    collected(archive)
    assert prove_gone(archive.store, NEEDLES) == []


def test_the_search_finds_what_is_still_there(archive: Archive) -> None:
    found = prove_gone(archive.store, NEEDLES)
    assert {(item.column, item.partition) for item in found} - {("", "")} == {("text", "conv-a")}
    assert SECRET not in str(found)


def test_a_lease_keeps_the_old_pack_until_it_ends_and_no_longer(archive: Archive) -> None:
    reader = archive.new_reader()
    with reader.pin():
        erase(archive)
        archive.publish()
        collected(archive)
        assert prove_gone(archive.store, NEEDLES) != []
    archive.journal.clock.advance(seconds=LEASE_LIFETIME_S + 1)
    collected(archive)
    assert prove_gone(archive.store, NEEDLES) == []


def test_an_erasure_of_an_earlier_event_is_seen_by_a_projector_that_holds_the_fold(archive: Archive) -> None:
    archive.converse("conv-a", "again")
    archive.publish()
    erase(archive, told_in="notices")
    assert texts(archive.publish(), "conv-a") == ["harmless", "later", "again"]


def test_a_rebuild_after_an_erasure_says_the_same(archive: Archive) -> None:
    erase(archive)
    kept = contents(archive.publish())
    archive.projector.rebuild()
    assert contents(archive.latest()) == kept


def test_a_new_incarnation_leaves_the_next_generation_and_after_compaction_the_store(archive: Archive) -> None:
    from tests.support import counting_meaning as cm

    archive.journal.say("conv-a", cm.say("anew"), cm.COMMIT, new_incarnation=True)
    assert texts(archive.publish(), "conv-a") == ["anew"]
    archive.projector.compact()
    collected(archive)
    assert prove_gone(archive.store, NEEDLES) == []


def test_needles_are_taken_from_the_tables_before_the_erasure(archive: Archive) -> None:
    generation = archive.latest()
    assert needles_of(generation, archive.meaning.tables, partition="conv-a", position=1) == NEEDLES
    assert needles_of(generation, archive.meaning.tables, partition="conv-a") == NEEDLES
    assert needles_of(generation, archive.meaning.tables, partition="conv-b") == []
    assert needles_of(generation, archive.meaning.tables, partition="conv-z") == []


def test_a_file_that_cannot_be_decoded_proves_nothing(archive: Archive) -> None:
    archive.store.create("base/strange.parquet", b"PAR1 not really")
    with pytest.raises(CorruptError):
        prove_gone(archive.store, NEEDLES)


def test_an_empty_needle_is_a_mistake(archive: Archive) -> None:
    with pytest.raises(AssertionError):
        prove_gone(archive.store, [b""])
