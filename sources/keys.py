"""Keys of records: 63 bits, by which copies are found (`sources.copies`)."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, Self


class Keys(Protocol):
    """The keys of a file's records that other files may hold copies of, with their times as written (empty: none)."""

    def fresh(self) -> Iterable[tuple[int, bytes]]:
        """Those of the lines that were written since the last time, in order; the first time all of them."""


class NoKeys:
    """Of files whose records are never copied."""

    def __init__(self, _path: Path) -> None:
        """Nothing is read."""

    def fresh(self) -> Iterable[tuple[int, bytes]]:
        """There are none."""
        return ()


def record_key(name: bytes) -> int:
    """The key of a record that has a name of its own (a uuid)."""
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1


class KeyChain:
    """Keys of records without names: each is a digest of all records so far, begun with a seed."""

    def __init__(self, seed: str, *, digest: "hashlib._Hash | None" = None) -> None:
        self._digest = digest or hashlib.sha256(seed.encode("utf-8", "replace"))

    def copy(self) -> Self:
        """Another one that goes on from here."""
        return type(self)("", digest=self._digest.copy())

    def key(self, record: bytes) -> int:
        """The next record's key."""
        self._digest.update(len(record).to_bytes(8, "big"))
        self._digest.update(record)
        return int.from_bytes(self._digest.digest()[:8], "big") >> 1
