r"""The journal's entry: header bytes, leaf, digests, append signature (journal.md, "Bytes").

    header   magic "PJE1" | flags u16 | fence 16 | event_type u16 | position u64 | recorded_at_us i64
             | incarnation 16 | append_id 16 | author key_id 8 | prev 32 | payload_digest 32 | payload_len u32
             | partition_len u8 | partition UTF-8                                      (big-endian, 149 bytes + name)
    digest   SHA-256(salt16 ‖ payload)
    leaf     SHA-256(0x00 ‖ header)                      the RFC 6962 leaf hash and the next entry's prev
    genesis  SHA-256("polychrome/journal/genesis/v1\n" origin "\n" partition "\n" incarnation)
    author   Ed25519("polychrome/journal/append/v1\n" origin "\n" last_leaf)         one per append

What is stored is what is hashed, never re-encoded. The genesis preimage holds the incarnation's 16 raw bytes.
"""

import hashlib
import struct
from collections.abc import Sequence
from functools import cache
from typing import Final

import msgspec

from polyc.errors import CorruptError

MAGIC: Final = b"PJE1"
GENESIS_DOMAIN: Final = b"polychrome/journal/genesis/v1\n"
APPEND_DOMAIN: Final = b"polychrome/journal/append/v1\n"
NO_FENCE: Final = bytes(16)
SALT_SIZE_BYTES: Final = 16

FLAG_ENCRYPTED: Final = 1
FLAG_LAST: Final = 2
FLAG_CLOSES_FENCE: Final = 4
FLAGS_KNOWN: Final = FLAG_ENCRYPTED | FLAG_LAST | FLAG_CLOSES_FENCE

_FIXED: Final = struct.Struct(">4sH16sHQq16s16s8s32s32sIB")
HEADER_FIXED_SIZE_BYTES: Final = _FIXED.size
assert HEADER_FIXED_SIZE_BYTES == 149


class Header(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The decoded header; `encode_header` gives back exactly the bytes it came from."""

    flags: int
    fence: bytes
    event_type: int
    position: int
    recorded_at_us: int
    incarnation: bytes
    append_id: bytes
    key_id: bytes
    prev: bytes
    payload_digest: bytes
    payload_size_bytes: int
    partition: str


class Record(msgspec.Struct, frozen=True, gc=False):
    """An event as readers get it from the journal: where it stands, who signed it, and the author's bytes.

    `payload` is None when the event was erased; `index` is the global log index (0-based).
    """

    partition: str
    incarnation: bytes
    position: int
    index: int
    recorded_at_us: int
    key_id: bytes
    event_type: int
    fence: bytes
    payload: bytes | None


def encode_header(header: Header) -> bytes:
    """The header's bytes; ValueError (our bug) when a field does not fit."""
    name = header.partition.encode()
    return (
        _FIXED.pack(
            MAGIC,
            header.flags,
            header.fence,
            header.event_type,
            header.position,
            header.recorded_at_us,
            header.incarnation,
            header.append_id,
            header.key_id,
            header.prev,
            header.payload_digest,
            header.payload_size_bytes,
            len(name),
        )
        + name
    )


class HeaderTemplate:
    """What the headers of one append share, laid out once; gives the same bytes as `encode_header`."""

    __slots__ = ("_author", "_fence", "_pack", "_tail")

    def __init__(
        self,
        *,
        fence: bytes,
        recorded_at_us: int,
        incarnation: bytes,
        append_id: bytes,
        key_id: bytes,
        partition: str,
    ) -> None:
        name = partition.encode()
        self._fence = fence
        self._author = struct.pack(">q16s16s8s", recorded_at_us, incarnation, append_id, key_id)
        self._tail = struct.pack(">B", len(name)) + name
        self._pack = _in_pieces(len(self._tail)).pack

    def chain(
        self,
        flags: Sequence[int],
        event_types: Sequence[int],
        salted: Sequence[bytes],
        *,
        position: int,
        prev: bytes,
    ) -> tuple[list[bytes], bytes]:
        """The headers of events from a position on, each chained to the one before, and the last leaf.

        `salted` is salt ‖ payload of each event.
        """
        sha256, pack = hashlib.sha256, self._pack
        fence, author, tail = self._fence, self._author, self._tail
        digests = [sha256(item).digest() for item in salted]
        headers = []
        for number, digest in enumerate(digests):
            header = pack(
                MAGIC,
                flags[number],
                fence,
                event_types[number],
                position + number,
                author,
                prev,
                digest,
                len(salted[number]) - SALT_SIZE_BYTES,
                tail,
            )
            headers.append(header)
            prev = sha256(b"\x00" + header).digest()
        return headers, prev


@cache
def _in_pieces(tail_size: int) -> struct.Struct:
    """A header as `chain` lays it out; 256 lengths of a name exist."""
    return struct.Struct(f">4sH16sHQ48s32s32sI{tail_size}s")


def decode_header(data: bytes, *, place: str) -> Header:
    """The header of these bytes; CorruptError for anything but a canonical header."""
    if len(data) < HEADER_FIXED_SIZE_BYTES:
        raise CorruptError("header is cut short", place=place, kind="header")
    fields = _FIXED.unpack_from(data)
    (
        magic,
        flags,
        fence,
        event_type,
        position,
        recorded_at_us,
        incarnation,
        append_id,
        key_id,
        prev,
        digest,
        size,
        length,
    ) = fields
    if magic != MAGIC:
        raise CorruptError("header magic is not PJE1", place=place, kind="header")
    if flags & ~FLAGS_KNOWN or position == 0 or len(data) != HEADER_FIXED_SIZE_BYTES + length:
        raise CorruptError("header has unknown flags, position 0 or a wrong length", place=place, kind="header")
    try:
        partition = data[HEADER_FIXED_SIZE_BYTES:].decode("ascii")
    except UnicodeDecodeError:
        raise CorruptError("partition name is not ASCII", place=place, kind="header") from None
    return Header(
        flags=flags,
        fence=fence,
        event_type=event_type,
        position=position,
        recorded_at_us=recorded_at_us,
        incarnation=incarnation,
        append_id=append_id,
        key_id=key_id,
        prev=prev,
        payload_digest=digest,
        payload_size_bytes=size,
        partition=partition,
    )


def leaf_hash(header: bytes) -> bytes:
    """RFC 6962 §2.1: the hash of a leaf, and the `prev` of the partition's next entry."""
    return hashlib.sha256(b"\x00" + header).digest()


def payload_digest(salt: bytes, payload: bytes) -> bytes:
    """SHA-256 of the 16-byte salt and the payload."""
    return hashlib.sha256(salt + payload).digest()


def genesis(origin: str, partition: str, incarnation: bytes) -> bytes:
    """The `prev` of the first entry of an incarnation."""
    return hashlib.sha256(GENESIS_DOMAIN + origin.encode() + b"\n" + partition.encode() + b"\n" + incarnation).digest()


def append_preimage(origin: str, last_leaf: bytes) -> bytes:
    """What an author signs: the log and the last leaf of the append (which chains all before it)."""
    return APPEND_DOMAIN + origin.encode() + b"\n" + last_leaf
