"""A journal in memory for Control's tests: real headers, real signatures, the door's rules that Control relies on.

It refuses what the door refuses: a wrong signature or role, a wrong place, a closed fence, a used append id.
"""

import threading

from facts import codec
from journal.port import PartitionHead, SignedRecords
from polyc import entry, signing
from polyc.appending import Ack, Head, SignedAppend
from polyc.entry import Record
from polyc.errors import ConflictError, IdempotencyConflictError, RefusedError, UnavailableError
from polyc.keyring import KEYS_PARTITION, KeyRing
from polyc.vocabulary import may_author
from tests.support.deployment_keys import ORIGIN, DeploymentKeys


class ControlJournal:
    def __init__(self, keys: DeploymentKeys) -> None:
        self.origin = ORIGIN
        self.records: list[Record] = []
        self.signatures: dict[int, tuple[bytes, bytes]] = {}  # index of an append's last entry -> leaf, signature
        self.heads: dict[str, Head] = {}
        self.keys = KeyRing(keys.signers["root"].public_key)
        self.acks: dict[bytes, tuple[tuple[bytes, ...], Ack]] = {}
        self.closed: set[bytes] = set()
        self.lock = threading.RLock()
        self.fails = 0  # how many appends from now on find the journal gone
        self.reads = 0
        for signed in keys.appends:
            self.append(signed)

    def size(self) -> int:
        return len(self.records)

    def head(self, partition: str) -> Head | None:
        return self.heads.get(partition)

    def read_all(self, *, from_index: int, to_index: int | None = None):
        for record in self.records[from_index : len(self.records) if to_index is None else to_index]:
            self.reads += 1
            yield record

    def read(self, partition: str, *, from_position: int = 1, incarnation=None, through_index=None):
        head = self.heads.get(partition)
        for record in list(self.records):
            mine = head and record.partition == partition and record.incarnation == head.incarnation
            if mine and record.position >= from_position:
                yield record

    def read_signed(self, partition: str, *, from_position: int = 1):
        append = []
        for record in self.read(partition, from_position=from_position):
            append.append(record)
            if record.index in self.signatures:
                yield SignedRecords(append, *self.signatures[record.index])
                append = []

    def changed_since(self, index: int):
        for name, head in self.heads.items():
            indexes = [r.index for r in self.records if (r.partition, r.incarnation) == (name, head.incarnation)]
            if indexes[-1] >= index:
                yield PartitionHead(name, head.incarnation, head.position, head.leaf, indexes[0], indexes[-1])

    def keyring(self) -> KeyRing:
        return self.keys

    def append(self, signed: SignedAppend) -> Ack:
        with self.lock:
            return self._append(signed)

    def _append(self, signed: SignedAppend) -> Ack:
        if self.fails:
            self.fails -= 1
            raise UnavailableError("the journal is gone")
        payloads = tuple(item.payload for item in signed.entries)
        if signed.append_id in self.acks:
            known, ack = self.acks[signed.append_id]
            if known != payloads:
                raise IdempotencyConflictError("append id was used")
            return Ack(ack.first_index, ack.first_position, ack.last_position, ack.head, "", repeated=True)
        headers = [entry.decode_header(item.header, place="append") for item in signed.entries]
        head = self.heads.get(signed.partition)
        first = headers[0]
        if first.position != 1 and (head is None or first.position != head.position + 1 or first.prev != head.leaf):
            raise ConflictError("moved on", actual=0 if head is None else head.position)
        leaf = first.prev
        for header, item in zip(headers, signed.entries, strict=True):
            assert header.prev == leaf
            assert header.payload_digest == entry.payload_digest(item.salt, item.payload)
            leaf = entry.leaf_hash(item.header)
            if header.fence != entry.NO_FENCE and header.fence in self.closed:
                raise RefusedError("the fence is closed", code="failed_precondition")
        self._check_author(signed, headers, leaf)
        first_index = len(self.records)
        for header, item in zip(headers, signed.entries, strict=True):
            self._take(header, item.payload)
        self.signatures[len(self.records) - 1] = (leaf, signed.signature)
        self.heads[signed.partition] = Head(signed.partition, first.incarnation, headers[-1].position, leaf)
        ack = Ack(first_index, first.position, headers[-1].position, self.heads[signed.partition], "")
        self.acks[signed.append_id] = (payloads, ack)
        return ack

    def _check_author(self, signed: SignedAppend, headers: list[entry.Header], leaf: bytes) -> None:
        key = self.keys.get(signed.key_id)
        if key is None or not signing.verify(
            key.public_key, signed.signature, entry.append_preimage(self.origin, leaf)
        ):
            raise RefusedError("not signed", code="permission_denied")
        role = self.keys.role_at(signed.key_id, len(self.records))
        for header in headers:
            if role is None or not may_author(role, code=header.event_type, partition=signed.partition):
                raise RefusedError(f"{role} may not write {header.event_type}", code="permission_denied")

    def _take(self, header: entry.Header, payload: bytes) -> None:
        self.records.append(
            Record(
                partition=header.partition,
                incarnation=header.incarnation,
                position=header.position,
                index=len(self.records),
                recorded_at_us=header.recorded_at_us,
                key_id=header.key_id,
                event_type=header.event_type,
                fence=header.fence,
                payload=payload,
            )
        )
        if header.partition == KEYS_PARTITION:
            self.keys.apply(payload, place="sys-keys")
        if header.flags & entry.FLAG_CLOSES_FENCE:
            self.closed.add(header.fence)

    def events(self, partition: str):
        return [
            codec.decode(record.event_type, record.payload, place="test")
            for record in self.records
            if record.partition == partition
        ]
