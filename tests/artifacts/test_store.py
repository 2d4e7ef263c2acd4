"""The contract every artifact store keeps; run against each implementation."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from artifacts.memory import MemoryStore
from artifacts.store import DirectoryStore, Store
from polyc.clock import ManualClock


@pytest.fixture(params=["directory", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return DirectoryStore(tmp_path) if request.param == "directory" else MemoryStore(ManualClock())


def stage(store: Store, name: str, **files: bytes) -> bool:
    with store.stage() as folder:
        for file, content in files.items():
            (folder / file).write_bytes(content)
        return store.publish(folder, name)


def test_a_name_is_taken_once_and_the_first_content_stays(store: Store) -> None:
    assert store.create("gen/1.json", b"first")
    assert not store.create("gen/1.json", b"second")
    assert store.read("gen/1.json") == b"first"


def test_of_many_threads_one_creates_and_its_content_stays(store: Store) -> None:
    """Two threads of one process once shared a temporary name: the winner's file could hold the loser's content."""
    for number in range(20):
        contents = [bytes([65 + thread]) * 20_000 for thread in range(8)]
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda content, n=number: store.create(f"gen/{n}.json", content), contents))
        assert won.count(True) == 1
        assert store.read(f"gen/{number}.json") == contents[won.index(True)]


def test_a_pack_appears_whole_or_not_at_all(store: Store) -> None:
    assert stage(store, "packs/a", one=b"1", two=b"22")
    assert [(entry.name, entry.size_bytes) for entry in store.list("packs/")] == [
        ("packs/a/one", 1),
        ("packs/a/two", 2),
    ]
    with store.stage() as folder:
        (folder / "one").write_bytes(b"never published")
    assert len(store.list("packs/")) == 2


def test_publishing_the_same_pack_again_changes_nothing(store: Store) -> None:
    assert stage(store, "packs/a", one=b"1")
    assert not stage(store, "packs/a", one=b"1")
    assert store.read("packs/a/one") == b"1"


def test_a_half_deleted_pack_gives_way_to_the_whole_one(store: Store) -> None:
    stage(store, "packs/a", one=b"1", two=b"22")
    store.delete("packs/a/two")
    assert stage(store, "packs/a", one=b"1", two=b"22")
    assert store.read("packs/a/two") == b"22"


def test_a_part_of_an_object_is_read_by_range(store: Store) -> None:
    store.create("base/x.json", b"0123456789")
    assert store.read_range("base/x.json", 3, 4) == b"3456"


def test_a_deleted_pack_is_gone_with_all_its_files(store: Store) -> None:
    stage(store, "packs/a", one=b"1", two=b"2")
    store.delete("packs/a")
    assert store.list("packs/") == []
    assert not store.exists("packs/a")


def test_what_is_not_there_is_told_not_guessed(store: Store) -> None:
    for verb in (store.read, store.delete):
        with pytest.raises(FileNotFoundError):
            verb("gen/9.json")
    assert not store.exists("gen/9.json")


def test_only_the_hint_may_change(store: Store) -> None:
    store.hint("CURRENT", b"1")
    store.hint("CURRENT", b"2")
    assert store.read("CURRENT") == b"2"


def test_names_stay_inside_the_store(store: Store) -> None:
    for name in ("/etc/passwd", "packs/../../secret"):
        with pytest.raises(AssertionError):
            store.read(name)


def test_the_memory_store_complains_when_an_object_is_used_as_a_hint() -> None:
    store = MemoryStore(ManualClock())
    with pytest.raises(AssertionError):
        store.hint("gen/1.json", b"")
    with pytest.raises(AssertionError):
        store.create("CURRENT", b"")


def test_the_memory_store_complains_when_a_pack_changes() -> None:
    store = MemoryStore(ManualClock())
    stage(store, "packs/a", one=b"1")
    with pytest.raises(AssertionError):
        stage(store, "packs/a", one=b"2")


def test_a_sweep_removes_only_what_a_crash_left_long_ago(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    stage(store, "packs/a", one=b"1")
    left = tmp_path / "packs" / ".stage-crashed"
    left.mkdir()
    assert store.sweep(older_than_us=0) == 0
    assert store.sweep(older_than_us=2**62) == 1
    assert not left.exists()
    assert store.read("packs/a/one") == b"1"
