"""What a publication does to the rows: append, replace, keep; and what it leaves alone."""

import pytest

from artifacts.index import APPEND, KEEP, REPLACE
from polyc.errors import CorruptError, UnavailableError
from projector.publish import Published
from tests.support import counting_meaning as cm
from tests.support.archive import Archive, contents, fleet, texts


@pytest.fixture
def archive(tmp_path) -> Archive:
    return Archive(tmp_path)


def modes(archive: Archive, partition: str) -> tuple[str, str]:
    row = archive.latest().layers.newest(partition)
    assert row is not None
    return row.row_mode, row.state_mode


def test_nothing_is_published_twice(archive: Archive) -> None:
    archive.converse("conv-a", "one")
    first = archive.projector.run_once()
    assert isinstance(first, Published)
    assert first.frontier_size == archive.journal.size()
    assert archive.projector.run_once() is None
    assert archive.latest().number == 1


def test_nothing_to_read_is_told_as_such(archive: Archive) -> None:
    with pytest.raises(UnavailableError):
        archive.new_reader().latest()


def test_an_unfinished_turn_yields_nothing_until_it_is_committed(archive: Archive) -> None:
    archive.converse("conv-a", "one")
    archive.publish()
    archive.converse("conv-a", "waiting", commit=False)
    assert texts(archive.publish(), "conv-a") == ["one"]
    archive.journal.say("conv-a", cm.COMMIT)
    assert texts(archive.publish(), "conv-a") == ["one", "waiting"]


def test_new_rows_append_and_a_states_row_is_replaced(archive: Archive) -> None:
    archive.converse("conv-a", "one")
    archive.publish()
    archive.converse("conv-a", "two")
    generation = archive.publish()
    assert modes(archive, "conv-a") == (APPEND, REPLACE)
    assert texts(generation, "conv-a") == ["one", "two"]
    assert [row["notes"] for row in fleet(generation, cm.TOTALS)] == [2]


def test_a_changed_earlier_row_replaces_the_partition(archive: Archive) -> None:
    archive.converse("conv-a", "one", "two")
    archive.converse("conv-b", "other")
    archive.publish()
    archive.journal.say("conv-a", cm.edit(0, "uno"))
    generation = archive.publish()
    assert modes(archive, "conv-a") == (REPLACE, KEEP)
    assert texts(generation, "conv-a", "conv-b") == ["uno", "two", "other"]
    assert [row["text"] for row in fleet(generation, cm.NOTES)] == ["uno", "two", "other"]


def test_events_that_change_no_row_move_only_the_position(archive: Archive) -> None:
    archive.converse("conv-a", "one")
    archive.publish()
    archive.converse("conv-a", "waiting", commit=False)
    generation = archive.publish()
    row = generation.layers.newest("conv-a")
    assert row is not None
    assert (row.row_mode, row.state_mode, row.counts, row.to_position) == (APPEND, KEEP, {}, 3)


def test_a_tick_writes_only_the_partitions_that_moved(archive: Archive) -> None:
    for number in range(20):
        archive.converse(f"conv-{number}", "one")
    archive.publish()
    archive.converse("conv-7", "two")
    (_, delta) = archive.publish().layers.deltas[-1]
    assert delta.partitions == ["conv-7"]


def test_rows_come_from_the_current_incarnation_alone(archive: Archive) -> None:
    archive.converse("conv-a", "old words", "more old words")
    archive.publish()
    archive.journal.say("conv-a", cm.say("new"), cm.COMMIT, new_incarnation=True)
    generation = archive.publish()
    assert texts(generation, "conv-a") == ["new"]
    assert [row["text"] for row in fleet(generation, cm.NOTES)] == ["new"]
    assert [row["notes"] for row in fleet(generation, cm.TOTALS)] == [1]


def test_a_new_incarnation_without_rows_leaves_none(archive: Archive) -> None:
    archive.converse("conv-a", "old")
    archive.publish()
    archive.journal.say("conv-a", cm.say("unfinished"), new_incarnation=True)
    generation = archive.publish()
    assert texts(generation, "conv-a") == []
    assert fleet(generation, cm.TOTALS) == []


def test_another_fold_version_replays_everything(archive: Archive) -> None:
    archive.converse("conv-a", "one")
    archive.publish()
    again = archive.new_projector("later", meaning=cm.meaning("2"))
    assert again.run_once() is not None
    assert archive.latest().manifest.body.fold_version == "2"
    assert again.run_once() is None


def test_another_shape_of_a_table_replays_everything_and_old_readers_are_told(archive: Archive) -> None:
    archive.converse("conv-a", "one")
    archive.publish()
    wider = cm.TableSpec("words", (*cm.WORDS.columns, cm.ColumnSpec("extra", "BIGINT")), "row")
    with pytest.raises(UnavailableError):
        archive.latest().admit(wider, partitions=["conv-a"])


def test_a_key_revoked_in_the_past_replays_everything_and_a_new_key_does_not(archive: Archive) -> None:
    keys = archive.journal.keys
    archive.converse("conv-a", "one")
    base = archive.publish().manifest.body.base
    archive.journal.append(
        keys.append(keys.added(keys.signers["root"].__class__(_fresh()), "harness", from_index=10**6))
    )
    assert archive.publish().manifest.body.base == base
    archive.journal.append(keys.append(keys.revoked(keys.signers["harness"], from_index=3)))
    generation = archive.publish()
    assert generation.manifest.body.deltas == ()
    assert archive.projector.run_once() is None


def _fresh():
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def test_an_older_journal_under_a_newer_manifest_is_refused(archive: Archive) -> None:
    archive.converse("conv-a", "one")
    archive.converse("conv-b", "two")
    archive.publish()
    archive.journal.truncate(archive.journal.size() - 1)
    for attempt in (archive.projector.run_once, archive.projector.rebuild):
        with pytest.raises(CorruptError) as caught:
            attempt()
        assert caught.value.kind == "rollback"
    assert texts(archive.latest(), "conv-a", "conv-b") == ["one", "two"]


def test_progress_ends_at_the_total(archive: Archive) -> None:
    seen: list[tuple[int, int]] = []
    archive.converse("conv-a", "one")
    archive.projector.run_once(lambda done, total: seen.append((done, total)))
    archive.converse("conv-a", "two")
    archive.projector.run_once(lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0


def test_live_folds_give_what_full_replays_give(archive: Archive) -> None:
    for number in range(6):
        archive.converse("conv-a", f"note {number}")
        archive.publish()
    kept = contents(archive.latest())
    archive.new_projector("fresh").rebuild()
    assert contents(archive.latest()) == kept


def test_as_of_is_a_checkpoint_size_and_its_note_is_kept(archive: Archive) -> None:
    archive.converse("conv-a", "one")
    frontier = archive.publish().frontier
    assert frontier.note == archive.journal.checkpoint()
    assert frontier.size == int(frontier.note.split("\n")[1])
