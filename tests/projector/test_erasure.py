"""Erased content leaves every artifact of the next generation; the store can prove that it is gone."""

import json
from collections.abc import Iterator

import pytest

from artifacts.gc import collect
from facts import codec, events
from journal import erasure as journal_erasure
from polyc.appending import Author, Draft
from polyc.errors import CorruptError
from polyc.ids import uuid8
from polyc.limits import LEASE_LIFETIME_S
from polyc.signing import load_signer
from polyc.vocabulary import BY_KIND
from projector.erasure import Erased, needles_of, prove_gone, prove_gone_in_journal
from tests.projector.test_real_planes import Deployment
from tests.support.archive import Archive, contents, texts
from tests.support.conversations import opening, partition_of

SECRET = "the harbour master's number"
NEEDLES = [SECRET.encode()]
PARTITION = partition_of(1)


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


LONG = " ".join(f"pier {number} of the long harbour wall" for number in range(200))
ARGUMENTS = json.dumps({"note": 'ring the harbour master "now" at four'})


@pytest.fixture
def searchable(tmp_path) -> Iterator[Deployment]:
    """A real deployment with one long prompt and a call, searchable, in a store of its own."""
    made = Deployment(tmp_path / "root")
    ref = events.TurnRef(PARTITION, "t9")
    said = events.Message(
        id=uuid8("said"), turn_id="t9", message_id="m9", role="user", material_origin="human_authored",
        blocks=(events.Block(type="text", text=LONG),),
    )  # fmt: skip
    call = events.ToolCall(id=uuid8("call"), turn_id="t9", tool_call_id="x9", name="shell", arguments=ARGUMENTS)
    turn = [
        events.TurnStart(id=uuid8("start"), turn=ref, evidence="stated"), said, call,
        events.TurnComplete(id=uuid8("end"), turn=ref, status="completed", evidence="stated"),
    ]  # fmt: skip
    with made.journal:
        made.importer.append(PARTITION, [*opening(1), *map(codec.encode, turn)])
        made.converse(2)
        made.projector.run_once()
        yield made


def in_search(deployment: Deployment, *needles: bytes, erased: Erased | None = None) -> set[tuple[str, str]]:
    found = prove_gone(deployment.store, needles, erased=erased)
    return {(item.column, item.partition) for item in found if item.file.startswith("search/")}


def test_a_search_pack_is_opened_and_a_text_found_by_its_pieces(searchable: Deployment) -> None:
    assert in_search(searchable, LONG.encode()) == {("text", PARTITION)}
    assert in_search(searchable, ARGUMENTS.encode()) == {("text", PARTITION)}
    assert in_search(searchable, b"a text that nobody has ever said here") == set()


def test_a_chunk_of_an_erased_event_is_found_by_its_place_whatever_it_says(searchable: Deployment) -> None:
    said_at, other = 3, partition_of(2)
    assert in_search(searchable, erased=Erased(PARTITION, said_at)) == {("position", PARTITION)}
    assert in_search(searchable, erased=Erased(other, None)) == {("position", other)}
    assert in_search(searchable, erased=Erased(PARTITION, 99)) == set()


def test_after_an_erasure_neither_search_nor_the_journal_says_it(searchable: Deployment) -> None:
    erased, needles = Erased(PARTITION, 3), [LONG.encode()]
    assert [item.column for item in prove_gone_in_journal(searchable.journal, needles, erased)] == ["payload"]
    control = load_signer(searchable.root.keys / "control.pem")
    author = Author(searchable.journal, control, clock=searchable.clock, ids=searchable.ids)
    (head,) = [head for head in searchable.journal.partitions() if head.partition == PARTITION]
    journal_erasure.erase(author, partition=PARTITION, incarnation=head.incarnation, position=3, reason="asked")
    searchable.projector.run_once()
    collect(searchable.store, keys=searchable.journal.keyring, clock=searchable.clock, keep_generations=1)
    assert prove_gone(searchable.store, needles, erased=erased) == []
    assert prove_gone_in_journal(searchable.journal, needles, erased) == []
    assert in_search(searchable, ARGUMENTS.encode()) == {("text", PARTITION)}


def test_a_needle_is_looked_for_in_the_spelling_of_a_payload(searchable: Deployment) -> None:
    found = prove_gone_in_journal(searchable.journal, [ARGUMENTS.encode()], Erased(PARTITION, None))
    assert [item.file for item in found] == [f"journal {PARTITION}@4"]
