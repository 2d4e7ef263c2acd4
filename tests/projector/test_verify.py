"""Another machine recomputes a generation from the journal, and names the first thing that differs."""

import msgspec
import pytest

from artifacts.layout import generation_name
from polyc.ids import SeededIds
from projector.verify import Verified, verify_artifacts
from tests.support import counting_meaning as cm
from tests.support.archive import Archive


@pytest.fixture
def archive(tmp_path) -> Archive:
    archive = Archive(tmp_path)
    archive.converse("conv-a", "one", "two")
    archive.converse("conv-b", "three")
    archive.publish()
    archive.converse("conv-a", "four")
    archive.publish()
    return archive


def verified(archive: Archive, **options: object) -> Verified:
    return verify_artifacts(
        archive.journal,
        archive.store,
        clock=archive.journal.clock,
        ids=SeededIds("v"),
        meaning=archive.meaning,
        **options,
    )


class Lying(cm.CountingFold):
    """A fold that says other rows than the honest one."""

    def rows(self):
        rows = super().rows()
        if self.partition == "conv-a" and rows["notes"]:
            first = rows["notes"][0]
            rows["notes"] = [(*first[:3], "other", first[4]), *rows["notes"][1:]]
        return rows


def lie(archive: Archive, fold: type) -> None:
    from dataclasses import replace

    honest, archive.meaning = archive.meaning, replace(archive.meaning, open_fold=fold)
    archive.new_projector("liar").rebuild()
    archive.meaning = honest


def test_honest_artifacts_verify(archive: Archive) -> None:
    result = verified(archive)
    assert result.difference is None
    assert (result.generation, result.partitions) == (2, 3)
    archive.projector.compact()
    assert verified(archive).difference is None


def test_entries_after_the_frontier_are_no_difference(archive: Archive) -> None:
    archive.converse("conv-a", "not yet published")
    archive.journal.say("conv-b", cm.say("anew"), new_incarnation=True)
    assert verified(archive).difference is None


def test_rows_signed_by_the_projector_but_not_in_the_journal_are_named(archive: Archive) -> None:
    lie(archive, Lying)
    difference = verified(archive).difference
    assert difference is not None
    assert (difference.partition, difference.table, difference.detail) == ("conv-a", "notes", "row 0, column text")
    assert "other" not in difference.detail


def test_rows_left_out_are_named(archive: Archive) -> None:
    class Silent(cm.CountingFold):
        def rows(self):
            return {**super().rows(), "words": []}

    lie(archive, Silent)
    difference = verified(archive).difference
    assert difference is not None
    assert (difference.table, difference.detail) == ("words", "0 rows, the journal says 3")


def test_a_partition_left_out_is_named(archive: Archive) -> None:
    known = archive.latest().manifest
    body = msgspec.structs.replace(
        known.body, generation=3, parent=known.sha256, base="", deltas=known.body.deltas, created_at_us=5
    )
    from artifacts.manifest import sign_manifest

    archive.store.create(generation_name(3), sign_manifest(body, archive.journal.keys.signers["projector"]))
    difference = verified(archive).difference
    assert difference is not None
    assert difference.detail == "the generation does not know this partition"


def test_another_chain_of_the_same_length_is_named(archive: Archive) -> None:
    from tests.support.memory_journal import MemoryJournal

    fork = MemoryJournal()
    for number in range(2):
        fork.say("conv-a", cm.say(f"fork {number}"), cm.COMMIT)
    fork.say("conv-a", cm.say("x"))
    fork.say("conv-b", cm.say("fork"), cm.COMMIT)
    archive.journal = fork
    difference = verified(archive).difference
    assert difference is not None


def test_a_journal_shorter_than_the_frontier_is_named(archive: Archive) -> None:
    archive.journal.truncate(archive.journal.size() - 1)
    difference = verified(archive).difference
    assert difference is not None
    assert "fewer entries than the frontier" in difference.detail


def test_a_poisoned_partition_is_excused_but_its_rows_are_compared(archive: Archive) -> None:
    archive.journal.say("conv-b", cm.POISON)
    archive.publish()
    assert verified(archive).difference is None


def test_a_damaged_file_is_a_difference_with_its_place(archive: Archive) -> None:
    archive.projector.compact()
    path = next((archive.store.path / "packs").glob("*/notes.parquet"))
    for path in (archive.store.path / "packs").glob("*/notes.parquet"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    difference = verified(archive).difference
    assert difference is not None
    assert difference.detail.startswith("hash: ")


def test_progress_counts_partitions(archive: Archive) -> None:
    seen: list[tuple[int, int]] = []
    verified(archive, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3, 3)
