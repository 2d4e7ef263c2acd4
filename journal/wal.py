"""Looks at SQLite's write-ahead log before SQLite does (sqlite.org/fileformat2.html, section 4).

SQLite stops at the first frame whose checksum does not fit and forgets all behind it. For a torn tail that is right;
for a damaged frame with committed transactions behind it, acknowledged appends would vanish without a word. With
synchronous=FULL a transaction begins only when the one before it is on the disk: damage in any transaction but the
last cannot come from a torn write.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC_LITTLE: Final = 0x377F0682
_MAGIC_BIG: Final = 0x377F0683


@dataclass(frozen=True, slots=True, kw_only=True)
class WalReport:
    """What stands in a WAL: frames up to the last good commit, bytes of a commit that never ended, and damage.

    `interior_damage` is the number (from 1) of the first damaged frame that a later committed transaction follows.
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
        if magic not in (_MAGIC_LITTLE, _MAGIC_BIG):
            return WalReport(torn_bytes=size_bytes)
        order = ">" if magic == _MAGIC_BIG else "<"
        sums = _checksum(head[:24], order, 0, 0)
        if sums != (check1, check2):
            return WalReport(torn_bytes=size_bytes)
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


def _checksum(data: bytes, order: str, first: int, second: int) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for i in range(0, len(words), 2):
        first = (first + words[i] + second) & 0xFFFFFFFF
        second = (second + words[i + 1] + first) & 0xFFFFFFFF
    return first, second
