"""The journal's process: the only writer, on private Unix sockets (rulings 5 and 6).

`journal` serves everything; `audit` serves appends of `query-audit-*` and reads nothing, and so does `line`, which
speaks no gRPC (journal/line.py). Health and reflection are on. Back-pressure is RESOURCE_EXHAUSTED: too many calls at
once, or too many appends waiting for their commit.
"""

import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from journal import boot, wire
from journal.line import CALL_TIMEOUT_S as LINE_TIMEOUT_S
from journal.line import LineServer
from journal.store import SqliteJournal
from polyc.clock import Clock
from polyc.dataroot import DataRoot
from polyc.errors import PolycError, RefusedError
from polyc.ids import IdSource
from polyc.keyring import KEYS_PARTITION
from polyc.limits import RPC_CONCURRENT_MAX, RPC_MESSAGE_BYTES_MAX, RPC_WORKERS_MAX, WAIT_S_MAX
from polychrome.journal.v1 import journal_pb2 as pb
from polychrome.journal.v1 import journal_pb2_grpc as pb_grpc

AUDIT_PREFIX: Final = "query-audit-"
STOP_GRACE_S: Final = 2.0
TAIL_SILENCE_S: Final = 1.0  # an idle tail says so this often: the reader knows that the server lives
HEADS_PER_MESSAGE: Final = 512
APPENDS_AHEAD_MAX: Final = 64
DEADLINE_S_MAX: Final = 86_400.0

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", RPC_MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", RPC_MESSAGE_BYTES_MAX),
    ("grpc.so_reuseport", 0),
)


def serve(
    root: DataRoot,
    *,
    clock: Clock,
    ids: IdSource,
    stop: threading.Event,
    ready: Callable[[], None] | None = None,
) -> None:
    """Be the journal's process until `stop` is set; calls under way get a moment to end."""
    socket, audit_socket = root.socket("journal"), root.socket("audit")
    with boot.open_embedded(root, clock=clock, ids=ids, socket=str(socket)) as journal:
        servicer = JournalServicer(journal, on_keys=lambda: boot.publish_keys(root, journal))
        servers = [start_full(servicer, socket), start_audit(servicer, audit_socket)]
        line = start_line(servicer, root.socket("line"))
        try:
            if ready is not None:
                ready()
            stop.wait()
        finally:
            servicer.stopping.set()
            line.close()
            for stopped in [server.stop(STOP_GRACE_S) for server in servers]:
                stopped.wait()
            for path in (socket, audit_socket):
                path.unlink(missing_ok=True)


def start_full(servicer: "JournalServicer", socket: Path) -> grpc.Server:
    """The full service on its socket."""
    server = _server()
    pb_grpc.add_JournalServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call] # generated
    return _start(server, socket, "JournalService")


def start_audit(servicer: "JournalServicer", socket: Path) -> grpc.Server:
    """The append-only service for the Query plane on its socket."""
    server = _server()
    audit = AuditServicer(servicer)
    pb_grpc.add_AuditServiceServicer_to_server(audit, server)  # type: ignore[no-untyped-call] # generated
    return _start(server, socket, "AuditService")


def start_line(servicer: "JournalServicer", socket: Path) -> LineServer:
    """The same for an edge that waits for each append."""
    audit = AuditServicer(servicer)
    return LineServer(socket, head=audit.head, append=audit.append)


