"""HTTP/1.1 at the edge, byte by byte: what is no request is refused, and nothing is collected without a bound."""

import re
import socket
from urllib.parse import urlsplit

import pytest

from polyc.limits import BODY_SIZE_BYTES_MAX, HEAD_SIZE_BYTES_MAX, PIPELINED_MAX
from tests.query_plane.edge import EXECUTE, Edge

HEALTH = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"
PIECE = b"a" * 4096
PIECES = 4 * HEAD_SIZE_BYTES_MAX // len(PIECE)


class Wire:
    """A connection to the edge, literally."""

    def __init__(self, edge: Edge) -> None:
        address = urlsplit(edge.url)
        self._socket = socket.create_connection((address.hostname, address.port), timeout=20)

    def send(self, *pieces: bytes) -> "Wire":
        """Send until the edge hangs up."""
        try:
            for piece in pieces:
                self._socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return self

    def read(self) -> bytes:
        """All that is answered until the edge hangs up."""
        found = b""
        try:
            while piece := self._socket.recv(65536):
                found += piece
        except ConnectionResetError:  # it hung up with something of ours unread
            pass
        self._socket.close()
        return found

    def statuses(self) -> list[bytes]:
        return re.findall(rb"HTTP/1.1 ([0-9]{3}) ", self.read())


def last(request: bytes) -> bytes:
    """The request, after whose answer the edge hangs up."""
    return request.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1)


def execute(edge: Edge, *headers: bytes, close: bool = True) -> bytes:
    lines = (
        f"POST {EXECUTE} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {edge.token()}\r\ncontent-type: application/json"
    )
    return b"\r\n".join([lines.encode(), *([b"connection: close"] if close else []), *headers, b"\r\n"])


def chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))


@pytest.mark.parametrize(
    "endless",
    [
        [b"GET /", *[PIECE] * PIECES],
        [b"GET / HTTP/1.1\r\nx: ", *[PIECE] * PIECES],
        [b"GET / HTTP/1.1\r\n", *[PIECE] * PIECES],
        [b"GET / HTTP/1.1\r\n", *[b"x: " + PIECE + b"\r\n"] * PIECES],
        [b"GET / HTTP/1.1\r\n", *[b"x: y\r\n" * 1000] * 100],
        [b"GET / HTTP/1.1\r\nx: y\r\n " + PIECE, *[b"\r\n " + PIECE] * PIECES],
    ],
    ids=["target", "value", "name", "headers", "small headers", "folded"],
)
def test_a_head_that_does_not_end_is_refused(edge, endless):
    assert Wire(edge).send(*endless).statuses() in ([b"400"], [])  # [] when the reset overtook the answer


@pytest.mark.parametrize(
    "endless",
    [
        [b"5;x=", *[PIECE] * PIECES],
        [b"0\r\nx: ", *[PIECE] * PIECES],
        [b"0\r\n", *[b"x: " + PIECE + b"\r\n"] * PIECES],
        [b"0" * 65536] * 4,
    ],
    ids=["chunk extension", "trailer", "trailers", "chunk size"],
)
def test_what_stands_around_a_body_is_bounded_too(edge, endless):
    begun = execute(edge, b"transfer-encoding: chunked")
    assert Wire(edge).send(begun, *endless).statuses() in ([b"400"], [])


def test_a_head_within_the_bound_and_a_body_in_many_chunks_are_read(edge):
    long = b"x: " + b"y" * (HEAD_SIZE_BYTES_MAX // 2)
    assert Wire(edge).send(last(HEALTH.replace(b"host: a", b"host: a\r\n" + long))).statuses() == [b"200"]
    body = b'{"sql": "SELECT 1' + b" " * 20_000 + b'"}'
    begun = execute(edge, b"transfer-encoding: chunked")
    assert Wire(edge).send(begun, chunks(*[body[at : at + 1] for at in range(len(body))])).statuses() == [b"200"]


def test_a_body_beyond_its_bound_is_refused_in_words(edge):
    begun = execute(edge, b"content-length: %d" % (2 * BODY_SIZE_BYTES_MAX))
    answer = Wire(edge).send(begun, b" " * (BODY_SIZE_BYTES_MAX + 1)).read()
    assert b"resource_exhausted" in answer


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost : a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: a\x00b\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nhost: a\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 5\r\n\r\nabcde",
        b"POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: +3\r\n\r\nabc",
        b"POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nz\r\n",
        b"POST /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_two_readers_could_read_differently_is_no_request(edge, request_):
    assert Wire(edge).send(request_, HEALTH).statuses() in ([b"400"], [])  # [] when its answer had been begun


def test_an_upgrade_is_not_taken(edge):
    asked = last(HEALTH.replace(b"host: a", b"host: a\r\nconnection: upgrade\r\nupgrade: h2c"))
    assert Wire(edge).send(asked).statuses() == [b"200"]


def test_pipelined_requests_are_answered_in_order_up_to_a_bound(edge):
    some = [HEALTH] * (PIPELINED_MAX - 1)
    assert Wire(edge).send(b"".join([*some, last(HEALTH)])).statuses() == [b"200"] * PIPELINED_MAX
    many = Wire(edge).send(HEALTH * 1000).statuses()
    assert set(many) <= {b"200"}
    assert len(many) < 1000


def test_nonsense_after_a_request_is_not_answered_within_its_answer(edge):
    answer = Wire(edge).send(HEALTH + b"nonsense\r\n\r\n").read()
    assert b"Invalid HTTP" not in answer
