"""Evidence that does not fit stops the reader with the place named; nothing is skipped, nothing is guessed."""

from pathlib import Path

import pytest

from artifacts.layout import BASES, PACKS
from artifacts.store import DirectoryStore
from polyc.errors import CorruptError
from tests.support.archive import Archive, fleet, texts
from tests.support.counting_meaning import NOTES


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    archive = Archive(tmp_path)
    archive.converse("conv-a", "hello there")
    archive.converse("conv-b", "other words")
    archive.projector.run_once()
    archive.converse("conv-a", "more")
    archive.projector.run_once()
    return archive


def files(archive: Archive, ending: str) -> list[Path]:
    assert isinstance(archive.store, DirectoryStore)
    found = sorted((archive.store.path / "packs").glob(f"*/{ending}"))
    assert found
    return found


def read_all(archive: Archive) -> None:
    generation = archive.latest()
    texts(generation, "conv-a", "conv-b")
    fleet(generation, NOTES)


def test_undamaged_artifacts_are_read(archive: Archive) -> None:
    read_all(archive)
    assert texts(archive.latest(), "conv-a", "conv-b") == ["hello there", "more", "other words"]


@pytest.mark.parametrize("ending", ["notes.parquet", "index.parquet", "pack.json"])
def test_a_flipped_bit_in_any_file_of_a_pack_is_found_and_placed(archive: Archive, ending: str) -> None:
    for path in files(archive, ending):
        whole = path.read_bytes()
        for place in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            with pytest.raises(CorruptError) as caught:
                read_all(archive)
            assert path.parent.name in caught.value.place
        path.write_bytes(whole)
    read_all(archive)


@pytest.mark.parametrize("ending", ["notes.parquet", "index.parquet", "pack.json"])
def test_a_missing_file_of_a_pack_is_found_and_placed(archive: Archive, ending: str) -> None:
    path = files(archive, ending)[0]
    path.unlink()
    with pytest.raises(CorruptError) as caught:
        read_all(archive)
    assert (caught.value.kind, path.parent.name in caught.value.place) == ("missing", True)


def test_a_manifest_without_its_packs_is_found(archive: Archive) -> None:
    for entry in {"/".join(entry.name.split("/")[:2]) for entry in archive.store.list(PACKS)}:
        archive.store.delete(entry)
    with pytest.raises(CorruptError) as caught:
        archive.latest()
    assert caught.value.kind == "missing"


def test_a_missing_or_other_list_of_base_packs_is_found(archive: Archive) -> None:
    (entry,) = archive.store.list(BASES)
    archive.store.delete(entry.name)
    with pytest.raises(CorruptError):
        archive.latest()
    archive.store.create(entry.name, b'{"packs":[],"v":1}')
    with pytest.raises(CorruptError):
        archive.latest()


def test_two_packs_files_exchanged_are_found(archive: Archive) -> None:
    first, second = files(archive, "notes.parquet")[:2]
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    with pytest.raises(CorruptError):
        read_all(archive)


def test_a_file_that_changes_after_it_was_checked_is_checked_again(archive: Archive) -> None:
    generation = archive.latest()
    texts(generation, "conv-a")
    for path in files(archive, "notes.parquet"):
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(CorruptError):
        texts(generation, "conv-a")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:10])


def flip(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
@pytest.mark.parametrize("ending", ["notes.parquet", "index.parquet", "pack.json"])
def test_a_damaged_store_is_made_whole_by_a_rebuild_into_it(archive: Archive, ending: str, damage) -> None:
    before = texts(archive.latest(), "conv-a", "conv-b")
    archive.projector.compact()
    for path in files(archive, ending):
        damage(path)
    with pytest.raises(CorruptError):
        read_all(archive)
    archive.new_projector("again").rebuild()
    assert texts(archive.latest(), "conv-a", "conv-b") == before
    read_all(archive)
