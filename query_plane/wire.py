"""What the edge and a worker say to each other over their socket pair.

A message is `length u32 big-endian | msgpack of a tagged struct`; descriptors ride with a `Run`. The worker is not
trusted: every message from it is bounded and decoded into one of the structs below, nothing else.

    edge    Check → …                            → Run + descriptors → …
    worker        … Checked | Refused             …                  → Started, Rows*, Finished | Refused
    edge    Probe + descriptors → …               (the start-up self-test)
    worker                      … Passed

`query_plane.admission_wire` says what the edge and an admitter say to each other, in the same frames.
"""

import array
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from polyc.errors import Code
from polyc.limits import WORKER_MESSAGE_SIZE_BYTES_MAX

LENGTH: Final = struct.Struct(">I")
FORK: Final = b"F"  # to the zygote: fork one worker
FORK_ADMITTER: Final = b"A"  # to the zygote: fork one admitter
PID: Final = struct.Struct(">i")  # from the zygote, with the new process's socket and its pidfd
DESCRIPTORS_MAX: Final = 64  # more tables than the catalog has

Want = Literal["json", "arrow"]


class Check(msgspec.Struct, frozen=True, kw_only=True, tag="check"):
    """Judge this text with the first parser."""

    sql: str
    relations: dict[str, list[str]]
    parameters: dict[str, Any]
    may_explain: bool


class Checked(msgspec.Struct, frozen=True, kw_only=True, tag="checked"):
    """It passed: these relations (None = all columns) are read."""

    relations: dict[str, list[str] | None]
    explain: bool


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A relation of the statement.

    `descriptor` is the place of its admitted rows among the message's descriptors: an Arrow IPC stream in a sealed
    memory file or, with a `schema` (an Arrow schema message), a door to scan them through (`query_plane.scanning`).
    `view` is a SELECT of ours over files or over other sources. Exactly one of the two is set.
    """

    name: str
    descriptor: int | None = None
    schema: bytes | None = None
    view: str | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True, tag="run"):
    """Run the checked text over these sources, made in this order."""

    sources: list[Source]
    paths: list[str]  # the files the views read; none for a restricted scope
    want: Want
    row_limit: int
    byte_limit: int
    deadline_ms: int
    threads: int
    trailer: dict[str, str]  # what an Arrow stream says at its end beside its own counts


class Probe(msgspec.Struct, frozen=True, kw_only=True, tag="probe"):
    """Seal yourself as for `run`, without any gate, and try these: statements, and files to open."""

    run: Run
    statements: list[str]
    files: list[str]
    try_kernel: bool


class Passed(msgspec.Struct, frozen=True, kw_only=True, tag="passed"):
    """What of a probe succeeded although it must not; empty when the seal holds."""

    attacks: list[str]


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The statement is bound: its columns (name, the engine's type), and the Arrow schema's bytes."""

    columns: list[tuple[str, str]]
    arrow: bytes


class Rows(msgspec.Struct, frozen=True, kw_only=True, tag="rows"):
    """The next rows: JSON text of a list of lists, or Arrow IPC bytes; `size_bytes` as the byte limit counts them."""

    count: int
    size_bytes: int
    body: bytes


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """All rows within the limits were sent."""

    truncated: bool
    reason: str
    arrow: bytes


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """No (more) rows: a code, a text without values or paths, a hint; `refused` tells refusals from failures."""

    code: Code
    message: str
    hint: str | None
    refused: bool


FromEdge = Check | Run | Probe
FromWorker = Checked | Passed | Started | Rows | Finished | Refused

encode: Final = msgspec.msgpack.Encoder().encode
_from_edge: Final = msgspec.msgpack.Decoder(FromEdge)
_from_worker: Final = msgspec.msgpack.Decoder(FromWorker)


def framed(message: FromEdge | FromWorker) -> bytes:
    """The message's bytes with its length before them."""
    body = encode(message)
    return LENGTH.pack(len(body)) + body


def send(connection: socket.socket, message: FromWorker) -> None:
    """Send from the worker's side; blocks while the edge does not read (that is the back-pressure)."""
    connection.sendall(framed(message))


def receive(connection: socket.socket) -> tuple[FromEdge, list[int]] | None:
    """The edge's next message and its descriptors; None when the edge is gone."""
    received = receive_frame(connection)
    return None if received is None else (_from_edge.decode(received[0]), received[1])


def receive_frame(connection: socket.socket) -> tuple[bytearray, list[int]] | None:
    """The next message's bytes and its descriptors, blocking; None when the other side is gone."""
    head, descriptors = _receive_head(connection)
    if not head:
        return None
    body = bytearray()
    (length,) = LENGTH.unpack(head)
    while len(body) < length:
        chunk = connection.recv(min(length - len(body), 1 << 20))
        if not chunk:
            return None
        body += chunk
    return body, descriptors


def decode_from_worker(body: bytes | bytearray) -> FromWorker:
    """A worker's message; msgspec.DecodeError for anything else."""
    return _from_worker.decode(body)


def check_length(head: bytes) -> int:
    """The length of a worker's message; ValueError when it is beyond what a frame may have."""
    (length,) = LENGTH.unpack(head)
    if length > WORKER_MESSAGE_SIZE_BYTES_MAX:
        raise ValueError("a worker's message is too long")
    return int(length)


def send_with_descriptors(connection: socket.socket, message: FromEdge, descriptors: Sequence[int]) -> bytes:
    """Send the length with the descriptors; returns the bytes that are still to be sent."""
    data = framed(message)
    sent = socket.send_fds(connection, [data[: LENGTH.size]], list(descriptors))
    return data[sent:]


def _receive_head(connection: socket.socket) -> tuple[bytes, list[int]]:
    head = b""
    descriptors = array.array("i")
    while len(head) < LENGTH.size:
        room = socket.CMSG_LEN(DESCRIPTORS_MAX * descriptors.itemsize)
        data, ancillary, _flags, _address = connection.recvmsg(LENGTH.size - len(head), room)
        if not data:
            return b"", []
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
        head += data
    return head, list(descriptors)
