"""Many small conversations: opening looks at the tail alone, whatever stands before it."""

from pathlib import Path

import pytest

from journal.verify import verify_file
from polyc import entry
from polyc.appending import Head
from tests.journal.log import Log

PARTITIONS = 100_000


def many(log: Log, count: int) -> None:
    with log.open() as journal:
        batch = []
        for i in range(count):
            name, incarnation = f"conv-{i}", log.ids.token(16)
            head = Head(name, incarnation, 0, entry.genesis(journal.origin, name, incarnation))
            batch.append(log.sign(name, b"prompt", b"answer", head=head))
            if len(batch) == 500:
                journal.append_many(batch)
                batch = []
                log.clock.advance(seconds=1)  # so many may be opened in a second
        journal.append_many(batch) if batch else None
        log.say(journal, "conv-long", *[str(i) for i in range(300)])


def rows_touched_at_open(log: Log) -> int:
    """How many rows opening asks SQLite for: the tail that it verifies, not the log."""
    from journal import database

    touched = [0]
    real = database.rows

    def counted(*arguments):
        found = real(*arguments)
        touched[0] += len(found)
        return found

    import journal.opening

    journal.opening.rows = counted
    try:
        log.open().close()
    finally:
        journal.opening.rows = real
    return touched[0]


def test_opening_looks_at_the_tail_alone(tmp_path: Path):
    small, large = Log(tmp_path / "small"), Log(tmp_path / "large")
    many(small, 600)
    many(large, 1_800)
    assert rows_touched_at_open(small) == rows_touched_at_open(large)


@pytest.mark.soak
def test_a_hundred_thousand_partitions_open_at_once_and_read_one_quickly(tmp_path: Path):
    few, log = Log(tmp_path / "few"), Log(tmp_path / "many")
    many(few, 100)
    many(log, PARTITIONS)
    assert rows_touched_at_open(log) <= rows_touched_at_open(few) + 2_100  # the tail's entries and partitions
    with log.open() as journal:  # bench/journal.py measures it: under a millisecond of CPU
        assert len(list(journal.read("conv-long"))) == 300
    assert verify_file(log.path, policy=log.policy).partitions == PARTITIONS + 2
