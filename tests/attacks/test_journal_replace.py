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
    found = forger.entry(partition, position)
    changed = msgspec.structs.replace(
        entry.decode_header(found.header, place="test"),
        payload_digest=entry.payload_digest(found.salt, payload),
        payload_size_bytes=len(payload),
    )
    forger.change(partition, position, header=entry.encode_header(changed), payload=payload)


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
        forger.change("conv-b", 1, **forger.entry("conv-c", 1)._asdict())
    fault = first_fault(log)  # where the row's own columns were left as they are, they tell
    assert (fault.kind, fault.place) == ("append", place("conv-b", 1, log))
    with Forger(log) as forger:
        columns = "append_id = ?, sig = ?"
        forger.run(
            f"UPDATE append SET {columns} WHERE idx = ?",
            *forger.signed_as("conv-c", 1),
            forger.stored("conv-b", 1).index,
        )
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("foreign", place("conv-b", 1, log))


def test_a_whole_partition_renamed_is_foreign(log: Log):
    with Forger(log) as forger:
        forger.run("UPDATE part SET name = 'conv-z' WHERE name = 'conv-a'")
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("foreign", place("conv-z", 1, log))
