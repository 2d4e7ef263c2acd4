"""Reading at level V1h: what turns, money, access and keys hang on comes only with its author's own signature.

`read` trusts the log's checkpoint that every append was signed when it came in. A spending check does not (ruling 2):
it verifies the signature again, of each append that holds one of those events. No append is handed out before that.
"""

from collections.abc import Iterator
from typing import Protocol

from journal.partition_check import HIGH_VALUE
from journal.port import SignedRecords
from journal.records import place_of
from polyc.entry import Record, append_preimage
from polyc.errors import CorruptError
from polyc.keyring import KeyRing
from polyc.signing import verify
from polyc.vocabulary import may_author


class SignedReader(Protocol):
    """The part of a journal's reader that this stands on."""

    @property
    def origin(self) -> str:
        """The log's name, which every author signs."""

    def read_signed(self, partition: str, *, from_position: int = 1) -> Iterator[SignedRecords]:
        """The current incarnation append by append, verified but for the authors' signatures."""


def read_vouched(reader: SignedReader, partition: str, *, keys: KeyRing, from_position: int = 1) -> Iterator[Record]:
    """The records of `read`, append by append; CorruptError where an author's signature or role is missing."""
    for append in reader.read_signed(partition, from_position=from_position):
        _check_author(append, keys=keys, origin=reader.origin)
        yield from append.records


def _check_author(append: SignedRecords, *, keys: KeyRing, origin: str) -> None:
    """One author, who held a role that may write all of it, signed the append's last leaf, which chains the others."""
    codes = {record.event_type for record in append.records}
    if not codes & HIGH_VALUE:
        return
    first, last = append.records[0], append.records[-1]
    place = place_of(last.partition, last.incarnation, last.position)
    if any(record.key_id != first.key_id for record in append.records):
        raise CorruptError("an append has one author", place=place, kind="append")
    key, role = keys.get(first.key_id), keys.role_at(first.key_id, first.index)
    if key is None or role is None or keys.role_at(first.key_id, last.index) != role:
        raise CorruptError("the author's key held no role at this index", place=place, kind="key")
    if not all(may_author(role, code=code, partition=first.partition) for code in codes):
        raise CorruptError(f"role {role} may not write this", place=place, kind="role")
    if not verify(key.public_key, append.signature, append_preimage(origin, append.leaf)):
        raise CorruptError("the author did not sign this append", place=place, kind="signature")
