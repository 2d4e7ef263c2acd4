"""The journal through its socket: a JournalPort and a JournalReader, verified on this side again.

What is read is chained and digested here, not believed. `AuditClient` is for an
edge that speaks gRPC; ours appends its audit over journal/line.py.
"""

import functools
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from journal import wire
from journal.body import Stored
from journal.keyevents import load_keyring
from journal.port import Opened, PartitionHead, RawEntry, SignedRecords
from journal.records import Chain, Keys, RecordBatch, raw_entries, record_batches
from polyc.appending import Ack, Head, SignedAppend
from polyc.entry import Record, decode_header
from polyc.errors import CorruptError, RefusedError
from polyc.keyring import KeyRing
from polyc.limits import INDEX_MAX, PARTITIONS_CACHED_MAX, RPC_MESSAGE_BYTES_MAX, WAIT_S_MAX
from polyc.payloads import ENCRYPTED_PREFIX, PayloadKey
from polychrome.journal.v1 import journal_pb2 as pb
from polychrome.journal.v1 import journal_pb2_grpc as pb_grpc

CALL_TIMEOUT_S: Final = 30.0
HEALTH_TIMEOUT_S: Final = 1.0

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", RPC_MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", RPC_MESSAGE_BYTES_MAX),
)


class JournalClient:
    """The full service. `root_public_key` (from the policy file) is needed for `keyring` alone."""

    def __init__(self, socket: Path, *, root_public_key: bytes | None = None) -> None:
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=_OPTIONS)
        self._stub = pb_grpc.JournalServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._root_public_key = root_public_key
        self._origin = ""
        self._encrypts = True  # until the journal says otherwise

    @property
    def origin(self) -> str:
        """The log's name."""
        if not self._origin:
            self._origin = self._checkpoint().origin
        return self._origin

    def is_serving(self) -> bool:
        """Whether a journal answers on the socket now."""
        stub = health_pb2_grpc.HealthStub(self._channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=HEALTH_TIMEOUT_S)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    # -- the port

    def head(self, partition: str) -> Head | None:
        """The partition's sealed head."""
        found = self.partition_head(partition)
        return None if found is None else Head(partition, found.incarnation, found.position, found.leaf)

    def partition_head(self, partition: str, *, incarnation: bytes | None = None) -> PartitionHead | None:
        """Where an incarnation (the current one) stands."""
        request = pb.HeadRequest(partition=partition, incarnation=incarnation or b"")
        answer = _call(self._stub.Head, request)
        return wire.head_of_pb(answer.head) if answer.HasField("head") else None

    def append(self, signed: SignedAppend) -> Ack:
        """Make one append durable and sealed."""
        answer = _call(self._stub.Append, pb.AppendRequest(append=wire.append_to_pb(signed)))
        return wire.ack_of_pb(answer.ack)

    def append_many(self, appends: Sequence[SignedAppend]) -> list[Ack]:
        """Make several appends durable in this order; raises the first error among them."""
        requests = (pb.AppendManyRequest(append=wire.append_to_pb(signed)) for signed in appends)
        return [wire.ack_of_pb(answer.ack) for answer in _stream(self._stub.AppendMany, requests)]

    def payload_key(self, partition: str, incarnation: bytes) -> PayloadKey | None:
        """The key that authors encrypt an incarnation's payloads with, when the deployment encrypts."""
        if not self._encrypts or not partition.startswith(ENCRYPTED_PREFIX):
            return None
        key = self._payload_key(partition, incarnation, authoring=True)
        self._encrypts = key is not None
        return key

    # -- the reader

    def size(self) -> int:
        """The size of the latest checkpoint."""
        return int(self._checkpoint().size)

    def opened(self) -> Opened:
        """What the running writer found when it opened the journal."""
        answer = self._checkpoint()
        return Opened(answer.opened_size, answer.torn_bytes)

    def checkpoint(self) -> str:
        """The latest checkpoint."""
        answer = self._checkpoint()
        if not answer.checkpoint:
            raise RefusedError("nothing was appended yet", code="not_found")
        return str(answer.checkpoint)

    def partitions(self) -> list[PartitionHead]:
        """The current incarnation of every partition, by name."""
        return self.changed_since(0)

    def changed_since(self, index: int) -> list[PartitionHead]:
        """The partitions that got entries at `index` or later."""
        request = pb.ListPartitionsRequest(changed_since=index)
        return [
            wire.head_of_pb(head) for answer in _stream(self._stub.ListPartitions, request) for head in answer.heads
        ]

    def opening(self, head: PartitionHead) -> tuple[int, bytes | None]:
        """When the first entry was recorded, and its payload; from here no cheaper than reading it."""
        records = self.read(head.partition, incarnation=head.incarnation, through_index=head.first_index)
        first = next(records)
        return first.recorded_at_us, first.payload

    def read(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[Record]:
        """One incarnation in order, verified on this side."""
        batches = self.read_batches(
            partition, from_position=from_position, incarnation=incarnation, through_index=through_index
        )
        return chain.from_iterable(batches)

    def read_batches(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[list[Record]]:
        """The same in lists, as the server's messages come; each verified before it is handed out."""
        request = _read_request(partition, from_position, incarnation)
        request.through_index = INDEX_MAX if through_index is None else through_index
        return record_batches(self._walk(request, to_head=through_index is None))

    def read_raw(
        self, partition: str, *, incarnation: bytes | None = None, from_position: int = 1
    ) -> Iterator[RawEntry]:
        """One incarnation as stored, with the authors' signatures, verified like `read`."""
        request = _read_request(partition, from_position, incarnation)
        for walk, stored, part in self._walk(request, to_head=True):
            yield from raw_entries(stored, walk.take(stored), part)

    def read_signed(self, partition: str, *, from_position: int = 1) -> Iterator[SignedRecords]:
        """The current incarnation append by append, verified, each with its author's signature, which is not."""
        for walk, stored, part in self._walk(_read_request(partition, from_position, None), to_head=True):
            yield walk.signed(stored, part)

    def read_all(self, *, from_index: int, to_index: int | None = None) -> Iterator[Record]:
        """A range of the log in its order, verified on this side."""
        request = pb.ReadAllRequest(from_index=from_index, to_index=to_index, stored=True)
        walk = _LogWalk(from_index, to_index, keys=self._cached_keys())
        for answer in _stream(self._stub.ReadAll, request):
            yield from walk.records(answer.appends)

    def tail(self, *, from_index: int) -> Iterator[Record | None]:
        """The log from an index on, each entry once; None when nothing new was sealed for a while.

        To go on after a restart, start at the last record's index + 1.
        """
        request = pb.TailRequest(from_index=from_index, stored=True)
        walk = _LogWalk(from_index, None, keys=self._cached_keys())
        for answer in _stream(self._stub.Tail, request, timeout_s=None):
            if not answer.appends:
                yield None
            yield from walk.records(answer.appends)

    def wait_beyond(self, size: int, timeout_s: float) -> int:
        """Block until more than `size` entries are sealed or the time is over."""
        left_s = timeout_s
        while True:
            wait_s = min(left_s, WAIT_S_MAX)
            request = pb.GetCheckpointRequest(beyond_size=size, timeout_ms=int(wait_s * 1000))
            now = int(_call(self._stub.GetCheckpoint, request, timeout_s=wait_s + CALL_TIMEOUT_S).size)
            left_s -= wait_s
            if now > size or left_s <= 0:
                return now

    def keyring(self) -> KeyRing:
        """The keys of `sys-keys`, verified on this side from the root key on."""
        if self._root_public_key is None:
            raise RefusedError("the root key is needed to verify keys", code="failed_precondition")
        return load_keyring(self, root_public_key=self._root_public_key)

    def receipt(self, partition: str, position: int, *, incarnation: bytes | None = None) -> str:
        """The receipt of one entry."""
        request = pb.GetReceiptRequest(partition=partition, position=position, incarnation=incarnation or b"")
        return str(_call(self._stub.GetReceipt, request).receipt)

    def consistency_proof(self, old_size: int, new_size: int) -> list[bytes]:
        """The proof that the log at `new_size` starts with the log at `old_size`."""
        request = pb.GetConsistencyProofRequest(old_size=old_size, new_size=new_size)
        return list(_call(self._stub.GetConsistencyProof, request).hashes)

    def add_cosignatures(self, size: int, lines: Sequence[str]) -> None:
        """Keep what witnesses signed of a checkpoint."""
        _call(self._stub.AddCosignatures, pb.AddCosignaturesRequest(size=size, lines=lines))

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _payload_key(self, partition: str, incarnation: bytes, *, authoring: bool) -> PayloadKey | None:
        request = pb.GetPayloadKeyRequest(partition=partition, incarnation=incarnation, authoring=authoring)
        answer = _call(self._stub.GetPayloadKey, request)
        if not answer.HasField("key"):
            return None
        return PayloadKey(answer.key, partition=partition, incarnation=incarnation)

    def _cached_keys(self) -> Keys:
        """The keys to read with, asked once in a walk: a key may have been destroyed since the walk before."""
        ask = functools.partial(self._payload_key, authoring=False)
        return functools.lru_cache(maxsize=PARTITIONS_CACHED_MAX)(ask)

    def _checkpoint(self) -> pb.GetCheckpointResponse:
        answer: pb.GetCheckpointResponse = _call(self._stub.GetCheckpoint, pb.GetCheckpointRequest())
        return answer

    def _walk(self, request: pb.ReadRequest, *, to_head: bool) -> Iterator[tuple[Chain, Stored, slice]]:
        """The appends that the server streams, each with the chain it must fit and the part that was asked for."""
        walk = head = None
        bound = request.through_index + 1 if request.HasField("through_index") else INDEX_MAX
        for answer in _stream(self._stub.Read, request):
            if answer.HasField("head"):
                head = answer.head
                walk = Chain.at_genesis(self.origin, head.partition, head.incarnation, keys=self._cached_keys())
            for message in answer.appends:
                if walk is None or head is None:
                    raise CorruptError("entries before their head", place=request.partition, kind="stream")
                stored = wire.stored_of_pb(message)
                if walk.position == 0 and request.from_position > 1:
                    run = stored.open(walk.where)
                    walk = Chain.before(head.partition, head.incarnation, run, keys=self._cached_keys())
                yield walk, stored, slice(max(request.from_position - stored.position, 0), bound - stored.index)
        if not to_head or walk is None or head is None or request.from_position > head.position:
            return
        if (walk.position, walk.leaf) != (head.position, head.leaf):
            raise CorruptError("the stream ends before the head", place=walk.place(walk.position + 1), kind="gap")


class AuditClient:
    """An edge's way into the journal over gRPC: it appends audit events and reads nothing."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=_OPTIONS)
        self._stub = pb_grpc.AuditServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._origin = ""

    @property
    def origin(self) -> str:
        """The log's name."""
        if not self._origin:
            answer = _call(self._stub.AuditHead, pb.AuditHeadRequest(partition="query-audit-origin"))
            self._origin = str(answer.origin)
        return self._origin

    def head(self, partition: str) -> Head | None:
        """The audit partition's sealed head."""
        answer = _call(self._stub.AuditHead, pb.AuditHeadRequest(partition=partition))
        if not answer.HasField("head"):
            return None
        return Head(partition, answer.head.incarnation, answer.head.position, answer.head.leaf)

    def append(self, signed: SignedAppend) -> Ack:
        """Make one audit append durable and sealed."""
        answer = _call(self._stub.AppendAudit, pb.AppendAuditRequest(append=wire.append_to_pb(signed)))
        return wire.ack_of_pb(answer.ack)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


class _LogWalk:
    """Verifies a stream of the log: no index missing, each partition's chain unbroken from its first entry here."""

    def __init__(self, from_index: int, to_index: int | None, *, keys: Keys) -> None:
        self._from_index = from_index
        self._to_index = INDEX_MAX if to_index is None else to_index
        self._at: int | None = None
        self._keys = keys
        self._chains: dict[tuple[str, bytes], Chain] = {}

    def records(self, messages: Sequence[pb.StoredAppend]) -> Iterator[Record]:
        for message in messages:
            stored = wire.stored_of_pb(message)
            place = f"index {stored.index}"
            if stored.index != self._at and (self._at is not None or stored.index > self._from_index):
                raise CorruptError("entry is missing", place=f"index {self._at or self._from_index}", kind="gap")
            run = stored.open(place)
            header = decode_header(run.headers[0], place=place)
            key = (header.partition, header.incarnation)
            if len(self._chains) > PARTITIONS_CACHED_MAX:
                self._chains.clear()
            if key not in self._chains:
                self._chains[key] = Chain.before(*key, run, keys=self._keys)
            batch = RecordBatch()
            part = slice(max(self._from_index - stored.index, 0), self._to_index - stored.index)
            batch.take(self._chains[key], stored, part, run=run)
            yield from batch.records
            if batch.fault is not None:
                raise batch.fault
            self._at = stored.index + stored.count


def _read_request(partition: str, from_position: int, incarnation: bytes | None) -> pb.ReadRequest:
    return pb.ReadRequest(partition=partition, from_position=from_position, incarnation=incarnation or b"", stored=True)


def _call(method: Any, request: Any, *, timeout_s: float = CALL_TIMEOUT_S) -> Any:
    try:
        return method(request, timeout=timeout_s)
    except grpc.RpcError as error:
        raise wire.explain(error) from None


def _stream(method: Any, request: Any, *, timeout_s: float | None = None) -> Iterator[Any]:
    call = method(request, timeout=timeout_s)
    try:
        yield from call
    except grpc.RpcError as error:
        raise wire.explain(error) from None
    finally:
        call.cancel()
