"""Forgery: one byte changed. Found wherever it matters, and named where it stands."""

import shutil
from pathlib import Path

import pytest

from journal.verify import verify_file
from polyc.errors import CorruptError
from tests.journal.forger import Forger, first_fault, place, story
from tests.journal.log import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    story(log)
    return log


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_the_untouched_journal_verifies_at_every_level(log: Log):
    for level in ("V1", "V1h", "V2"):
        report = verify_file(log.path, policy=log.policy, level=level)
        assert report.ok, report.faults
        assert report.entries == 24


def test_each_byte_of_a_header_is_vouched_for_at_its_own_position(log: Log):
    with Forger(log) as forger:
        stored = forger.stored("conv-a", 4)
        (before, header), salted = stored.open("").headers, stored.open("").salted
        expected = place("conv-a", 4, log)
        for at in range(0, len(header), 2):  # every field is touched
            forger.pack(stored.index, [before, flipped(header, at)], salted)
            fault = first_fault(log)
            assert fault is not None, f"byte {at} of the header is not vouched for"
            assert fault.place == expected, (at, fault)
        forger.pack(stored.index, [before, header], salted)
    assert first_fault(log) is None


@pytest.mark.parametrize("column", ["payload", "salt"])
def test_a_changed_payload_or_salt_is_named(log: Log, column: str):
    with Forger(log) as forger:
        value = getattr(forger.entry("conv-b", 2), column)
        for at in range(len(value)):
            forger.change("conv-b", 2, **{column: flipped(value, at)})
            fault = first_fault(log)
            assert (fault.kind, fault.place) == ("digest", place("conv-b", 2, log))


@pytest.mark.parametrize(
    ("statement", "level", "kind", "where"),
    [
        ("UPDATE append SET sig = zeroblob(64) WHERE idx = 8", "V2", "signature", "conv-a/"),
        ("UPDATE append SET sig = x'' WHERE idx = 8", "V1", "signature", "conv-a/"),
        ("DELETE FROM append WHERE idx = 8", "V1", "gap", "conv-a/"),
        ("UPDATE part SET leaf = zeroblob(32) WHERE name = 'conv-b'", "V1", "head", "conv-b/"),
        ("UPDATE part SET next = 3 WHERE name = 'conv-b'", "V1", "head", "conv-b/"),
        ("UPDATE checkpoint SET note = replace(note, '24', '25') WHERE size = 24", "V1", "checkpoint", "checkpoint"),
        ("UPDATE checkpoint SET note = replace(note, 'polychrome', 'polychrone')", "V1", "checkpoint", "checkpoint"),
    ],
)
def test_what_stands_beside_the_entries_is_vouched_for_too(log: Log, statement: str, level, kind: str, where: str):
    with Forger(log) as forger:
        forger.run(statement)
    fault = first_fault(log, level=level)
    assert fault is not None
    assert fault.kind == kind
    assert fault.place.startswith(where)


def test_a_changed_tile_is_named(tmp_path: Path):
    log = Log(tmp_path / "tiles")
    with log.open() as journal:
        log.say(journal, "conv-a", *[str(i) for i in range(600)])
    with Forger(log) as forger:
        hashes = forger.connection.execute("SELECT hashes FROM tile WHERE level = 0 AND n = 1").get
        forger.run("UPDATE tile SET hashes = ? WHERE level = 0 AND n = 1", flipped(hashes, 40))
    assert first_fault(log).kind == "leaf"
    assert first_fault(log).place == place("conv-a", 256 + 1 + 1 - 8, log)  # eight key events stand before it


def test_a_flipped_bit_anywhere_in_the_file_is_found_or_changes_nothing(log: Log, tmp_path: Path):
    with log.open() as journal:
        honest = [(r.partition, r.position, r.payload) for r in journal.read_all(from_index=0)]
    pristine = tmp_path / "pristine"
    shutil.copyfile(log.path, pristine)
    data = pristine.read_bytes()
    found = 0
    for at in range(101, len(data), max(1, len(data) // 50)):
        log.path.write_bytes(flipped(data, at))
        for suffix in ("-wal", "-shm"):
            log.path.with_name(log.path.name + suffix).unlink(missing_ok=True)
        if verify_file(log.path, policy=log.policy, level="V2").faults:
            found += 1
            continue
        try:
            with log.open() as journal:
                seen = [(r.partition, r.position, r.payload) for r in journal.read_all(from_index=0)]
        except CorruptError:
            continue
        assert seen == honest, f"byte {at} of the file changed what is read, and nobody noticed"
    assert found > 5
