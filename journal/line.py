"""The line: audit appends over a plain Unix socket, for an edge that waits for each of them.

    request   u8 kind (1 head, 2 append), u32 size, the protobuf request of `AuditService`
    answer    u8 kind (1 answer, 2 error), u32 size, its protobuf response, or the error in msgpack

Sizes are little-endian. It says exactly what `AuditService` says, to the same callers: appends of `query-audit-*` and
where they stand. gRPC hands a call through five threads of two processes: a millisecond on an idle machine, as long as
all that the journal does for the append; here a call is one write and one read, and its connection has a thread
(docs/adr/0018). A request that is resent because its connection broke is repeated under its append id: done once.
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from google.protobuf.message import DecodeError, Message

from journal import wire
from polyc.appending import Ack, Head, SignedAppend
from polyc.errors import Code, ConflictError, PolycError, RefusedError, UnavailableError
from polyc.limits import LINE_CONNECTIONS_MAX, RPC_MESSAGE_BYTES_MAX
from polychrome.journal.v1 import journal_pb2 as pb

CALL_TIMEOUT_S: Final = 30.0
_FRAME: Final = struct.Struct("<BI")
_HEAD, _APPEND = 1, 2
_ANSWER, _ERROR = 1, 2

Answer = Callable[[Any], Message]


class _Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as it travels."""

    family: str
    code: Code
    message: str
    hint: str | None = None
    actual: int = 0


class LineServer:
    """Answers on a socket until it is closed; a thread for each connection."""

    def __init__(self, path: Path, *, head: Answer, append: Answer) -> None:
        self._methods: dict[int, tuple[Callable[[], Message], Answer]] = {
            _HEAD: (pb.AuditHeadRequest, head),
            _APPEND: (pb.AppendAuditRequest, append),
        }
        self._path = path
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        path.unlink(missing_ok=True)  # we hold the writer's lock: what lies here is a dead process's
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        path.chmod(0o600)  # the folder is 0700: nobody could reach it in between
        self._listener.listen(LINE_CONNECTIONS_MAX)
        threading.Thread(target=self._accept, name="line", daemon=True).start()

    def close(self) -> None:
        """Stop answering; a request that is being answered still is."""
        for each in (self._listener, *self._connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RD)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if len(self._connections) >= LINE_CONNECTIONS_MAX:
                    connection.close()
                    continue
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="line", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while (request := _receive(connection)) is not None:
                _send(connection, *self._answered(*request))
        except OSError:
            pass  # the caller is gone
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _answered(self, kind: int, body: bytes) -> tuple[int, bytes]:
        try:
            if kind not in self._methods:
                raise RefusedError("no such request", code="unimplemented")
            make, method = self._methods[kind]
            request = make()
            try:
                request.ParseFromString(body)
            except DecodeError:
                raise RefusedError("not a request") from None
            return _ANSWER, method(request).SerializeToString()
        except PolycError as error:
            return _ERROR, msgspec.msgpack.encode(_told(error))


class LineClient:
    """The Query plane's way into the journal: it appends audit events and reads nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._origin = ""

    @property
    def origin(self) -> str:
        """The log's name."""
        if not self._origin:
            self._origin = self._head("query-audit-origin").origin
        return self._origin

    def head(self, partition: str) -> Head | None:
        """The audit partition's sealed head."""
        answer = self._head(partition)
        if not answer.HasField("head"):
            return None
        return Head(partition, answer.head.incarnation, answer.head.position, answer.head.leaf)

    def append(self, signed: SignedAppend) -> Ack:
        """Make one audit append durable and sealed."""
        request = pb.AppendAuditRequest(append=wire.append_to_pb(signed))
        return wire.ack_of_pb(pb.AppendAuditResponse.FromString(self._call(_APPEND, request)).ack)

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            self._hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _head(self, partition: str) -> pb.AuditHeadResponse:
        answer = pb.AuditHeadResponse()
        answer.ParseFromString(self._call(_HEAD, pb.AuditHeadRequest(partition=partition)))
        return answer

    def _call(self, kind: int, request: Message) -> bytes:
        content = request.SerializeToString()
        with self._lock:
            was_open = self._connection is not None
            answer = self._exchanged(kind, content)
            if answer is None and was_open:  # the journal was started anew since the last call
                answer = self._exchanged(kind, content)
        if answer is None:
            raise UnavailableError("the journal's process does not answer", hint="is `polyc up` running?")
        told, body = answer
        if told == _ERROR:
            raise _raised(msgspec.msgpack.decode(body, type=_Error))
        return body

    def _exchanged(self, kind: int, content: bytes) -> tuple[int, bytes] | None:
        """One request and its answer, or None when the connection broke."""
        try:
            if self._connection is None:
                self._connection = socket.socket(socket.AF_UNIX)
                self._connection.settimeout(CALL_TIMEOUT_S)
                self._connection.connect(str(self._path))
            _send(self._connection, kind, content)
            answer = _receive(self._connection)
        except TimeoutError:
            self._hang_up()
            raise UnavailableError(
                "the journal did not answer in time",
                code="deadline_exceeded",
                hint="an append may still be sealed: repeat it under the same append id",
            ) from None
        except OSError:
            answer = None
        if answer is None:
            self._hang_up()
        return answer

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _send(connection: socket.socket, kind: int, content: bytes) -> None:
    connection.sendall(_FRAME.pack(kind, len(content)) + content)


def _receive(connection: socket.socket) -> tuple[int, bytes] | None:
    """The next frame; None when the other side hung up, or speaks of more bytes than there may be."""
    head = _exactly(connection, _FRAME.size)
    if head is None:
        return None
    kind, size = _FRAME.unpack(head)
    content = None if size > RPC_MESSAGE_BYTES_MAX else _exactly(connection, size)
    return None if content is None else (kind, content)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    content = b""
    while len(content) < size:
        more = connection.recv(size - len(content))
        if not more:
            return None
        content += more
    return content


def _told(error: PolycError) -> _Error:
    return _Error(
        family=wire.family_of(error),
        code=error.code,
        message=error.message,
        hint=error.hint,
        actual=error.actual if isinstance(error, ConflictError) else 0,
    )


def _raised(error: _Error) -> PolycError:
    return wire.error_of(error.family, error.message, code=error.code, hint=error.hint, actual=error.actual)
