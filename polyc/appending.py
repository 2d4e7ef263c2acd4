"""How an author appends: it knows the head, builds and signs the headers itself (ruling 1).

`JournalPort` is the journal as an author sees it: the embedded store, the gRPC client and the in-memory model all
are one. `Author` is a key with a port: it turns drafts into a signed append and retries when the caller said ANY.
Nothing here knows what a payload means.
"""

from collections.abc import Sequence
from enum import Enum
from operator import add
from typing import Final, Protocol

import msgspec

from polyc import entry
from polyc.clock import Clock
from polyc.errors import ConflictError
from polyc.ids import UUID7_CHANCE_SIZE_BYTES, IdSource, check_partition, uuid7_bytes, uuid7_of
from polyc.limits import EVENTS_PER_APPEND_MAX, PAYLOAD_SIZE_BYTES_MAX
from polyc.payloads import NONCE_SIZE_BYTES, PayloadKey, PayloadKeys
from polyc.signing import Signer, SignerSource

ANY_RETRIES_MAX: Final = 64  # each retry lost a race to somebody's progress; more means a livelock worth telling


class Expected(Enum):
    """What the author expects of the partition; an int expects that last position."""

    ANY = "any"
    NEW = "new"


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An event before it has a place: its type's number and its bytes."""

    event_type: int
    payload: bytes
    closes_fence: bool = False


class Head(msgspec.Struct, frozen=True):
    """Where a partition stands: current incarnation, last position (0 = none yet) and the leaf there (or genesis)."""

    partition: str
    incarnation: bytes
    position: int
    leaf: bytes


class SignedEntry(msgspec.Struct, frozen=True, gc=False):
    """One entry as it goes over the wire and onto disk."""

    header: bytes
    salt: bytes
    payload: bytes


class SignedAppend(msgspec.Struct, frozen=True):
    """Up to 1000 entries of one partition under one author's signature.

    `replaces` names the incarnation that a new one takes over from (empty: the partition must be new or go on), so
    that two authors who both found nothing cannot start the partition twice.
    """

    partition: str
    append_id: bytes
    key_id: bytes
    signature: bytes
    entries: tuple[SignedEntry, ...]
    replaces: bytes = b""


class Ack(msgspec.Struct, frozen=True):
    """Durable and sealed: where the append stands and the checkpoint note that covers it.

    `repeated` tells that the same append had been acknowledged before.
    """

    first_index: int
    first_position: int
    last_position: int
    head: Head
    checkpoint: str
    repeated: bool = False


class JournalPort(Protocol):
    """The journal as authors see it."""

    @property
    def origin(self) -> str:
        """The log's name (C2SP origin line)."""

    def head(self, partition: str) -> Head | None:
        """The partition's head, or None when nothing was ever appended."""

    def append(self, signed: SignedAppend) -> Ack:
        """Make it durable and sealed.

        Raises ConflictError, IdempotencyConflictError, RefusedError or UnavailableError.
        """


