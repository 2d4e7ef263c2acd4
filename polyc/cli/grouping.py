"""Appends of several conversations made durable together: one commit for a group instead of one for each.

The heads that come after each other within a group are chained here, so a group needs no answer in between. When the
journal has some of it already (an import that was interrupted), or somebody else appended to one of the partitions,
the group is appended one by one instead: append ids make that harmless.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from polyc import entry
from polyc.appending import Ack, Author, Draft, Head, JournalPort, SignedAppend, sign_append
from polyc.clock import Clock
from polyc.errors import ConflictError
from polyc.ids import IdSource, uuid7_bytes
from polyc.payloads import PayloadKey

APPENDS_PER_GROUP_MAX: Final = 64  # a group is lost as a whole by a crash, and read again
GROUP_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024  # well within one commit


class GroupPort(JournalPort, Protocol):
    """A journal that takes several appends in one go."""

    def append_many(self, appends: Sequence[SignedAppend]) -> list[Ack]:
        """Make them durable in this order; raises the first error among them."""

    def payload_key(self, partition: str, incarnation: bytes) -> PayloadKey | None:
        """The key that the incarnation's payloads are encrypted with, if they are (ruling 9)."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An append of a group, as it can be made again by itself."""

    author: Author
    partition: str
    drafts: Sequence[Draft]
    append_id: bytes
    new_incarnation: bool

    def append(self) -> Ack:
        return self.author.append(
            self.partition, self.drafts, append_id=self.append_id, new_incarnation=self.new_incarnation
        )


class Group:
    """Collects appends, of one author or of several, until there are enough of them."""

    def __init__(self, port: GroupPort, *, clock: Clock, ids: IdSource) -> None:
        self._port = port
        self._clock = clock
        self._ids = ids
        self._waiting: list[_Waiting] = []
        self._signed: list[SignedAppend] = []
        self._heads: dict[str, Head] = {}
        self._size_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to flush."""
        return len(self._signed) >= APPENDS_PER_GROUP_MAX or self._size_bytes >= GROUP_SIZE_BYTES_MAX

    def add(
        self,
        author: Author,
        partition: str,
        drafts: Sequence[Draft],
        *,
        append_id: bytes,
        new_incarnation: bool = False,
    ) -> Head:
        """Sign the drafts behind what the group already holds of the partition; the head that they make."""
        head, replaces = self._behind(partition, fresh=new_incarnation)
        signed = sign_append(
            drafts,
            head=head,
            origin=self._port.origin,
            signer=author.signer,
            append_id=append_id,
            recorded_at_us=self._clock.now_us(),
            ids=self._ids,
            replaces=replaces,
            payload_key=self._port.payload_key(partition, head.incarnation),
        )
        leaf = entry.leaf_hash(signed.entries[-1].header)
        made = Head(partition, head.incarnation, head.position + len(drafts), leaf)
        self._heads[partition] = made
        self._waiting.append(_Waiting(author, partition, drafts, append_id, new_incarnation))
        self._signed.append(signed)
        self._size_bytes += sum(len(draft.payload) for draft in drafts)
        return made

    def flush(self) -> dict[str, Head]:
        """Make everything durable that was added, on a conflict one by one in the same order; the heads then."""
        waiting, signed, heads = self._waiting, self._signed, self._heads
        self._waiting, self._signed, self._heads, self._size_bytes = [], [], {}, 0
        if not signed:
            return {}
        try:
            self._port.append_many(signed)
        except ConflictError:
            return {one.partition: one.append().head for one in waiting}
        return heads

    def _behind(self, partition: str, *, fresh: bool) -> tuple[Head, bytes]:
        """The head to chain to, and the incarnation it takes over from (empty unless it starts afresh)."""
        known = self._heads.get(partition) or self._port.head(partition)
        if known is not None and not fresh:
            return known, b""
        incarnation = uuid7_bytes(self._clock, self._ids)
        first = Head(partition, incarnation, 0, entry.genesis(self._port.origin, partition, incarnation))
        return first, b"" if known is None else known.incarnation
