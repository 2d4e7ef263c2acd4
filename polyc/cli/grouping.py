"""Appends of several conversations made durable together: one commit for a group instead of one for each.

The heads that come after each other within a group are chained here, so a group needs no answer in between. When the
journal has some of it already (an import that was interrupted), or somebody else appended to one of the partitions,
the group is appended one by one instead: append ids make that harmless.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from polyc import entry
from polyc.appending import Ack, Author, Head, JournalPort, SignedAppend, sign_append
from polyc.clock import Clock
from polyc.errors import ConflictError
from polyc.ids import IdSource, uuid7_bytes
from polyc.payloads import PayloadKey
from sources import Batch

APPENDS_PER_GROUP_MAX: Final = 64  # a group is lost as a whole by a crash, and read again
GROUP_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024  # well within one commit


class GroupPort(JournalPort, Protocol):
    """A journal that takes several appends in one go."""

    def append_many(self, appends: Sequence[SignedAppend]) -> list[Ack]:
        """Make them durable in this order; raises the first error among them."""

    def payload_key(self, partition: str, incarnation: bytes) -> PayloadKey | None:
        """The key that the incarnation's payloads are encrypted with, if they are (ruling 9)."""


class Group:
    """Collects appends of one author until there are enough of them."""

    def __init__(self, author: Author, port: GroupPort, *, clock: Clock, ids: IdSource) -> None:
        self._author = author
        self._port = port
        self._clock = clock
        self._ids = ids
        self._batches: list[tuple[str, Batch]] = []
        self._signed: list[SignedAppend] = []
        self._heads: dict[str, Head] = {}
        self._size_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to flush."""
        return len(self._signed) >= APPENDS_PER_GROUP_MAX or self._size_bytes >= GROUP_SIZE_BYTES_MAX

    def add(self, partition: str, batch: Batch) -> None:
        """Sign the batch behind what the group already holds of the partition."""
        head = self._head(partition, fresh=batch.new_incarnation)
        signed = sign_append(
            batch.drafts,
            head=head,
            origin=self._port.origin,
            signer=self._author.signer,
            append_id=batch.append_id,
            recorded_at_us=self._clock.now_us(),
            ids=self._ids,
            payload_key=self._port.payload_key(partition, head.incarnation),
        )
        last = entry.decode_header(signed.entries[-1].header, place=partition)
        leaf = entry.leaf_hash(signed.entries[-1].header)
        self._heads[partition] = Head(partition, last.incarnation, last.position, leaf)
        self._batches.append((partition, batch))
        self._signed.append(signed)
        self._size_bytes += sum(len(draft.payload) for draft in batch.drafts)

    def flush(self) -> None:
        """Make everything durable that was added; on a conflict one by one, in the same order."""
        batches, signed = self._batches, self._signed
        self._batches, self._signed, self._heads, self._size_bytes = [], [], {}, 0
        if not signed:
            return
        try:
            self._port.append_many(signed)
        except ConflictError:
            for partition, batch in batches:
                self._author.append(
                    partition, batch.drafts, append_id=batch.append_id, new_incarnation=batch.new_incarnation
                )

    def _head(self, partition: str, *, fresh: bool) -> Head:
        known = self._heads.get(partition) or self._port.head(partition)
        if known is not None and not fresh:
            return known
        incarnation = uuid7_bytes(self._clock, self._ids)
        return Head(partition, incarnation, 0, entry.genesis(self._port.origin, partition, incarnation))
