"""Forgery: an entry replaced, everything recomputed, even resealed with a stolen log key."""

from pathlib import Path

import msgspec
import pytest

from polyc import entry
from polyc.errors import CorruptError, RefusedError
from tests.journal.forger import Forger, first_fault, place, story
from tests.journal.log import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    story(log)
    return log


def replace_payload(forger: Forger, partition: str, position: int, payload: bytes) -> None:
    pid, _position, _idx, header, salt, _payload = forger.entry(partition, position)
    decoded = entry.decode_header(header, place="test")
    changed = msgspec.structs.replace(
        decoded, payload_digest=entry.payload_digest(salt, payload), payload_size_bytes=len(payload)
    )
    forger.run(
        "UPDATE entry SET header = ?, payload = ? WHERE pid = ? AND position = ?",
        entry.encode_header(changed),
        payload,
        pid,
        position,
    )


def test_a_replaced_event_with_a_fitting_digest_is_named(log: Log):
    with Forger(log) as forger:
        replace_payload(forger, "conv-a", 4, b"never said")
    fault = first_fault(log)
    assert fault.place == place("conv-a", 4, log)


def test_a_rechained_partition_still_differs_from_the_tree(log: Log):
    with Forger(log) as forger:
        replace_payload(forger, "conv-a", 4, b"never said")
        forger.rechain("conv-a")
    fault = first_fault(log)
    assert fault.kind in {"leaf", "root"}
    with pytest.raises(CorruptError):
        log.open()


def test_a_resealed_log_lacks_the_logs_signature(log: Log):
    with Forger(log) as forger:
        replace_payload(forger, "conv-a", 4, b"never said")
        forger.rechain("conv-a")
        forger.reseal(log_key=False)
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("note_signature", "checkpoint 24")


def test_whoever_stole_the_log_key_still_lacks_the_authors(log: Log):
    with Forger(log) as forger:
        replace_payload(forger, "conv-a", 4, b"never said")
        forger.rechain("conv-a")
        forger.reseal(log_key=True)
    assert first_fault(log, level="V1") is None  # V1 believes the log: that is what V2 is for
    fault = first_fault(log, level="V2")
    assert (fault.kind, fault.place) == ("signature", place("conv-a", 4, log))


def test_an_entry_copied_into_another_partition_with_its_valid_signature_is_refused(log: Log):
    with log.open() as journal:
        raw = list(journal.read_raw("conv-c"))
        stolen = log.sign("conv-b", b"c0", head=journal.head("conv-b"))
        forged = msgspec.structs.replace(stolen, signature=raw[0].signature)
        with pytest.raises(RefusedError) as refused:
            journal.append(forged)
        assert refused.value.code == "unauthenticated"
    with Forger(log) as forger:
        _pid, _position, _idx, header, salt, payload = forger.entry("conv-c", 1)
        pid = forger.pid("conv-b")
        forger.run(
            "UPDATE entry SET header = ?, salt = ?, payload = ? WHERE pid = ? AND position = 3",
            header, salt, payload, pid,
        )  # fmt: skip
    fault = first_fault(log)
    assert fault.place == place("conv-b", 3, log)
    assert fault.kind == "foreign"


def test_a_whole_partition_renamed_is_foreign(log: Log):
    with Forger(log) as forger:
        forger.run("UPDATE part SET name = 'conv-z' WHERE name = 'conv-a'")
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("foreign", place("conv-z", 1, log))
