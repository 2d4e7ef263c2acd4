"""Snapshots: an optimisation and no evidence; with or without them the rows are the same."""

import pytest

from facts import eip712
from facts.partition import FOLD_VERSION, open_fold, resume_fold
from polyc.errors import CorruptError
from tests.facts.everything import every_partition
from tests.facts.payment import trust


@pytest.mark.parametrize("journal", every_partition(), ids=lambda journal: journal.partition)
def test_every_fold_resumes_after_every_record(journal):
    fold = open_fold(journal.partition, trust())
    for record in journal.records:
        fold = resume_fold(journal.partition, trust(), fold.snapshot())
        fold.apply(record)
    assert fold.rows() == journal.rows(trust())
    assert resume_fold(journal.partition, trust(), fold.snapshot()).rows() == journal.rows(trust())


@pytest.mark.parametrize("partition", ["conv-a", "personas"])
@pytest.mark.parametrize("snapshot", [b"", b"\x00", b"\x80", b"\x91" * 3000])
def test_bytes_that_are_no_snapshot_are_refused(partition, snapshot):
    with pytest.raises(CorruptError) as caught:
        resume_fold(partition, trust(), snapshot)
    assert caught.value.kind == "snapshot"


@pytest.mark.parametrize(("mine", "other"), [("conv-a", "conv-b"), ("personas", "personas-2")])
def test_a_snapshot_of_another_partition_is_refused(mine, other):
    snapshot = open_fold(other, trust()).snapshot()
    with pytest.raises(CorruptError, match="another partition"):
        resume_fold(mine, trust(), snapshot)


def test_the_fold_version_is_text_that_a_file_name_can_bear():
    assert ("eip712" in FOLD_VERSION) == eip712.available(), "the extra changes verdicts"
    assert set(FOLD_VERSION) <= set("abcdefghijklmnopqrstuvwxyz0123456789.+")
