"""The stored form of an append: one row of the `append` table, its entries in one body.

    row     idx (of its first entry) | pid | position (of its first entry) | n | append_id | sig | form | body
    content [1 erased bitmap: ⌈n/8⌉ bytes, bit i%8 of byte i/8 for entry i] ‖ header × n ‖ (salt 16 ‖ payload) × n
    form    +1 the body is the content's zstd frame (RFC 8878), else the content     +2 the bitmap is there

An erased entry has neither salt nor payload. Every header of an append has one length (it ends with the partition's
name), payload lengths stand in the headers. What is hashed is what comes out, byte for byte; the form itself is no
evidence, so nothing is believed of it: a frame states its size, which is bounded before a byte is decompressed.
"""

import hashlib
import struct
import threading
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, Final

import msgspec
import zstandard

from polyc.entry import FLAG_LAST, HEADER_FIXED_SIZE_BYTES, SALT_SIZE_BYTES
from polyc.errors import CorruptError
from polyc.limits import COMPRESSED_SIZE_BYTES_MIN, EVENTS_PER_APPEND_MAX, STORED_APPEND_SIZE_BYTES_MAX

COLUMNS: Final = "idx, position, n, append_id, sig, form, body"  # of a Stored, in its order
PLAIN: Final = 0
COMPRESSED: Final = 1
WITH_ERASED: Final = 2
COMPRESSION_LEVEL: Final = 1  # measured on the corpus: level 3 saves 4 % of the bytes for a quarter more time
SIGNATURE_SIZE_BYTES: Final = 64


class Run(msgspec.Struct, frozen=True, gc=False):
    """Entries that follow each other in one incarnation and in the log, taken apart column by column.

    `salted` holds salt ‖ payload of each entry, None for an erased one; `index` is the first entry's.
    """

    index: int
    headers: list[bytes]
    salted: list[bytes | None]
    magics: tuple[bytes, ...]
    flags: tuple[int, ...]
    fences: tuple[bytes, ...]
    event_types: tuple[int, ...]
    positions: tuple[int, ...]
    recorded_at_us: tuple[int, ...]
    incarnations: tuple[bytes, ...]
    append_ids: tuple[bytes, ...]
    key_ids: tuple[bytes, ...]
    prevs: tuple[bytes, ...]
    digests: tuple[bytes, ...]
    sizes: tuple[int, ...]
    names: tuple[bytes, ...]

    def payload(self, number: int) -> bytes | None:
        """The payload of one entry as stored; None when it was erased."""
        salted = self.salted[number]
        return None if salted is None else salted[SALT_SIZE_BYTES:]

    def salt(self, number: int) -> bytes | None:
        """The salt of one entry; None when it was erased."""
        salted = self.salted[number]
        return None if salted is None else salted[:SALT_SIZE_BYTES]


class Stored(msgspec.Struct, frozen=True, gc=False):
    """A row of the `append` table, not yet believed."""

    index: int
    position: int
    count: int
    append_id: bytes
    signature: bytes
    form: int
    body: bytes

    def open(self, where: str) -> Run:
        """The append's entries; CorruptError at `where@position` when the row is not one append's.

        1. The content is n headers and what they state. 2. The row stands where its first entry says. 3. Only the last
        entry is marked as last, and all carry the row's append id.
        """
        # 1.
        content, erased = self._content(where)
        size = _header_size(content)
        start = size * self.count
        if len(content) < start or erased >> self.count:
            raise self._misshapen(where, 0)
        run = _run(self.index, content[:start], size=size)
        lengths = [SALT_SIZE_BYTES + length for length in run.sizes]
        if erased:
            lengths = [0 if erased >> number & 1 else length for number, length in enumerate(lengths)]
        ends = list(accumulate(lengths, initial=start))
        run.salted.extend([content[start:stop] if stop > start else None for start, stop in pairwise(ends)])
        if ends[-1] != len(content):
            raise self._misshapen(where, _first_misfit(run))
        # 2.
        if run.positions[0] != self.position:
            detail = f"the row is for position {self.position}, its first entry says {run.positions[0]}"
            raise CorruptError(detail, place=f"{where}@{self.position}", kind="order")
        # 3.
        last = self.count - 1
        if run.append_ids.count(self.append_id) != self.count or not _ends_once(run.flags):
            odd = (
                number
                for number in range(self.count)
                if run.append_ids[number] != self.append_id or bool(run.flags[number] & FLAG_LAST) != (number == last)
            )
            place = f"{where}@{self.position + next(odd)}"
            raise CorruptError("the entry is not of the append in whose row it stands", place=place, kind="append")
        return run

    def opening(self, where: str) -> tuple[int, int, bytes | None]:
        """What the first entry says of itself: flags, recorded_at_us, payload as stored (None: erased)."""
        content, erased = self._content(where)
        size = _header_size(content)
        if len(content) < size:
            raise self._misshapen(where, 0)
        fields = _layouts(size)[1].unpack_from(content)
        start = size * self.count + SALT_SIZE_BYTES
        return fields[1], fields[5], None if erased & 1 else content[start : start + fields[11]]

    def headers(self, where: str) -> list[bytes]:
        """What stands where the headers should, however wrong: the tree's leaves are these."""
        content, _erased = self._content(where)
        size = _header_size(content)
        return [content[size * number : size * (number + 1)] for number in range(self.count)]

    def without(self, positions: Sequence[int] | None, *, where: str) -> tuple[int, bytes]:
        """Form and body with the salts and payloads of these positions (None: of all) gone."""
        run = self.open(where)
        salted = [
            None if positions is None or self.position + number in positions else item
            for number, item in enumerate(run.salted)
        ]
        return encode_body(run.headers, salted)

    def _content(self, where: str) -> tuple[bytes, int]:
        """The content behind the bitmap, and the bitmap as a number."""
        form, content = self.form, self.body
        # SQLite looks at a STRICT table's types when it writes: an edited page may hold anything.
        if not (type(form) is type(self.count) is int and type(content) is type(self.signature) is bytes):
            raise self._misshapen(where, 0)
        if not 0 <= form <= COMPRESSED | WITH_ERASED or not 1 <= self.count <= EVENTS_PER_APPEND_MAX:
            raise self._misshapen(where, 0)
        if len(self.signature) != SIGNATURE_SIZE_BYTES:
            place = f"{where}@{self.position}"
            raise CorruptError("the row's signature is not 64 bytes", place=place, kind="signature")
        if form & COMPRESSED:
            content = _decompressed(content, place=f"{where}@{self.position}")
        if not form & WITH_ERASED:
            return content, 0
        size = _bitmap_size(self.count)
        return content[size:], int.from_bytes(content[:size], "little")

    def _misshapen(self, where: str, number: int) -> CorruptError:
        place = f"{where}@{self.position + number}"
        return CorruptError("the stored append has another shape than its row says", place=place, kind="body")


