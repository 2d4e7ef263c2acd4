"""Forgery: the stored form of an append, which no hash covers: nothing that is believed may hang on it."""

import shutil
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from journal.body import COMPRESSED, PLAIN, WITH_ERASED
from journal.reading import SqliteReader
from journal.verify import verify_file
from polyc.errors import CorruptError
from polyc.limits import STORED_APPEND_SIZE_BYTES_MAX
from tests.journal.forger import Forger, first_fault, place, story
from tests.journal.log import ORIGIN, Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    story(log)
    with log.open() as journal:
        log.say(journal, "conv-d", *["the same words again and again, " * 9] * 20)
        log.say(journal, "conv-d", *["and once more, " * 20] * 20)
    with Forger(log) as forger:
        assert forger.stored("conv-d", 1).form == COMPRESSED
        assert forger.stored("conv-a", 1).form == PLAIN
    return log


def read(log: Log, partition: str) -> tuple[int, CorruptError | None]:
    """How many records a reader gives before it stops, and why it stops."""
    count = 0
    with SqliteReader(log.path, origin=ORIGIN, root_public_key=log.signers["root"].public_key) as reader:
        try:
            for _record in reader.read(partition):
                count += 1
        except CorruptError as fault:
            return count, fault
    return count, None


def expect(log: Log, partition: str, position: int, kind: str) -> None:
    """Verifier and reader name the same lie at the same place, and a reader gives what stands before it."""
    where = place(partition, position, log)
    fault = first_fault(log)
    assert (fault.kind, fault.place) == (kind, where)
    count, stopped = read(log, partition)
    assert (count, stopped.kind, stopped.place) == (position - 1, kind, where)


def test_the_untouched_forms_are_read(log: Log):
    assert first_fault(log, level="V2") is None
    assert read(log, "conv-d") == (40, None)


def test_every_flipped_byte_of_a_compressed_body_is_found_at_its_append(log: Log, tmp_path: Path):
    with Forger(log) as forger:
        stored = forger.stored("conv-d", 21)
        for at in range(0, len(stored.body), 23):
            body = stored.body[:at] + bytes([stored.body[at] ^ 0x10]) + stored.body[at + 1 :]
            forger.run("UPDATE append SET body = ? WHERE idx = ?", body, stored.index)
            fault = first_fault(log)
            if fault is None:  # a byte that changes nothing of what comes out
                assert forger.stored("conv-d", 21).open("") == stored.open("")
                continue
            assert fault.place.startswith(place("conv-d", 21, log)[:-2]), (at, fault)
            assert int(fault.place.rpartition("@")[2]) >= 21, (at, fault)


@pytest.mark.parametrize("count", [1, 8, 100, -1])
def test_a_body_cut_short_or_lengthened_is_named(log: Log, count: int):
    for partition, position in (("conv-a", 3), ("conv-d", 21)):
        with Forger(log) as forger:
            stored = forger.stored(partition, position)
            body = stored.body[:-count] if count > 0 else stored.body + b"\x00"
            forger.run("UPDATE append SET body = ? WHERE idx = ?", body, stored.index)
        where = place(partition, position, log).rpartition("@")[0]
        assert [fault.kind for fault in verify_file(log.path, policy=log.policy).faults if where in fault.place] == [
            "body"
        ]
        assert read(log, partition)[1].kind == "body"
        with Forger(log) as forger:
            forger.run("UPDATE append SET body = ? WHERE idx = ?", stored.body, stored.index)
    assert first_fault(log) is None


@pytest.mark.parametrize("count", [0, 19, 21, 1000, 1001, -1])
def test_a_row_that_claims_another_number_of_entries_is_named(log: Log, count: int):
    with Forger(log) as forger:
        forger.run("UPDATE append SET n = ? WHERE idx = ?", count, forger.stored("conv-d", 1).index)
    where = place("conv-d", 1, log).rpartition("@")[0]
    faults = [fault for fault in verify_file(log.path, policy=log.policy).faults if fault.place.startswith(where)]
    assert faults
    assert {fault.kind for fault in faults} <= {"body", "append"}
    assert read(log, "conv-d")[1].kind in {"body", "append"}


