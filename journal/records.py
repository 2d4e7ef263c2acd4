"""From stored rows to verified records (level V1): digest, leaf chain, position, incarnation, partition.

A row is (position, index, header, salt, payload); `Chain` walks one incarnation and names the first lie with its
place: `partition/incarnation@position`. An erased payload has neither salt nor payload; its header stays in the chain.
"""

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from polyc.entry import FLAG_ENCRYPTED, FLAGS_KNOWN, HEADER_FIXED_SIZE_BYTES, MAGIC, Record, decode_header, genesis
from polyc.errors import CorruptError, UnavailableError
from polyc.payloads import PayloadKey

Row = tuple[int, int, bytes, bytes | None, bytes | None]
Keys = Callable[[str, bytes], PayloadKey | None]  # of an incarnation; None when it was destroyed

# The header's fields (polyc/entry.py), less what each use does not look at: this is the projector's inner loop.
_checked: Final = struct.Struct(">4sH18xQ8x16s24x32s32sI")
NAME_AT: Final = HEADER_FIXED_SIZE_BYTES - 1  # the name's length byte, then the name
_shown: Final = struct.Struct(">4xH16sH8xq32x8s")
assert _checked.size == NAME_AT


class Chain:
    """Where the walk along one incarnation stands: the position and leaf of the last verified entry."""

    __slots__ = ("_keys", "_name", "incarnation", "index", "leaf", "partition", "position")

    def __init__(
        self,
        partition: str,
        incarnation: bytes,
        *,
        position: int,
        leaf: bytes,
        index: int = -1,
        keys: Keys | None = None,
    ) -> None:
        self.partition = partition
        self.incarnation = incarnation
        self.position = position
        self.leaf = leaf
        self.index = index
        self._keys = keys
        self._name = len(partition).to_bytes(1, "big") + partition.encode()  # as the header ends

    @classmethod
    def at_genesis(cls, origin: str, partition: str, incarnation: bytes, *, keys: Keys | None = None) -> "Chain":
        """The walk's start."""
        leaf = genesis(origin, partition, incarnation)
        return cls(partition, incarnation, position=0, leaf=leaf, keys=keys)

    def place(self, position: int) -> str:
        """How a position of this incarnation is named in errors and reports."""
        return place_of(self.partition, self.incarnation, position)

    def walk(self, rows: Sequence[Row]) -> list[bytes]:
        """Verify the rows, each against the one before it; returns their leaves. CorruptError at the first lie.

        After a CorruptError `position` is the last verified one.
        """
        incarnation, name = self.incarnation, self._name
        sha256, unpack = hashlib.sha256, _checked.unpack_from
        leaf, expected, last_index = self.leaf, self.position, self.index
        leaves: list[bytes] = []
        try:
            for position, index, header, salt, payload in rows:
                if position != expected + 1:
                    raise self._order_error(position, expected + 1)
                if header[NAME_AT:] != name:
                    raise self._header_error(header, position)
                magic, flags, stated, stated_incarnation, prev, digest, length = unpack(header)
                if magic != MAGIC or flags > FLAGS_KNOWN or stated != position or stated_incarnation != incarnation:
                    raise self._header_error(header, position)
                if prev != leaf:
                    raise CorruptError("prev is not the leaf before it", place=self.place(position), kind="chain")
                if index <= last_index:
                    raise CorruptError("global indexes do not grow", place=self.place(position), kind="index_order")
                if payload is None:
                    if salt is not None:
                        raise CorruptError("salt without payload", place=self.place(position), kind="erasure")
                elif salt is None or len(payload) != length or sha256(salt + payload).digest() != digest:
                    raise CorruptError(
                        "payload is not what the header commits to", place=self.place(position), kind="digest"
                    )
                leaf = sha256(b"\x00" + header).digest()
                leaves.append(leaf)
                expected, last_index = position, index
        finally:
            self.leaf, self.position, self.index = leaf, expected, last_index
        return leaves

    def records(self, rows: Sequence[Row]) -> Iterator[Record]:
        """The rows as records, verified; those before a lie are given, then CorruptError is raised."""
        before = self.position
        fault = None
        try:
            self.walk(rows)
        except CorruptError as error:
            fault = error
        partition, incarnation, unpack = self.partition, self.incarnation, _shown.unpack_from
        for position, index, header, _salt, payload in rows[: self.position - before]:
            flags, fence, event_type, recorded_at_us, key_id = unpack(header)
            if flags & FLAG_ENCRYPTED and payload is not None:
                payload = self._decrypt(payload, position)  # noqa: PLW2901 the reader's record holds what was said
            yield Record(
                partition=partition,
                incarnation=incarnation,
                position=position,
                index=index,
                recorded_at_us=recorded_at_us,
                key_id=key_id,
                event_type=event_type,
                fence=fence,
                payload=payload,
            )
        if fault is not None:
            raise fault

    def _decrypt(self, payload: bytes, position: int) -> bytes | None:
        """The payload in clear; None when its key was destroyed, which is an erasure."""
        if self._keys is None:
            raise UnavailableError(f"the payload keys of {self.partition} are not here")
        key = self._keys(self.partition, self.incarnation)
        return None if key is None else key.decrypt(payload, position=position, place=self.place(position))

    def _order_error(self, position: int, expected: int) -> CorruptError:
        kind = "duplicate" if position < expected else "gap"
        return CorruptError(f"position {expected} expected, got {position}", place=self.place(expected), kind=kind)

    def _header_error(self, header: bytes, position: int) -> CorruptError:
        decoded = decode_header(header, place=self.place(position))
        if decoded.partition != self.partition or decoded.incarnation != self.incarnation:
            return CorruptError(
                "the entry belongs to another partition or incarnation",
                place=self.place(position),
                kind="foreign",
            )
        return CorruptError(f"the entry states position {decoded.position}", place=self.place(position), kind="order")


def place_of(partition: str, incarnation: bytes, position: int) -> str:
    """`partition/incarnation@position`.

    >>> place_of("conv-a", bytes(16), 7)
    'conv-a/00000000000000000000000000000000@7'
    """
    return f"{partition}/{incarnation.hex()}@{position}"
