"""The journal's laws, written as plainly as possible: lists in memory, everything looked up by walking.

The contract suite and the state machine hold the real stores against it. It shares the value types and the entry
format with them, and none of their code.
"""

from collections.abc import Iterator
from typing import Any

from journal.port import PartitionHead
from polyc import entry, merkle, note
from polyc.appending import Ack, Head, SignedAppend
from polyc.clock import Clock
from polyc.entry import Record
from polyc.errors import ConflictError, CorruptError, IdempotencyConflictError, RefusedError
from polyc.ids import check_partition
from polyc.keyring import KeyRing
from polyc.limits import EVENTS_PER_APPEND_MAX, PAYLOAD_SIZE_BYTES_MAX, RECORDED_AT_SKEW_US_MAX
from polyc.signing import Signer, verify
from polyc.vocabulary import may_author


class MemoryJournal:
    """A JournalPort and a JournalReader over a list of (header, payload)."""

    def __init__(self, *, origin: str, root_public_key: bytes, log_signer: Signer, clock: Clock) -> None:
        self.origin = origin
        self.log: list[tuple[entry.Header, bytes, bytes, bytes]] = []  # header, its bytes, salt, payload
        self.appended: list[SignedAppend] = []
        self.current: dict[str, bytes] = {}
        self.closed: set[tuple[str, bytes, bytes]] = set()
        self._root_public_key = root_public_key
        self._log_signer = log_signer
        self._clock = clock

    # -- the port

    def head(self, partition: str) -> Head | None:
        found = self._entries(partition, self.current.get(partition))
        if not found:
            return None
        _index, (header, raw, _salt, _payload) = found[-1]
        return Head(partition, header.incarnation, header.position, entry.leaf_hash(raw))

    def append(self, signed: SignedAppend) -> Ack:
        headers = self._well_made(signed)
        head = self.head(signed.partition)
        repeated = self._repeat(signed, headers)
        if repeated is not None:
            return repeated
        index = len(self.log)
        ring = self.keyring()
        role = ring.role_at(signed.key_id, index)
        if role is None or ring.role_at(signed.key_id, index + len(headers) - 1) != role:
            raise RefusedError("no role", code="unauthenticated")
        if not all(may_author(role, code=header.event_type, partition=signed.partition) for header in headers):
            raise RefusedError("wrong role", code="permission_denied")
        first = headers[0]
        if head is None or first.incarnation != head.incarnation:
            self._check_fresh(signed, first, head, role, ring)
        elif (first.position, first.prev) != (head.position + 1, head.leaf):
            raise ConflictError("moved on", actual=head.position)
        if (signed.partition, first.incarnation, first.fence) in self.closed:
            raise RefusedError("closed", code="failed_precondition")
        if headers[-1].flags & entry.FLAG_CLOSES_FENCE:
            if role != "control":
                raise RefusedError("only control", code="permission_denied")
            self.closed.add((signed.partition, first.incarnation, first.fence))
        if signed.partition == "sys-keys":
            try:
                for item in signed.entries:
                    ring.apply(item.payload, place="trial")
            except CorruptError:
                raise RefusedError("bad key event", code="failed_precondition") from None
        self.appended.append(signed)
        self.current[signed.partition] = first.incarnation
        self.log += [
            (header, item.header, item.salt, item.payload) for header, item in zip(headers, signed.entries, strict=True)
        ]
        return self._ack(signed.partition, index, first.position, len(headers), repeated=False)

    # -- the reader

    def size(self) -> int:
        return len(self.log)

    def checkpoint(self) -> str:
        root = merkle.root_of(entry.leaf_hash(raw) for _header, raw, _salt, _payload in self.log)
        text = str(note.Checkpoint(origin=self.origin, size=len(self.log), root=root))
        line = note.sign(text, name=self.origin, signer=self._log_signer)
        return str(note.Note(text=text, signatures=(line,)))

    def partitions(self) -> list[PartitionHead]:
        return self.changed_since(0)

    def changed_since(self, index: int) -> list[PartitionHead]:
        heads = []
        for partition in sorted(self.current):
            found = self._entries(partition, self.current[partition])
            head = self.head(partition)
            if found[-1][0] >= index:
                heads.append(
                    PartitionHead(partition, head.incarnation, head.position, head.leaf, found[0][0], found[-1][0])
                )
        return heads

    def read(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[Record]:
        for index, (header, _raw, _salt, payload) in self._entries(
            partition, incarnation or self.current.get(partition)
        ):
            if header.position >= from_position and (through_index is None or index <= through_index):
                yield _record(index, header, payload)

    def opening(self, head: PartitionHead) -> tuple[int, bytes | None]:
        first = next(iter(self.read(head.partition, incarnation=head.incarnation)))
        return first.recorded_at_us, first.payload

    def read_batches(self, partition: str, **options: Any) -> Iterator[list[Record]]:
        yield from ([record] for record in self.read(partition, **options))

    def read_all(self, *, from_index: int, to_index: int | None = None) -> Iterator[Record]:
        for index, (header, _raw, _salt, payload) in list(enumerate(self.log))[from_index:to_index]:
            yield _record(index, header, payload)

    def wait_beyond(self, _size: int, _timeout_s: float) -> int:
        return len(self.log)

    def keyring(self) -> KeyRing:
        ring = KeyRing(self._root_public_key)
        for record in self.read("sys-keys"):
            ring.apply(record.payload, place="sys-keys")
        return ring

    def close(self) -> None:
        """Nothing to give back."""

    # -- the laws

    def _well_made(self, signed: SignedAppend) -> list[entry.Header]:
        check_partition(signed.partition)
        if not 1 <= len(signed.entries) <= EVENTS_PER_APPEND_MAX:
            raise RefusedError("events per append")
        if any(len(item.payload) > PAYLOAD_SIZE_BYTES_MAX for item in signed.entries):
            raise RefusedError("payload size", code="resource_exhausted")
        headers, leaf = [], None
        for item in signed.entries:
            try:
                header = entry.decode_header(item.header, place="append")
            except CorruptError as error:
                raise RefusedError(error.message) from None
            first = headers[0] if headers else header
            fits = (
                header.partition == signed.partition
                and header.append_id == signed.append_id
                and header.key_id == signed.key_id
                and header.incarnation == first.incarnation
                and header.fence == first.fence
                and header.position == first.position + len(headers)
                and (leaf is None or header.prev == leaf)
                and header.payload_size_bytes == len(item.payload)
                and header.payload_digest == entry.payload_digest(item.salt, item.payload)
                and not header.flags & entry.FLAG_ENCRYPTED
            )
            if not fits:
                raise RefusedError("not well made")
            if abs(header.recorded_at_us - self._clock.now_us()) > RECORDED_AT_SKEW_US_MAX:
                raise RefusedError("clock", code="failed_precondition")
            headers.append(header)
            leaf = entry.leaf_hash(item.header)
        ends = [bool(header.flags & entry.FLAG_LAST) for header in headers]
        if ends != [False] * (len(ends) - 1) + [True]:
            raise RefusedError("last flag")
        if any(header.flags & entry.FLAG_CLOSES_FENCE for header in headers[:-1]):
            raise RefusedError("closing flag")
        if headers[-1].flags & entry.FLAG_CLOSES_FENCE and headers[-1].fence == entry.NO_FENCE:
            raise RefusedError("closing flag")
        key = self.keyring().get(signed.key_id)
        if key is None or not verify(key.public_key, signed.signature, entry.append_preimage(self.origin, leaf)):
            raise RefusedError("signature", code="unauthenticated")
        return headers

    def _repeat(self, signed: SignedAppend, headers: list[entry.Header]) -> Ack | None:
        known = [
            (index, stored)
            for index, stored in self._entries(signed.partition, self.current.get(signed.partition))
            if stored[0].append_id == signed.append_id
        ]
        if not known:
            return None
        theirs = [(header.event_type, item.payload) for header, item in zip(headers, signed.entries, strict=True)]
        if [(stored[0].event_type, stored[3]) for _index, stored in known] != theirs:
            raise IdempotencyConflictError("other events")
        first_index, (first, *_rest) = known[0]
        return self._ack(signed.partition, first_index, first.position, len(known), repeated=True)

    def _check_fresh(
        self, signed: SignedAppend, first: entry.Header, head: Head | None, role: str, ring: KeyRing
    ) -> None:
        actual = head.position if head else 0
        if signed.replaces != (head.incarnation if head else b""):
            raise ConflictError("started by another", actual=actual)
        if (first.position, first.prev) != (1, entry.genesis(self.origin, signed.partition, first.incarnation)):
            raise ConflictError("not genesis", actual=actual)
        if head is not None:
            opener = self._entries(signed.partition, head.incarnation)[0][1][0]
            if signed.partition == "sys-keys" or ring.get(opener.key_id).role != role:
                raise RefusedError("not the opener's role", code="permission_denied")
            if self._entries(signed.partition, first.incarnation):
                raise RefusedError("used before", code="already_exists")

    def _ack(self, partition: str, index: int, position: int, count: int, *, repeated: bool) -> Ack:
        return Ack(
            first_index=index,
            first_position=position,
            last_position=position + count - 1,
            head=self.head(partition),
            checkpoint=self.checkpoint(),
            repeated=repeated,
        )

    def _entries(self, partition: str, incarnation: bytes | None) -> list:
        return [
            (index, stored)
            for index, stored in enumerate(self.log)
            if stored[0].partition == partition and stored[0].incarnation == incarnation
        ]


def _record(index: int, header: entry.Header, payload: bytes) -> Record:
    return Record(
        partition=header.partition,
        incarnation=header.incarnation,
        position=header.position,
        index=index,
        recorded_at_us=header.recorded_at_us,
        key_id=header.key_id,
        event_type=header.event_type,
        fence=header.fence,
        payload=payload,
    )