@pytest.mark.parametrize("form", [PLAIN, WITH_ERASED, COMPRESSED | WITH_ERASED, 4, -1])
def test_a_body_under_another_form_is_named(log: Log, form: int):
    with Forger(log) as forger:
        forger.run("UPDATE append SET form = ? WHERE idx = ?", form, forger.stored("conv-d", 21).index)
    where = place("conv-d", 21, log).rpartition("@")[0]
    assert [fault.kind for fault in verify_file(log.path, policy=log.policy).faults if where in fault.place] == ["body"]
    assert read(log, "conv-d")[1].kind == "body"


def test_an_erased_mark_on_what_was_not_erased_is_named(log: Log):
    with Forger(log) as forger:
        forger.change("conv-d", 23, payload=None)
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("erasure", place("conv-d", 23, log))


def test_a_mark_for_an_entry_that_is_not_there_is_named(log: Log):
    with Forger(log) as forger:
        forger.change("conv-a", 3, payload=None)
        stored = forger.stored("conv-a", 3)
        forger.run("UPDATE append SET body = ? WHERE idx = ?", b"\x81" + stored.body[1:], stored.index)
    expect(log, "conv-a", 3, "body")


def test_two_swapped_bodies_are_named_at_the_first_of_them(log: Log):
    with Forger(log) as forger:
        first, second = forger.stored("conv-d", 1), forger.stored("conv-d", 21)
        for index, other in ((first.index, second), (second.index, first)):
            forger.run("UPDATE append SET form = ?, body = ? WHERE idx = ?", other.form, other.body, index)
    expect(log, "conv-d", 1, "order")


def test_the_body_of_another_partition_is_named(log: Log):
    with Forger(log) as forger:
        first, other = forger.stored("conv-d", 1), forger.stored("conv-c", 1)
        forger.run("UPDATE append SET form = ?, body = ?, n = 1 WHERE idx = ?", other.form, other.body, first.index)
    expect(log, "conv-d", 1, "append")


def test_an_append_id_that_is_not_its_headers_is_named(log: Log):
    with Forger(log) as forger:  # a retry under the true id would be taken for something new
        index = forger.stored("conv-d", 1).index
        forger.run("UPDATE append SET append_id = ? WHERE idx = ?", bytes(16), index)
    expect(log, "conv-d", 1, "append")


@pytest.mark.parametrize("claimed", ["true", "small", "none"])
def test_a_decompression_bomb_is_named_and_takes_no_memory(log: Log, claimed: str):
    size = STORED_APPEND_SIZE_BYTES_MAX + 1
    compressor = zstandard.ZstdCompressor(level=1, write_content_size=claimed != "none").compressobj(
        size=size if claimed == "true" else -1
    )
    block = bytes(1 << 20)
    bomb = b"".join([compressor.compress(block) for _ in range(size >> 20)])
    bomb += compressor.compress(bytes(size & ((1 << 20) - 1))) + compressor.flush()
    if claimed == "small":  # the frame says that it holds a kilobyte
        honest = zstandard.ZstdCompressor(level=19).compress(bytes(1000))
        header = zstandard.frame_header_size(honest)
        bomb = honest[:header] + bomb[zstandard.frame_header_size(bomb) :]
    with Forger(log) as forger:
        stored = forger.stored("conv-d", 21)
        forger.run("UPDATE append SET body = ? WHERE idx = ?", bomb, stored.index)
    tracemalloc.start()
    expect(log, "conv-d", 21, "body")
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 1024 * 1024


def test_a_journal_of_the_format_before_is_refused_with_the_way_out(log: Log):
    with Forger(log) as forger:
        forger.run("UPDATE meta SET value = 'polychrome/journal/sqlite/v1' WHERE key = 'format'")
    from polyc.errors import RefusedError

    with pytest.raises(RefusedError) as refused:
        log.open()
    assert "import-archive" in refused.value.hint
    shutil.rmtree(log.path.parent)
