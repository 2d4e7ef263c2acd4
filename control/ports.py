"""What Control is given: the journal, to append and to read on from where it was, and the redaction of secrets."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from journal.port import PartitionHead, SignedRecords
from polyc.appending import JournalPort
from polyc.entry import Record


class JournalPlane(JournalPort, Protocol):
    """The journal as Control sees it: the embedded store and the gRPC client both are one."""

    def size(self) -> int:
        """The number of sealed entries."""

    def read_all(self, *, from_index: int, to_index: int | None = None) -> Iterator[Record]:
        """Sealed records by global log index, verified while they are read."""

    def read(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[Record]:
        """The current incarnation of a partition in order, verified."""

    def read_signed(self, partition: str, *, from_position: int = 1) -> Iterator[SignedRecords]:
        """The same append by append, each with its author's signature."""

    def changed_since(self, index: int) -> Iterable[PartitionHead]:
        """The partitions that got entries with a global index of at least `index`."""

    def receipt(self, partition: str, position: int, *, incarnation: bytes | None = None) -> str:
        """The log's proof of one entry (C2SP tlog-proof), under the newest cosigned checkpoint that covers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionPolicy:
    """How secrets are struck out of payloads before they are appended (ruling 18): the journal never forgets.

    `clean` gives the payloads back, in their order, with everything struck that the policy names.
    """

    policy: str
    version: str
    clean: Callable[[list[bytes]], list[bytes]]
