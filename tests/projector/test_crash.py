"""A process that ends before any one of its file operations: the table of `tests.projector.crash_table`."""

import subprocess
import sys

import pytest

from tests.projector import crash_table


@pytest.mark.parametrize(("work", "operations_min"), [("publish", 8), ("merge", 15), ("purge", 10), ("rebuild", 8)])
def test_a_process_that_ends_anywhere_leaves_old_or_new_and_nothing_half(work: str, operations_min: int, tmp_path):
    command = [sys.executable, "-W", "error", "-m", "tests.projector.crash_table", work, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= operations_min


@pytest.mark.soak
@pytest.mark.parametrize("work", ["compact", "collect"])
def test_a_process_that_ends_while_it_merges_or_collects(work: str, tmp_path):
    test_a_process_that_ends_anywhere_leaves_old_or_new_and_nothing_half(work, 15, tmp_path)


def test_the_table_finds_a_store_that_lost_what_it_had(tmp_path):
    archive = crash_table.prepared(tmp_path)
    for entry in [entry.name for entry in archive.store.list("gen/")]:
        archive.store.delete(entry)
    with pytest.raises(Exception, match="nothing has been published"):
        crash_table.check("publish", archive, archive.store)