def encode_body(
    headers: Sequence[bytes], salted: Sequence[bytes | None], *, compress: bool = True
) -> tuple[int, bytes]:
    """Form and body of an append. `compress` is for those to whom it is worth a try; it is kept when it is smaller."""
    form = PLAIN
    kept = [item for item in salted if item is not None]
    content = b"".join((*headers, *kept))
    if len(kept) != len(salted):
        form = WITH_ERASED
        bits = sum(1 << number for number, item in enumerate(salted) if item is None)
        content = bits.to_bytes(_bitmap_size(len(salted)), "little") + content
    if compress and len(content) >= COMPRESSED_SIZE_BYTES_MIN:
        packed = _CODEC.compressor.compress(content)
        if len(packed) < len(content):
            return form | COMPRESSED, packed
    return form, content


def run_of(headers: Sequence[bytes], salted: Sequence[bytes | None]) -> Run | None:
    """Entries that came one by one as a run without an index; None when their headers differ in length."""
    size = len(headers[0])
    if size < HEADER_FIXED_SIZE_BYTES or any(len(header) != size for header in headers):
        return None
    run = _run(0, b"".join(headers), size=size)
    run.salted.extend(salted)
    return run


def _decompressed(body: bytes, *, place: str) -> bytes:
    """The content of a zstd frame that states its size; never more than an append can have."""
    try:
        size = zstandard.frame_content_size(body)
        if not 0 < size <= STORED_APPEND_SIZE_BYTES_MAX:
            raise CorruptError(
                f"the stored append claims to unpack to {size} bytes; at most {STORED_APPEND_SIZE_BYTES_MAX} can be",
                place=place,
                kind="body",
            )
        return _CODEC.decompressor.decompress(body, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError:
        raise CorruptError("the stored append does not unpack", place=place, kind="body") from None


def _header_size(content: bytes) -> int:
    """The length of the first header, which all share; of less than one header, as if it had no name."""
    return HEADER_FIXED_SIZE_BYTES + (content[HEADER_FIXED_SIZE_BYTES - 1 : HEADER_FIXED_SIZE_BYTES] or b"\x00")[0]


def _run(index: int, block: bytes, *, size: int) -> Run:
    headers, fields = _layouts(size)
    columns: list[Any] = list(zip(*fields.iter_unpack(block), strict=True))
    return Run(index, [header for (header,) in headers.iter_unpack(block)], [], *columns)


def _ends_once(flags: tuple[int, ...]) -> bool:
    """Whether the last one, and no other, is marked as last of its append."""
    return bool(flags[-1] & FLAG_LAST) and not any(flag & FLAG_LAST for flag in set(flags[:-1]))


def _first_misfit(run: Run) -> int:
    """Which entry's stated length made the others not fit: the first that is not what it commits to."""
    for number, item in enumerate(run.salted):
        length = SALT_SIZE_BYTES + run.sizes[number]
        if item is not None and (len(item) != length or hashlib.sha256(item).digest() != run.digests[number]):
            return number
    return 0


@cache
def _layouts(size: int) -> tuple[struct.Struct, struct.Struct]:
    """A header of this length as one piece, and field by field (polyc/entry.py); 256 lengths exist."""
    name_size = size - HEADER_FIXED_SIZE_BYTES + 1
    return struct.Struct(f"{size}s"), struct.Struct(f">4sH16sHQq16s16s8s32s32sI{name_size}s")


def _bitmap_size(count: int) -> int:
    return (count + 7) // 8


class _Codec(threading.local):
    """zstd's contexts, which one thread at a time may use."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(COMPRESSION_LEVEL, write_content_size=True, write_checksum=False)
        self.decompressor = zstandard.ZstdDecompressor()


_CODEC: Final = _Codec()