def sign_append(
    drafts: Sequence[Draft],
    *,
    head: Head,
    origin: str,
    signer: Signer,
    append_id: bytes | None = None,
    recorded_at_us: int,
    ids: IdSource,
    fence: bytes = entry.NO_FENCE,
    replaces: bytes = b"",
    payload_key: PayloadKey | None = None,
) -> SignedAppend:
    """Chain the drafts to the head and sign the last leaf; with a key, what is stored and signed is encrypted.

    Without an append id it gets a fresh one, a UUIDv7: of one draw with the salts, because each draw is a system call
    that gives Python's lock away.
    """
    count, first = len(drafts), head.position + 1
    assert 1 <= count <= EVENTS_PER_APPEND_MAX, "an append has 1 to 1000 events"
    payloads = [draft.payload for draft in drafts]
    assert max(map(len, payloads)) <= PAYLOAD_SIZE_BYTES_MAX, "larger payloads go by digest"
    flags = [entry.FLAG_CLOSES_FENCE if draft.closes_fence else 0 for draft in drafts]
    flags[-1] |= entry.FLAG_LAST
    if payload_key is not None:
        flags = [each | entry.FLAG_ENCRYPTED for each in flags]
        payloads = [
            payload_key.encrypt(payload, position=position, nonce=ids.token(NONCE_SIZE_BYTES))
            for position, payload in enumerate(payloads, start=first)
        ]
    salts_size = entry.SALT_SIZE_BYTES * count
    chance = ids.token(salts_size if append_id else salts_size + UUID7_CHANCE_SIZE_BYTES)
    append_id = append_id or uuid7_of(recorded_at_us, chance[salts_size:])
    salts = [chance[at : at + entry.SALT_SIZE_BYTES] for at in range(0, salts_size, entry.SALT_SIZE_BYTES)]
    template = entry.HeaderTemplate(
        fence=fence,
        recorded_at_us=recorded_at_us,
        incarnation=head.incarnation,
        append_id=append_id,
        key_id=signer.key_id,
        partition=head.partition,
    )
    headers, leaf = template.chain(
        flags,
        [draft.event_type for draft in drafts],
        list(map(add, salts, payloads)),
        position=first,
        prev=head.leaf,
    )
    signature = signer.sign(entry.append_preimage(origin, leaf))
    entries = tuple(map(SignedEntry, headers, salts, payloads))
    return SignedAppend(head.partition, append_id, signer.key_id, signature, entries, replaces)


class Author:
    """A key with a port: appends drafts in its own name.

    It remembers where its last append left the partition: whoever writes a partition alone, as an edge its audit, asks
    for no head between two appends. Where another one came in between, the journal refuses, and the head is asked for.
    """

    def __init__(self, port: JournalPort, signer: SignerSource, *, clock: Clock, ids: IdSource) -> None:
        self.port = port
        self._source = signer
        self._clock = clock
        self._ids = ids
        self._keys = port if isinstance(port, PayloadKeys) else None  # asked once: Python takes 30 us for the answer
        self._left: Head | None = None

    @property
    def signer(self) -> Signer:
        """The key that it signs with now."""
        return self._source.current

    def append(
        self,
        partition: str,
        drafts: Sequence[Draft],
        *,
        expected: int | Expected = Expected.ANY,
        append_id: bytes | None = None,
        fence: bytes = entry.NO_FENCE,
        new_incarnation: bool = False,
    ) -> Ack:
        """Append; ANY retries on a lost race, a position or NEW raises ConflictError with the actual position.

        `new_incarnation` starts the partition afresh (rows then come from the new incarnation alone).
        """
        check_partition(partition)
        for attempt in range(ANY_RETRIES_MAX):
            left, self._left = self._left, None
            if left is not None and left.partition == partition and expected is Expected.ANY and not new_incarnation:
                head, replaces = left, b""
            else:
                head, replaces = self._expected_head(partition, expected=expected, new_incarnation=new_incarnation)
            keys = None if self._keys is None else self._keys.payload_key
            signed = sign_append(
                drafts,
                head=head,
                origin=self.port.origin,
                signer=self.signer,
                append_id=append_id,
                recorded_at_us=self._clock.now_us(),
                ids=self._ids,
                fence=fence,
                replaces=replaces,
                payload_key=None if keys is None else keys(partition, head.incarnation),
            )
            append_id = signed.append_id  # the next attempt is the same append
            try:
                ack = self.port.append(signed)
            except ConflictError:
                if expected is not Expected.ANY or attempt == ANY_RETRIES_MAX - 1:
                    raise
            else:
                self._left = ack.head
                return ack
        raise AssertionError("the loop returns or raises")

    def _expected_head(self, partition: str, *, expected: int | Expected, new_incarnation: bool) -> tuple[Head, bytes]:
        """The head to chain to, and the incarnation it takes over from (empty unless it starts afresh)."""
        head = self.port.head(partition)
        position = 0 if head is None else head.position
        if (expected is Expected.NEW and position) or (isinstance(expected, int) and position != expected):
            raise ConflictError("the partition moved on", actual=position)
        if head is not None and not new_incarnation:
            return head, b""
        incarnation = uuid7_bytes(self._clock, self._ids)
        fresh = Head(partition, incarnation, 0, entry.genesis(self.port.origin, partition, incarnation))
        return fresh, b"" if head is None else head.incarnation
