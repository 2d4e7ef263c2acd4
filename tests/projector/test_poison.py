"""A poison partition is set aside with its fault named and keeps its last good rows; the others go on (C12)."""

import itertools

import pytest

from polyc.errors import UnavailableError
from projector.replay import replay, replay_together
from tests.projector.test_erasure import erased
from tests.support import counting_meaning as cm
from tests.support.archive import Archive, contents, texts


@pytest.fixture
def archive(tmp_path) -> Archive:
    archive = Archive(tmp_path)
    archive.converse("conv-a", "good")
    archive.converse("conv-b", "fine")
    return archive


def poison(archive: Archive, partition: str = "conv-a") -> None:
    archive.journal.say(partition, cm.POISON, cm.say("after"), cm.COMMIT)


def faults(archive: Archive) -> list[tuple[str, str, str]]:
    return [(fault.partition, fault.kind, fault.place) for fault in archive.latest().faults]


def test_the_others_go_on_and_the_fault_is_named(archive: Archive) -> None:
    archive.publish()
    poison(archive)
    archive.converse("conv-b", "still")
    assert texts(archive.publish(), "conv-a", "conv-b") == ["good", "fine", "still"]
    assert faults(archive) == [("conv-a", "payload", "conv-a/3")]


def test_a_fault_stays_named_while_nothing_of_it_moves(archive: Archive) -> None:
    poison(archive)
    archive.publish()
    archive.converse("conv-b", "still")
    archive.publish()
    assert faults(archive) == [("conv-a", "payload", "conv-a/3")]


def test_a_poisoned_partition_is_not_retried_while_nothing_of_it_moves(archive: Archive) -> None:
    poison(archive)
    archive.publish()
    assert archive.projector.run_once() is None


def test_the_good_records_before_the_poison_are_published(archive: Archive) -> None:
    archive.publish()
    archive.journal.say("conv-a", cm.say("last good"), cm.COMMIT, cm.POISON)
    assert texts(archive.publish(), "conv-a") == ["good", "last good"]


def test_a_rebuild_gives_the_same_rows_and_faults(archive: Archive) -> None:
    archive.publish()
    archive.journal.say("conv-a", cm.say("last good"), cm.COMMIT, cm.POISON)
    archive.publish()
    incremental = contents(archive.latest()), faults(archive)
    archive.projector.rebuild()
    assert (contents(archive.latest()), faults(archive)) == incremental


def test_a_tampered_record_keeps_the_rows_published_before_it(archive: Archive) -> None:
    archive.converse("conv-a", "second")
    archive.publish()
    archive.journal.tamper("conv-a", 1)
    archive.converse("conv-a", "third")
    again = archive.new_projector("restarted")  # a live fold would not read the record again
    again.run_once()
    assert texts(archive.latest(), "conv-a") == ["good", "second"]
    assert faults(archive) == [("conv-a", "digest", "conv-a/1")]


def test_a_new_incarnation_heals(archive: Archive) -> None:
    poison(archive)
    archive.publish()
    archive.journal.say("conv-a", cm.say("healed"), cm.COMMIT, new_incarnation=True)
    assert texts(archive.publish(), "conv-a") == ["healed"]
    assert faults(archive) == []


def test_a_bug_in_a_fold_poisons_one_partition(archive: Archive) -> None:
    class Buggy(cm.CountingFold):
        def apply(self, record) -> None:
            if self.partition == "conv-a":
                raise KeyError("a secret value")
            super().apply(record)

    from dataclasses import replace

    archive.meaning = replace(archive.meaning, open_fold=Buggy)
    archive.projector = archive.new_projector("buggy")
    assert texts(archive.publish(), "conv-b") == ["fine"]
    assert faults(archive) == [("conv-a", "KeyError", "conv-a/1")]


def test_what_is_replayed_together_is_what_is_replayed_alone(archive: Archive) -> None:
    """Also when one of them is poisoned, one lies, one was erased, one tells of it, and one is read by nobody."""
    poison(archive)
    for name in ("conv-c", "conv-d", "conv-e"):
        archive.converse(name, "one", "two")
    archive.journal.tamper("conv-c", 3)
    archive.journal.erase("conv-d", 1)
    archive.journal.say("notices", erased("conv-d"))
    archive.journal.tamper("conv-e", 1)
    meaning, heads = archive.meaning, archive.journal.partitions()
    trust = meaning.trust_of(archive.journal.keyring())
    alone = [replay(archive.journal, head, meaning=meaning, trust=trust) for head in heads]
    assert replay_together(archive.journal, heads, meaning=meaning, trust=trust) == alone
    assert [found.through for found in alone if found.fault] == [2, 2, 0], "three of them are odd"
    assert [found.erased for found in alone if found.erased] == [1]
    assert [found.erasures for found in alone if found.erasures] == [{"conv-d"}]


@pytest.mark.parametrize("error", [UnavailableError("the journal is away"), OSError(5, "I/O error")])
@pytest.mark.parametrize("known", [True, False])
def test_a_journal_that_goes_away_while_it_is_read_is_no_fault(archive: Archive, error: Exception, known: bool) -> None:
    archive.publish()
    archive.converse("conv-a", "more")
    if not known:
        archive.projector = archive.new_projector("restarted")
    read, failing = archive.journal.read, [True]

    def away(partition: str, **options: object):
        yield from itertools.islice(read(partition, **options), 1)
        if failing:
            raise error

    archive.journal.read = away
    with pytest.raises(UnavailableError):
        archive.projector.run_once()
    archive.journal.read = read
    assert texts(archive.publish(), "conv-a") == ["good", "more"]
    assert faults(archive) == []


def test_a_fold_that_cannot_give_its_rows_poisons_one_partition(archive: Archive) -> None:
    class Buggy(cm.CountingFold):
        def rows(self):
            if self.partition == "conv-a":
                raise ZeroDivisionError
            return super().rows()

    from dataclasses import replace

    archive.meaning = replace(archive.meaning, open_fold=Buggy)
    archive.projector = archive.new_projector("buggy")
    assert texts(archive.publish(), "conv-b") == ["fine"]
    assert [fault[1] for fault in faults(archive)] == ["ZeroDivisionError"]
