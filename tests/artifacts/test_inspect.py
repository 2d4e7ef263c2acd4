"""What `polyc generations list|show|diff` says, and that it verifies before it says anything."""

import pytest

from artifacts.inspect import diff_generations, list_generations, show_generation
from artifacts.layout import generation_name
from polyc.errors import CorruptError
from tests.support import counting_meaning as cm
from tests.support.archive import Archive


@pytest.fixture
def archive() -> Archive:
    archive = Archive()
    archive.converse("conv-a", "one")
    archive.converse("conv-b", "one")
    archive.projector.run_once()
    archive.converse("conv-a", "two")
    archive.converse("conv-c", "new")
    archive.projector.run_once()
    return archive


def test_generations_are_listed_newest_first(archive: Archive) -> None:
    listed = list_generations(archive.store, keys=archive.journal.keyring)
    assert [(item["generation"], item["deltas"]) for item in listed] == [(2, 1), (1, 0)]
    assert listed[0]["frontier"] == archive.journal.size()
    assert listed[0]["created_at"] == "2026-05-28T20:26:40Z"


def test_a_generation_shows_its_packs(archive: Archive) -> None:
    shown = show_generation(archive.store, 2, keys=archive.journal.keyring)
    assert [pack["kind"] for pack in shown["packs"]] == ["base", "base", "delta"][-len(shown["packs"]) :]
    assert shown["partitions"] == 4
    assert all(pack["bytes"] > 0 for pack in shown["packs"])


def test_a_difference_names_partitions_by_content(archive: Archive) -> None:
    archive.journal.say("conv-b", cm.say("anew"), cm.COMMIT, new_incarnation=True)
    archive.projector.run_once()
    difference = diff_generations(archive.store, 1, 3, keys=archive.journal.keyring)
    assert difference["added"] == ["conv-c"]
    assert difference["removed"] == []
    assert [(item["partition"], item["new_incarnation"]) for item in difference["changed"]] == [
        ("conv-a", False),
        ("conv-b", True),
    ]


def test_a_compaction_is_no_difference(archive: Archive) -> None:
    archive.projector.compact()
    difference = diff_generations(archive.store, 2, 3, keys=archive.journal.keyring)
    assert (difference["added"], difference["removed"], difference["changed"]) == ([], [], [])


def test_nothing_is_said_of_a_manifest_that_does_not_verify(archive: Archive) -> None:
    content = archive.store.read(generation_name(1))
    archive.store.delete(generation_name(1))
    archive.store.create(generation_name(1), content.replace(b'"v":1', b'"v":2'))
    with pytest.raises(CorruptError):
        list_generations(archive.store, keys=archive.journal.keyring)
