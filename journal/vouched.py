"""Reading at level V1h: what turns, money, access and keys hang on comes only with its author's own signature.

`read` trusts the log's checkpoint that every append was signed when it came in. A spending check does not (ruling 2):
it verifies the signature again, of each append that holds one of those events. No append is handed out before that.
"""

from collections.abc import Iterator
from typing import Protocol

from journal.partition_check import HIGH_VALUE
from journal.port import RawEntry
from journal.records import place_of
from polyc.entry import Record, append_preimage, decode_header, leaf_hash
from polyc.errors import CorruptError
from polyc.keyring import KeyRing
from polyc.signing import verify
from polyc.vocabulary import may_author


class SignedReader(Protocol):
    """The part of a journal's reader that this stands on."""

    @property
    def origin(self) -> str:
        """The log's name, which every author signs."""

    def read(self, partition: str, *, from_position: int = 1) -> Iterator[Record]:
        """The current incarnation in order, verified."""

    def read_raw(self, partition: str, *, from_position: int = 1) -> Iterator[RawEntry]:
        """The same as stored, with the authors' signatures."""


def read_vouched(reader: SignedReader, partition: str, *, keys: KeyRing, from_position: int = 1) -> Iterator[Record]:
    """The records of `read`, append by append; CorruptError where an author's signature or role is missing.

    The stored entries and the records are read side by side, each verified; an append that was sealed for the one
    and not yet for the other is left for the next time.
    """
    append: list[Record] = []
    stored = reader.read_raw(partition, from_position=from_position)
    for entry, record in zip(stored, reader.read(partition, from_position=from_position), strict=False):
        _check_same(entry, record)
        append.append(record)
        if entry.signature:
            _check_author(append, entry, keys=keys, origin=reader.origin)
            yield from append
            append = []


def _check_same(entry: RawEntry, record: Record) -> None:
    """The record says what the entry's header says; the payload's digest is verified on both ways."""
    place = place_of(record.partition, record.incarnation, record.position)
    header = decode_header(entry.header, place=place)
    named = (header.partition, header.incarnation, header.position, header.event_type, header.key_id, entry.index)
    shown = (record.partition, record.incarnation, record.position, record.event_type, record.key_id, record.index)
    if named != shown:
        raise CorruptError("the record is not the entry that was signed", place=place, kind="header")


def _check_author(append: list[Record], last: RawEntry, *, keys: KeyRing, origin: str) -> None:
    """One author, who held a role that may write all of it, signed the append's last leaf, which chains the others."""
    codes = {record.event_type for record in append}
    if not codes & HIGH_VALUE:
        return
    first, end = append[0], append[-1]
    place = place_of(end.partition, end.incarnation, end.position)
    if any(record.key_id != first.key_id for record in append):
        raise CorruptError("an append has one author", place=place, kind="append")
    key, role = keys.get(first.key_id), keys.role_at(first.key_id, first.index)
    if key is None or role is None or keys.role_at(first.key_id, end.index) != role:
        raise CorruptError("the author's key held no role at this index", place=place, kind="key")
    if not all(may_author(role, code=code, partition=first.partition) for code in codes):
        raise CorruptError(f"role {role} may not write this", place=place, kind="role")
    if not verify(key.public_key, last.signature, append_preimage(origin, leaf_hash(last.header))):
        raise CorruptError("the author did not sign this append", place=place, kind="signature")
