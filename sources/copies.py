"""Whose record is a copy? (ruling 16): it belongs to the file with the earliest first own record.

Resuming or forking a session copies records into a new file. Between two files that hold copies of each other's
records, the earlier is the one whose lineage says so (Codex names its parents); else the one that has nothing of its
own, because all of it was copied; else the one whose first own record is earlier; else the smaller native id. The
answer depends on the files alone, not on the order in which they were imported. A deleted file keeps what it owned
(programs clean up their histories; the journal does not).
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cmp_to_key
from typing import Final

import msgspec

from polyc.ids import Partition
from sources.times import read_time

_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)  # of a deleted file whose times were never needed
_NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)


class Member(msgspec.Struct, frozen=True):
    """A file of a family: its records' keys in order, with their times as written."""

    path: str
    partition: str
    native_id: str
    depth: int  # how many ancestors it names
    keys: tuple[int, ...]
    times: tuple[str | None, ...]
    is_gone: bool = False  # the file was deleted: what it told is in the journal, and stays its own


class Share(msgspec.Struct, frozen=True):
    """What of a file belongs to others, and to whom."""

    foreign: frozenset[int] = frozenset()
    owners: tuple[tuple[Partition, str], ...] = ()

    @property
    def digest(self) -> str:
        """Tells whether what was left out is the same as before."""
        if not self.foreign:
            return ""
        digest = hashlib.sha256(repr(sorted(self.foreign)).encode())
        for owner, kind in self.owners:
            digest.update(f"\x1e{owner}\x1f{kind}".encode())
        return digest.hexdigest()[:32]


def shares(members: Sequence[Member]) -> dict[str, Share]:
    """What each file of a family must leave out, by path."""
    held = {member.path: frozenset(member.keys) for member in members}

    def compare(a: Member, b: Member) -> int:
        return _compare(a, b, held)

    by_name = sorted(members, key=lambda member: (member.native_id, member.path))
    ordered = sorted(by_name, key=cmp_to_key(compare))
    owner: dict[int, Member] = {}
    for member in ordered:
        for key in member.keys:
            owner.setdefault(key, member)
    return {member.path: _share(member, owner, held) for member in members}


def _share(member: Member, owner: dict[int, Member], held: dict[str, frozenset[int]]) -> Share:
    foreign = [key for key in member.keys if owner[key].partition != member.partition]
    owners = dict.fromkeys(owner[key].path for key in foreign)
    by_path = {owner[key].path: Partition(owner[key].partition) for key in foreign}
    return Share(
        frozenset(foreign),
        tuple((by_path[path], "resume" if held[path] <= held[member.path] else "fork") for path in owners),
    )


def _compare(a: Member, b: Member, held: dict[str, frozenset[int]]) -> int:
    if a.depth != b.depth:
        return a.depth - b.depth
    first_a, first_b = _first_own(a, held[b.path]), _first_own(b, held[a.path])
    if first_a != first_b:
        if first_a is None or first_b is None:
            return -1 if first_a is None else 1
        return -1 if first_a < first_b else 1
    return -1 if (a.native_id, a.path) < (b.native_id, b.path) else 1


def _first_own(member: Member, others: frozenset[int]) -> datetime | None:
    """When the first record was written that the other file does not hold; None when it holds them all."""
    for key, stamp in zip(member.keys, member.times, strict=True):
        if key not in others:
            return read_time(stamp).at or (_LONG_AGO if member.is_gone else _NEVER)
    return None
