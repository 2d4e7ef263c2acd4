"""The rows of an index beside the engine's files: the chunks themselves, in the order of their row numbers.

    <index>.rows    zstd frames of about 16 KiB, each: u32 count, count x u32 sizes, the records one after another
                    a table: for each frame, u32 its first row and u32 where it begins
                    u32 frames, u32 rows, the magic "polyrow1"

All numbers are little-endian. The engine keeps no text (it can only pack it with lz4, and it packed each text twice:
as said and as tokens); here a text costs a third of that. A record is a chunk without its id, which follows from it.
"""

import bisect
import mmap
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec
import zstandard

from polyc.errors import CorruptError
from polyc.limits import SEARCH_FRAMES_KEPT
from search.chunk import Chunk

MAGIC: Final = b"polyrow1"
_FRAME_BYTES: Final = 16 * 1024  # half of it is unpacked for one row: 25 us; larger frames are hardly smaller on disk
_LEVEL: Final = 3  # level 9 saves 4 % and costs four times as much
_FRAME_BYTES_MAX: Final = 64 * 1024 * 1024  # what a frame may unpack to: one monstrous record
_END: Final = struct.Struct("<II8s")


def encode_rows(chunks: Iterable[Chunk]) -> bytes:
    """The file of these rows; equal rows, equal bytes."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_content_size=True)
    out: list[bytes] = []
    table: list[int] = []
    waiting: list[bytes] = []
    size = at = rows = 0

    def close() -> None:
        nonlocal size, at
        frame = compressor.compress(
            struct.pack(f"<{len(waiting) + 1}I", len(waiting), *map(len, waiting)) + b"".join(waiting)
        )
        table.extend((rows - len(waiting), at))
        out.append(frame)
        waiting.clear()
        size, at = 0, at + len(frame)

    for chunk in chunks:
        record = _encode(chunk)
        waiting.append(record)
        size, rows = size + len(record), rows + 1
        if size >= _FRAME_BYTES:
            close()
    if waiting:
        close()
    out.append(struct.pack(f"<{len(table)}I", *table))
    out.append(_END.pack(len(table) // 2, rows, MAGIC))
    return b"".join(out)


class Rows:
    """The rows of a verified file; shared between threads. Keeps the frames it unpacked last."""

    def __init__(self, content: bytes | mmap.mmap, *, place: str) -> None:
        self._content = memoryview(content)
        self._place = place
        self._lock = threading.Lock()
        self._frames: OrderedDict[int, list[memoryview]] = OrderedDict()
        try:
            frames, self.count, magic = _END.unpack(self._content[-_END.size :])
            table = struct.unpack(f"<{2 * frames}I", self._content[-_END.size - 8 * frames : -_END.size])
        except struct.error:
            raise self._corrupt() from None
        if magic != MAGIC:
            raise self._corrupt()
        self._firsts = table[0::2]
        self._places = (*table[1::2], len(content) - _END.size - 8 * frames)

    def chunk(self, row: int) -> Chunk:
        """The chunk of a row."""
        number = bisect.bisect_right(self._firsts, row) - 1
        assert 0 <= row < self.count, "a row of this file"
        try:
            return _decode(self._frame(number)[row - self._firsts[number]])
        except (msgspec.DecodeError, zstandard.ZstdError, struct.error, IndexError):
            raise self._corrupt() from None

    def _frame(self, number: int) -> list[memoryview]:
        with self._lock:
            records = self._frames.get(number)
            if records is not None:
                self._frames.move_to_end(number)
                return records
        records = self._unpacked(number)
        with self._lock:
            self._frames[number] = records
            while len(self._frames) > SEARCH_FRAMES_KEPT:
                self._frames.popitem(last=False)
        return records

    def _unpacked(self, number: int) -> list[memoryview]:
        frame = self._content[self._places[number] : self._places[number + 1]]
        # A decompressor of its own: they are not for two threads at once.
        raw = memoryview(zstandard.ZstdDecompressor().decompress(frame, max_output_size=_FRAME_BYTES_MAX))
        (count,) = struct.unpack_from("<I", raw)
        at = 4 + 4 * count
        records = []
        for size in struct.unpack_from(f"<{count}I", raw, 4):
            records.append(raw[at : at + size])
            at += size
        return records

    def _corrupt(self) -> CorruptError:
        return CorruptError("search rows cannot be read", place=self._place, kind="rows")


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Chunk).decode
