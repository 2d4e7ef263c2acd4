"""The line says what `AuditService` says: appends of audit partitions and where they stand, and nothing to anybody else."""

import socket
import stat
import struct

import msgspec
import pytest

from journal import line
from journal.client import JournalClient
from journal.line import LineClient
from polyc.appending import Draft
from polyc.errors import ConflictError, IdempotencyConflictError, RefusedError, UnavailableError
from polyc.limits import LINE_CONNECTIONS_MAX, RPC_MESSAGE_BYTES_MAX
from tests.journal.running import Running

PARTITION = "query-audit-e-20261130"
INTENT = Draft(96, b'{"type":"query_intent"}')


@pytest.fixture
def client(running: Running):
    with LineClient(running.root.socket("line")) as client:
        yield client


def test_an_append_stands_in_the_log_when_it_is_answered(running: Running, client):
    author = running.author(client, "query")
    acks = [author.append(PARTITION, [INTENT]) for _ in range(3)]
    assert [ack.first_position for ack in acks] == [1, 2, 3]
    assert client.head(PARTITION) == acks[-1].head
    with JournalClient(running.root.socket("journal")) as full:
        assert [record.payload for record in full.read(PARTITION)] == [INTENT.payload] * 3
        assert client.origin == full.origin
    assert client.head("query-audit-nobody") is None


def test_other_partitions_are_refused(running: Running, client):
    for partition in ("conv-a", "sys-keys", "query-audit"):
        with pytest.raises(RefusedError) as refused:
            client.head(partition)
        assert refused.value.code == "permission_denied"
    with JournalClient(running.root.socket("journal")) as full:
        running.say(full, "conv-a", "x")
        author = running.author(client, "harness")
        author._left = full.head("conv-a")  # it knows where to append, and still may not
        with pytest.raises(RefusedError) as refused:
            author.append("conv-a", [Draft(3, b"x")])
        assert refused.value.code == "permission_denied"


def test_conflicts_arrive_as_what_they_are(running: Running, client):
    first, second = running.author(client, "query"), running.author(client, "query")
    first.append(PARTITION, [INTENT], append_id=b"a" * 16)
    with pytest.raises(IdempotencyConflictError):
        second.append(PARTITION, [Draft(96, b"{}")], append_id=b"a" * 16)
    with pytest.raises(ConflictError) as conflict:
        second.append(PARTITION, [INTENT], expected=7)
    assert conflict.value.actual == 1
    second.append(PARTITION, [INTENT])
    assert first.append(PARTITION, [INTENT]).first_position == 3, "an author that was overtaken finds out"


def test_a_client_outlives_a_restart_of_the_journal(running: Running, client):
    author = running.author(client, "query")
    author.append(PARTITION, [INTENT])
    running.stop()
    with pytest.raises(UnavailableError):
        author.append(PARTITION, [INTENT])
    again = Running(running.root)
    try:
        assert author.append(PARTITION, [INTENT]).first_position == 2
    finally:
        again.stop()


def test_nobody_else_may_open_the_socket(running: Running):
    assert stat.S_IMODE(running.root.socket("line").stat().st_mode) == 0o600


@pytest.mark.parametrize(("kind", "content", "code"), [(9, b"", "unimplemented"), (2, b"\xff\xff", "invalid_argument")])
def test_what_is_no_request_is_refused(running: Running, kind, content, code):
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(running.root.socket("line")))
        line._send(stranger, kind, content)
        told, body = line._receive(stranger)
        assert (told, msgspec.msgpack.decode(body)["code"]) == (2, code)


def test_a_size_beyond_the_bound_ends_the_connection(running: Running):
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(running.root.socket("line")))
        stranger.sendall(struct.pack("<BI", 2, RPC_MESSAGE_BYTES_MAX + 1))
        assert stranger.recv(1) == b""


def test_more_connections_than_the_bound_are_turned_away(running: Running):
    path = running.root.socket("line")
    clients = [LineClient(path) for _ in range(LINE_CONNECTIONS_MAX + 1)]
    try:
        for client in clients[:-1]:
            assert client.head(PARTITION) is None
        with pytest.raises(UnavailableError):
            clients[-1].head(PARTITION)
        clients[0].close()
        with pytest.raises(UnavailableError):
            LineClient(path.with_name("nobody.sock")).head(PARTITION)
    finally:
        for client in clients:
            client.close()
