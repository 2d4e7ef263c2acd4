"""Erasure: the content is gone from every byte of the journal, the chain still verifies, the fact stays."""

import shutil
from pathlib import Path

import msgspec
import pytest

from journal import erasure
from journal.database import open_reader, rows
from journal.verify import verify_file
from polyc.appending import Draft
from polyc.errors import RefusedError
from polyc.vocabulary import BY_KIND
from tests.journal.forger import Forger
from tests.journal.log import Log

NEEDLE = b"a secret nobody may keep"


def bytes_on_disk(log: Log) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(log.path.parent.iterdir()) if path.is_file())


def kept_bytes(log: Log, partition: str) -> list[bytes]:
    """Pieces of what the file keeps of a partition's appends, compressed or not: 64 bytes of each body's end."""
    connection = open_reader(log.path)
    found = rows(connection, "SELECT body FROM append JOIN part USING (pid) WHERE name = ? ORDER BY idx", (partition,))
    connection.close()
    return [body[-64:] for (body,) in found]


def erase(log: Log, journal, partition: str, position: int | None = None):
    head = journal.head(partition)
    return erasure.erase(
        log.author(journal, "control"), partition=partition, incarnation=head.incarnation, position=position
    )


@pytest.mark.parametrize("size", [len(NEEDLE), 3_000, 200_000])
def test_an_erased_event_is_in_no_byte_of_the_journal_and_everything_verifies(log: Log, journal, size: int):
    content = (NEEDLE * (size // len(NEEDLE) + 1)).decode()
    for i in range(40):
        log.say(journal, "conv-a", f"before {i}" * 20)
        if i == 20:
            log.say(journal, "conv-a", content)
    kept = kept_bytes(log, "conv-a")[21]
    assert kept in bytes_on_disk(log)
    root_before = journal.read_raw("conv-a")
    headers = [raw.header for raw in root_before]
    erase(log, journal, "conv-a", 22)
    assert kept not in bytes_on_disk(log)
    assert NEEDLE not in bytes_on_disk(log)
    records = list(journal.read("conv-a"))
    assert [r.position for r in records if r.payload is None] == [22]
    assert [raw.header for raw in journal.read_raw("conv-a")] == headers
    for level in ("V1", "V2"):
        report = verify_file(log.path, policy=log.policy, level=level)
        assert (report.ok, report.erased) == (True, 1), report.faults
    log.say(journal, "conv-a", "goes on")
    journal.receipt("conv-a", 22)


def test_a_whole_conversation_is_erased_and_its_pages_hold_none_of_it(log: Log, journal):
    for i in range(150):
        log.say(journal, "conv-a", f"{i} {NEEDLE.decode()} " * 9, "x" * 500)
        log.say(journal, "conv-b", f"b{i}" * 50)
    kept = kept_bytes(log, "conv-a")
    assert all(piece in bytes_on_disk(log) for piece in kept)
    erase(log, journal, "conv-a")
    assert not any(piece in bytes_on_disk(log) for piece in [*kept, NEEDLE])
    assert {record.payload for record in journal.read("conv-a")} == {None}
    assert len(list(journal.read("conv-b"))) == 150
    assert verify_file(log.path, policy=log.policy, level="V2").ok


def test_the_fact_of_an_erasure_is_an_event_of_control(log: Log, journal):
    log.say(journal, "conv-a", "one")
    erase(log, journal, "conv-a", 1)
    incarnation = journal.head("conv-a").incarnation
    assert erasure.announced(journal, journal.keyring()) == {("conv-a", incarnation, 1): journal.size() - 1}
    with pytest.raises(RefusedError):
        erasure.erase(log.author(journal, "harness"), partition="conv-a", incarnation=incarnation, position=1)


def test_what_is_said_behind_the_order_stays_also_in_the_same_commit(log: Log, journal):
    log.say(journal, "conv-a", "one", "two")
    head = journal.head("conv-a")
    order = erasure.Erased(id="e", partition="conv-a", incarnation=head.incarnation.hex())
    payload = msgspec.json.encode(order)
    appends = [
        log.sign("journal-notices", payload, role="control", event_type=erasure.ERASED),
        log.sign("conv-a", b"three", head=head),
    ]
    journal.append_many(appends)
    assert [record.payload for record in journal.read("conv-a")] == [None, None, b"three"]
    assert verify_file(log.path, policy=log.policy, level="V2").ok


def test_what_does_not_exist_or_must_stay_is_not_erased(log: Log, journal):
    log.say(journal, "conv-a", "one")
    log.author(journal, "control").append("spend-ada", [Draft(BY_KIND["spend_reserved"].code, b"{}")])
    size = journal.size()
    control = log.author(journal, "control")
    incarnation = journal.head("conv-a").incarnation
    for partition, found, position in [
        ("conv-a", incarnation, 2),
        ("conv-a", bytes(16), 1),
        ("conv-b", incarnation, 1),
        ("sys-keys", journal.head("sys-keys").incarnation, 1),
        ("spend-ada", journal.head("spend-ada").incarnation, 1),
    ]:
        with pytest.raises(RefusedError):
            erasure.erase(control, partition=partition, incarnation=found, position=position)
    assert journal.size() == size


def test_a_repeated_append_of_an_erased_event_appends_nothing(log: Log, journal):
    log.say(journal, "conv-a", "one", append_id=b"i" * 16)
    erase(log, journal, "conv-a", 1)
    assert log.say(journal, "conv-a", "one", append_id=b"i" * 16).repeated
    assert [record.payload for record in journal.read("conv-a")] == [None]


def test_a_payload_that_is_gone_without_an_event_is_named(log: Log):
    with log.open() as journal:
        log.say(journal, "conv-a", "one", "two")
        erase(log, journal, "conv-a", 1)
    with Forger(log) as forger:
        forger.change("conv-a", 2, payload=None)
    report = verify_file(log.path, policy=log.policy)
    assert [(fault.kind, fault.place[-2:]) for fault in report.faults] == [("erasure", "@2")]


def test_without_secure_delete_the_content_would_have_stayed(log: Log, tmp_path: Path):
    """The sibling: the method finds what an ordinary UPDATE leaves behind."""
    with log.open() as journal:
        for i in range(20):
            log.say(journal, "conv-a", f"{i} {NEEDLE.decode()}")
    shutil.copyfile(log.path, tmp_path / "ordinary")
    import apsw

    connection = apsw.Connection(str(tmp_path / "ordinary"))
    connection.pragma("secure_delete", False)
    connection.execute("UPDATE append SET body = substr(body, 1, 155) WHERE position = 5")
    connection.close()
    assert (tmp_path / "ordinary").read_bytes().count(b"4 " + NEEDLE) == 1