def answered(method: Callable[..., Any]) -> Callable[..., Any]:
    """A unary handler whose errors of ours become statuses."""

    @functools.wraps(method)
    def handler(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(self, request, context)
        except PolycError as error:
            wire.abort(context, error)

    return handler


def streamed(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """A streaming handler whose errors of ours become statuses."""

    @functools.wraps(method)
    def handler(self: Any, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from method(self, request, context)
        except PolycError as error:
            wire.abort(context, error)

    return handler


class JournalServicer(pb_grpc.JournalServiceServicer):
    """The full service over the store."""

    def __init__(self, journal: SqliteJournal, *, on_keys: Callable[[], None]) -> None:
        self.journal = journal
        self.stopping = threading.Event()
        self._on_keys = on_keys

    def append(self, message: pb.SignedAppend, context: grpc.ServicerContext) -> pb.Ack:
        """One append, waiting no longer than the caller does."""
        return self.append_within(message, timeout_s=_time_left_s(context))

    def append_within(self, message: pb.SignedAppend, *, timeout_s: float) -> pb.Ack:
        """One append, waited for so long."""
        signed = wire.append_of_pb(message)
        pending = self.journal.submit((signed,))[0]
        ack = pending.result(timeout_s=timeout_s)
        if signed.partition == KEYS_PARTITION:
            self._on_keys()
        return wire.ack_to_pb(ack)

    @answered
    def Append(self, request: pb.AppendRequest, context: grpc.ServicerContext) -> pb.AppendResponse:  # noqa: N802 gRPC's name
        """One append."""
        return pb.AppendResponse(ack=self.append(request.append, context))

    @streamed
    def AppendMany(  # noqa: N802 gRPC's name
        self, request_iterator: Iterator[pb.AppendManyRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.AppendManyResponse]:
        """Appends in order; up to `APPENDS_AHEAD_MAX` of them wait for one commit."""
        for portion in _portions(request_iterator, APPENDS_AHEAD_MAX):
            appends = [wire.append_of_pb(request.append) for request in portion]
            pendings = self.journal.submit(appends)
            acks = [pending.result(timeout_s=_time_left_s(context)) for pending in pendings]
            if any(signed.partition == KEYS_PARTITION for signed in appends):
                self._on_keys()
            for ack in acks:
                yield pb.AppendManyResponse(ack=wire.ack_to_pb(ack))

    @streamed
    def Read(self, request: pb.ReadRequest, _context: grpc.ServicerContext) -> Iterator[pb.ReadResponse]:  # noqa: N802 gRPC's name
        """One incarnation."""
        incarnation = request.incarnation or None
        head = self.journal.partition_head(request.partition, incarnation=incarnation)
        if head is None:
            return
        yield pb.ReadResponse(head=wire.head_to_pb(head))
        through = request.through_index if request.HasField("through_index") else head.last_index
        if request.stored:
            appends = self.journal.read_stored(
                request.partition,
                incarnation=head.incarnation,
                from_position=request.from_position or 1,
                through_index=min(through, head.last_index),
            )
            for stored in wire.batched_stored(appends):
                yield pb.ReadResponse(appends=stored)
            return
        entries = self.journal.read_raw(
            request.partition,
            incarnation=head.incarnation,
            from_position=request.from_position or 1,
            through_index=min(through, head.last_index),
        )
        for portion in wire.batched(entries, signatures=request.signatures):
            yield pb.ReadResponse(entries=portion)

    @streamed
    def ReadAll(  # noqa: N802 gRPC's name
        self, request: pb.ReadAllRequest, _context: grpc.ServicerContext
    ) -> Iterator[pb.ReadAllResponse]:
        """A range of the log."""
        to_index = request.to_index if request.HasField("to_index") else None
        if request.stored:
            appends = self.journal.read_all_stored(from_index=request.from_index, to_index=to_index)
            for stored in wire.batched_stored(appends):
                yield pb.ReadAllResponse(appends=stored)
            return
        entries = self.journal.read_all_raw(from_index=request.from_index, to_index=to_index)
        for portion in wire.batched(entries):
            yield pb.ReadAllResponse(entries=portion)

    @streamed
    def Tail(self, request: pb.TailRequest, context: grpc.ServicerContext) -> Iterator[pb.TailResponse]:  # noqa: N802 gRPC's name
        """The log from an index on, and what is sealed later, each entry once."""
        at = request.from_index
        while context.is_active() and not self.stopping.is_set():
            size = self.journal.wait_beyond(at, TAIL_SILENCE_S)
            if size <= at:
                yield pb.TailResponse(size=size)
                continue
            if request.stored:
                for stored in wire.batched_stored(self.journal.read_all_stored(from_index=at, to_index=size)):
                    yield pb.TailResponse(appends=stored, size=size)
            else:
                for portion in wire.batched(self.journal.read_all_raw(from_index=at, to_index=size)):
                    yield pb.TailResponse(entries=portion, size=size)
            at = size

    @answered
    def Head(self, request: pb.HeadRequest, _context: grpc.ServicerContext) -> pb.HeadResponse:  # noqa: N802 gRPC's name
        """Where a partition stands."""
        head = self.journal.partition_head(request.partition, incarnation=request.incarnation or None)
        return pb.HeadResponse(head=None if head is None else wire.head_to_pb(head))

    @streamed
    def ListPartitions(  # noqa: N802 gRPC's name
        self, request: pb.ListPartitionsRequest, _context: grpc.ServicerContext
    ) -> Iterator[pb.ListPartitionsResponse]:
        """Where the partitions stand."""
        heads = self.journal.changed_since(request.changed_since)
        for i in range(0, len(heads), HEADS_PER_MESSAGE):
            yield pb.ListPartitionsResponse(heads=map(wire.head_to_pb, heads[i : i + HEADS_PER_MESSAGE]))

    @answered
    def GetCheckpoint(  # noqa: N802 gRPC's name
        self, request: pb.GetCheckpointRequest, context: grpc.ServicerContext
    ) -> pb.GetCheckpointResponse:
        """The latest checkpoint, or the one beyond a size."""
        if request.HasField("beyond_size"):
            wait_s = min(request.timeout_ms / 1000, WAIT_S_MAX, _time_left_s(context, default=WAIT_S_MAX))
            self.journal.wait_beyond(request.beyond_size, wait_s)
        size = self.journal.size()
        text = self.journal.checkpoint() if size else ""
        opened = self.journal.opened()
        return pb.GetCheckpointResponse(
            size=size,
            checkpoint=text,
            origin=self.journal.origin,
            torn_bytes=opened.torn_bytes,
            opened_size=opened.size,
        )

    @answered
    def GetReceipt(  # noqa: N802 gRPC's name
        self, request: pb.GetReceiptRequest, _context: grpc.ServicerContext
    ) -> pb.GetReceiptResponse:
        """The receipt of one entry."""
        incarnation = request.incarnation or None
        text = self.journal.receipt(request.partition, request.position, incarnation=incarnation)
        return pb.GetReceiptResponse(receipt=text)

    @answered
    def GetConsistencyProof(  # noqa: N802 gRPC's name
        self, request: pb.GetConsistencyProofRequest, _context: grpc.ServicerContext
    ) -> pb.GetConsistencyProofResponse:
        """The proof that the log at one size starts with the log at another."""
        new_size = request.new_size or self.journal.size()
        hashes = self.journal.consistency_proof(request.old_size, new_size)
        return pb.GetConsistencyProofResponse(new_size=new_size, hashes=hashes)

    @answered
    def GetPayloadKey(  # noqa: N802 gRPC's name
        self, request: pb.GetPayloadKeyRequest, _context: grpc.ServicerContext
    ) -> pb.GetPayloadKeyResponse:
        """An incarnation's payload key, to author or to read."""
        find = self.journal.payload_key if request.authoring else self.journal.reading_key
        key = find(request.partition, request.incarnation)
        return pb.GetPayloadKeyResponse(key=None if key is None else key.raw)

    @answered
    def AddCosignatures(  # noqa: N802 gRPC's name
        self, request: pb.AddCosignaturesRequest, _context: grpc.ServicerContext
    ) -> pb.AddCosignaturesResponse:
        """What witnesses signed."""
        self.journal.add_cosignatures(request.size, list(request.lines))
        return pb.AddCosignaturesResponse()


class AuditServicer(pb_grpc.AuditServiceServicer):
    """Appends of audit partitions, and nothing else."""

    def __init__(self, full: JournalServicer) -> None:
        self._full = full

    def append(self, request: pb.AppendAuditRequest, *, timeout_s: float = LINE_TIMEOUT_S) -> pb.AppendAuditResponse:
        """One audit append."""
        _check_audit(request.append.partition)
        return pb.AppendAuditResponse(ack=self._full.append_within(request.append, timeout_s=timeout_s))

    def head(self, request: pb.AuditHeadRequest) -> pb.AuditHeadResponse:
        """Where an audit partition stands."""
        _check_audit(request.partition)
        head = self._full.journal.partition_head(request.partition)
        return pb.AuditHeadResponse(
            head=None if head is None else wire.head_to_pb(head), origin=self._full.journal.origin
        )

    @answered
    def AppendAudit(  # noqa: N802 gRPC's name
        self, request: pb.AppendAuditRequest, context: grpc.ServicerContext
    ) -> pb.AppendAuditResponse:
        """`append`, waiting no longer than the caller does."""
        return self.append(request, timeout_s=_time_left_s(context))

    @answered
    def AuditHead(  # noqa: N802 gRPC's name
        self, request: pb.AuditHeadRequest, _context: grpc.ServicerContext
    ) -> pb.AuditHeadResponse:
        """`head`."""
        return self.head(request)


def _portions(requests: Iterator[Any], count: int) -> Iterator[list[Any]]:
    while portion := list(itertools.islice(requests, count)):
        yield portion


def _check_audit(partition: str) -> None:
    if not partition.startswith(AUDIT_PREFIX):
        raise RefusedError("this socket appends audit events only", code="permission_denied")


def _time_left_s(context: grpc.ServicerContext, *, default: float = -1) -> float:
    """What is left of the caller's deadline; `default` when it set none (gRPC then says centuries)."""
    left_s = context.time_remaining()
    return default if left_s is None or left_s > DEADLINE_S_MAX else max(float(left_s), 0.0)


def _server() -> grpc.Server:
    return grpc.server(
        ThreadPoolExecutor(RPC_WORKERS_MAX, thread_name_prefix="journal-rpc"),
        options=_OPTIONS,
        maximum_concurrent_rpcs=RPC_CONCURRENT_MAX,
    )


def _start(server: grpc.Server, socket: Path, service: str) -> grpc.Server:
    name = pb.DESCRIPTOR.services_by_name[service].full_name
    checks = health.HealthServicer()
    checks.set("", health_pb2.HealthCheckResponse.SERVING)
    checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflection.enable_server_reflection((name, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    with suppress(FileNotFoundError):
        socket.unlink()  # we hold the writer's lock: what lies here is a dead process's
    server.add_insecure_port(f"unix:{socket}")
    socket.chmod(0o600)  # the folder is 0700: nobody could reach it in between
    server.start()
    return server
