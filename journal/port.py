"""What a reader sees of the journal: the embedded store, the read-only store and the gRPC client all are one.

Only sealed entries are ever read: index < size of the latest checkpoint. `read` and `read_all` verify while they read
(digest, leaf chain, position, order: level V1) and stop at the first lie with its place.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from polyc.entry import Record
from polyc.keyring import KeyRing


class PartitionHead(msgspec.Struct, frozen=True, gc=False):
    """Where the current incarnation of a partition stands; indexes are of the global log."""

    partition: str
    incarnation: bytes
    position: int
    leaf: bytes
    first_index: int
    last_index: int


class RawEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry as stored: what is hashed and signed. `payload` and `salt` are None when erased.

    `signature` is the author's, and stands at the last entry of its append; elsewhere it is empty.
    """

    index: int
    header: bytes
    salt: bytes | None
    payload: bytes | None
    signature: bytes = b""


class SignedRecords(msgspec.Struct, frozen=True, gc=False):
    """Records of one append, and what its author signed: the append's last leaf, which chains the others."""

    records: list[Record]
    leaf: bytes
    signature: bytes


class Opened(msgspec.Struct, frozen=True):
    """What the running writer found when it opened the journal.

    `torn_bytes` were cut off the write-ahead log: a commit that never ended, acknowledged to nobody.
    """

    size: int
    torn_bytes: int


class JournalReader(Protocol):
    """The journal as readers see it."""

    @property
    def origin(self) -> str:
        """The log's name."""

    def size(self) -> int:
        """The size of the latest checkpoint: how many entries are sealed."""

    def checkpoint(self) -> str:
        """The latest checkpoint: a signed note."""

    def partitions(self) -> list[PartitionHead]:
        """The current incarnation of every partition, by name."""

    def changed_since(self, index: int) -> list[PartitionHead]:
        """The partitions that got entries with a global index of at least `index`."""

    def opening(self, head: PartitionHead) -> tuple[int, bytes | None]:
        """When the first entry of an incarnation was recorded (us), and its payload; not verified, and cheap.

        For who must plan before anything is read: what it says is believed when the same comes out of `read`.
        """

    def read(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[Record]:
        """One incarnation (the current one) in order, verified; nothing beyond the global index `through_index`."""

    def read_batches(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[list[Record]]:
        """The records of `read` in non-empty lists, each wholly verified before it is handed out.

        Those before a lie come as a shorter list, then CorruptError. A list holds at most READ_CHUNK_ROWS_MAX records
        and those of one append more.
        """

    def read_all(self, *, from_index: int, to_index: int | None = None) -> Iterator[Record]:
        """Every entry with from_index <= index < to_index in the order of the log, verified."""

    def read_raw(
        self, partition: str, *, incarnation: bytes | None = None, from_position: int = 1
    ) -> Iterator[RawEntry]:
        """One incarnation as stored, with the authors' signatures; verified like `read`."""

    def read_signed(self, partition: str, *, from_position: int = 1) -> Iterator[SignedRecords]:
        """The current incarnation append by append, verified like `read`, each with its author's signature.

        The signature itself is not verified: that is for who asks for it (journal/vouched.py).
        """

    def wait_beyond(self, size: int, timeout_s: float) -> int:
        """Block until the checkpoint's size is greater than `size`, or the time is over; the size now."""

    def keyring(self) -> KeyRing:
        """The keys that `sys-keys` names, each event verified against the root key."""
