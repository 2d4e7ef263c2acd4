"""A vouched read hands out no turn, money, access or key event but under its author's own signature and role."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from journal.port import SignedRecords
from journal.vouched import read_vouched
from polyc.appending import Draft
from polyc.errors import CorruptError
from polyc.keyring import KeyRing
from tests.journal.log import MESSAGE, ORIGIN, TURN_START, Log


class Given:
    """A reader of one append."""

    origin = ORIGIN

    def __init__(self, append: SignedRecords) -> None:
        self._append = append

    def read_signed(self, _partition: str, *, from_position: int = 1) -> Iterator[SignedRecords]:
        assert from_position == 1
        yield self._append


def appended(log: Log, *event_types: int) -> tuple[SignedRecords, KeyRing]:
    """An append of Control's, as it is read, and the keys of its log."""
    with log.open() as journal:
        log.author(journal, "control").append("conv-a", [Draft(code, b"{}") for code in event_types])
        (append,) = journal.read_signed("conv-a")
        return append, journal.keyring()


def by(append: SignedRecords, key_id: bytes, *numbers: int) -> SignedRecords:
    """The append with records under another key."""
    records = [
        msgspec.structs.replace(record, key_id=key_id) if number in numbers else record
        for number, record in enumerate(append.records)
    ]
    return msgspec.structs.replace(append, records=records)


def test_an_append_that_its_author_signed_is_handed_out(tmp_path: Path):
    append, keys = appended(Log(tmp_path), TURN_START, TURN_START)
    assert list(read_vouched(Given(append), "conv-a", keys=keys)) == append.records


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda append, _log: msgspec.structs.replace(append, signature=bytes(64)), "signature"),
        (lambda append, _log: msgspec.structs.replace(append, leaf=bytes(32)), "signature"),
        (lambda append, _log: by(append, bytes(8), 0, 1), "key"),
        (lambda append, log: by(append, log.signers["harness"].key_id, 0, 1), "role"),
        (lambda append, log: by(append, log.signers["harness"].key_id, 1), "append"),
    ],
)
def test_what_its_author_did_not_sign_or_may_not_write_is_not(tmp_path: Path, change, kind: str):
    log = Log(tmp_path)
    append, keys = appended(log, TURN_START, TURN_START)
    with pytest.raises(CorruptError) as stopped:
        next(read_vouched(Given(change(append, log)), "conv-a", keys=keys))
    assert stopped.value.kind == kind
    assert stopped.value.place.endswith("@2")


def test_what_nothing_hangs_on_rests_on_the_logs_checkpoint(tmp_path: Path):
    append, keys = appended(Log(tmp_path), MESSAGE)
    unsigned = msgspec.structs.replace(append, signature=bytes(64))
    assert list(read_vouched(Given(unsigned), "conv-a", keys=keys)) == append.records
