"""Looks at SQLite's write-ahead log before SQLite does (sqlite.org/fileformat2.html, section 4).

SQLite stops at the first frame whose checksum does not fit and forgets all behind it. For a torn tail that is right;
for a damaged frame with committed transactions behind it, acknowledged appends would vanish without a word. With
synchronous=FULL a transaction begins only when the one before it is on the disk: damage in any transaction but the
last cannot come from a torn write. The same holds of the header, which is on the disk before the first frame: without
a good one SQLite forgets the whole file.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC_LITTLE: Final = 0x377F0682
_MAGIC_BIG: Final = 0x377F0683
_PAGE_SIZE_AT: Final = 16  # sqlite.org/fileformat2.html, section 1.3.2
_PAGE_SIZE_MIN: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class WalReport:
    """What stands in a WAL: frames up to the last good commit, bytes of a commit that never ended, and damage.

    `interior_damage` is the number (from 1) of the first damaged frame that a later committed transaction follows; 0 is
    the header, when transactions follow it that the database does not hold.
    """

    committed_frames: int = 0
    torn_bytes: int = 0
    interior_damage: int | None = None


def inspect_wal(path: Path) -> WalReport:
    """Read the WAL without changing it; an absent or empty one is fine."""
    try:
        size_bytes = path.stat().st_size
    except FileNotFoundError:
        return WalReport()
    if size_bytes < _HEADER.size:
        return WalReport(torn_bytes=size_bytes)
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        magic, _version, page_size, _sequence, salt1, salt2, check1, check2 = _HEADER.unpack(head)
        order = ">" if magic == _MAGIC_BIG else "<"
        sums = _checksum(head[:24], order, 0, 0)
        if magic not in (_MAGIC_LITTLE, _MAGIC_BIG) or sums != (check1, check2):
            lost = _holds_more(file, path.with_name(path.name.removesuffix("-wal")))
            return WalReport(torn_bytes=size_bytes, interior_damage=0 if lost else None)
        walk = _Walk(order, (salt1, salt2), sums)
        frame_size = _FRAME.size + page_size
        while len(frame := file.read(frame_size)) == frame_size and walk.take(frame):
            pass
    cut_short = len(frame) % frame_size if walk.own == walk.frames else 0
    return WalReport(
        committed_frames=walk.committed,
        torn_bytes=(walk.own - walk.committed) * frame_size + cut_short,
        interior_damage=walk.damaged if walk.is_interior else None,
    )


class _Walk:
    """Follows the frames of the WAL's present life (its salts), past damage when later frames are whole."""

    def __init__(self, order: str, salts: tuple[int, int], sums: tuple[int, int]) -> None:
        self._order = order
        self._salts = salts
        self._sums = sums
        self.frames = 0
        self.own = 0  # the last frame that belongs to the file's present life
        self.committed = 0
        self.damaged: int | None = None
        self._damage_ends_transaction = False
        self._commits_after_damage = 0

    @property
    def is_interior(self) -> bool:
        """Whether a whole transaction follows the damaged one."""
        return self._commits_after_damage > (0 if self._damage_ends_transaction else 1)

    def take(self, frame: bytes) -> bool:
        """Judge the next frame; False at the first one of an earlier life of the file."""
        _page, commit_size, salt1, salt2, check1, check2 = _FRAME.unpack_from(frame)
        self.frames += 1
        sums = _checksum(frame[8 + 16 :], self._order, *_checksum(frame[:8], self._order, *self._sums))
        own = (salt1, salt2) == self._salts
        if own:
            self.own = self.frames
        if own and sums == (check1, check2):
            if commit_size and self.damaged is None:
                self.committed = self.frames
            elif commit_size:
                self._commits_after_damage += 1
        elif self.damaged is None:
            self.damaged = self.frames
            self._damage_ends_transaction = own and bool(commit_size)
        elif not own:
            return False
        self._sums = (check1, check2)  # a whole frame behind a damaged one fits the sums that one states
        return True


def _holds_more(wal: BinaryIO, database: Path) -> bool:
    """Whether whole transactions stand behind a header that is not one, with pages that the database does not hold.

    Such frames are also left behind by an earlier life of the file, whose header was being overwritten when the power
    failed; but that life was moved into the database before.
    """
    try:
        with database.open("rb") as pages:
            pages.seek(_PAGE_SIZE_AT)
            page_size = int.from_bytes(pages.read(2), "big")
            page_size = 65_536 if page_size == 1 else page_size
            return page_size >= _PAGE_SIZE_MIN and any(
                pages.seek((number - 1) * page_size) < 0 or pages.read(page_size) != content
                for number, content in _committed_pages(wal, page_size).items()
            )
    except FileNotFoundError:
        return False


def _committed_pages(wal: BinaryIO, page_size: int) -> dict[int, bytes]:
    """The last content of each page in whole transactions, when the header's word for order and sums is not to be had.

    The first frame is believed its sums; that the second and those after it follow from them is the evidence.
    """
    frame_size = _FRAME.size + page_size
    for order in "<>":
        committed: dict[int, bytes] = {}
        pending: dict[int, bytes] = {}
        before: tuple[bytes, int, int] | None = None  # salts and sums of the frame before
        wal.seek(_HEADER.size)
        while len(frame := wal.read(frame_size)) == frame_size:
            page, commit_size, _salt1, _salt2, check1, check2 = _FRAME.unpack_from(frame)
            if before is not None:
                sums = _checksum(frame[_FRAME.size :], order, *_checksum(frame[:8], order, *before[1:]))
                if frame[8:16] != before[0] or sums != (check1, check2):
                    break
            pending[page] = frame[_FRAME.size :]
            if commit_size and before is not None:
                committed |= pending
                pending = {}
            before = (frame[8:16], check1, check2)
        if committed:
            return committed
    return {}


def _checksum(data: bytes, order: str, first: int, second: int) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for i in range(0, len(words), 2):
        first = (first + words[i] + second) & 0xFFFFFFFF
        second = (second + words[i + 1] + first) & 0xFFFFFFFF
    return first, second
