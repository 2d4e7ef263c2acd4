"""A reader that takes nothing loses its query after a while, at every door: one outcome, no slot held (F20)."""

import asyncio
import json

import grpc
import pytest

from polychrome.query.v1.query_pb import ExecuteRequest, ExecuteResponse
from query_plane import grpc_door
from query_plane.edge import create_app
from tests.query_plane.cores import until
from tests.query_plane.edge import EXECUTE

ENDLESS = {
    "sql": "SELECT md5(i::VARCHAR) || md5((-i)::VARCHAR) AS x FROM range(10000000000) t(i)",
    "row_limit": 1_000_000,
}


async def stalled(core, headers: dict[str, str], body: bytes) -> None:
    """One request whose caller sends its body and then neither reads nor leaves."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        return messages.pop() if messages else await asyncio.Event().wait()

    async def send(message):
        if message["type"] == "http.response.body" and message.get("body"):
            await asyncio.Event().wait()

    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "method": "POST",
        "path": EXECUTE,
        "headers": pairs,
        "query_string": b"",
        "http_version": "1.1",
    }
    async with asyncio.timeout(20):
        await create_app(core)(scope, receive, send)


def connect_body() -> bytes:
    text = json.dumps(ENDLESS).encode()
    return b"\x00" + len(text).to_bytes(4) + text


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-type": "application/json"}, json.dumps(ENDLESS).encode()),
        ({"accept": "application/vnd.apache.arrow.stream"}, json.dumps(ENDLESS).encode()),
        ({"content-type": "application/connect+json", "connect-protocol-version": "1"}, connect_body()),
    ],
)
def test_a_reader_over_http_that_stalls_loses_its_query(deployment, loop, monkeypatch, headers, body):
    monkeypatch.setattr("query_plane.asgi.WRITE_DEADLINE_S", 0.2)
    bearer = {"authorization": f"Bearer {deployment.grant('ada')}"}
    loop.run(stalled(loop.core, bearer | headers, body))
    loop.run(until(loop.journal.outcomes))
    assert loop.journal.outcomes() == [("cancelled", "canceled")]
    assert loop.core.held == 0


def test_a_reader_over_http_that_reads_is_not_taken_for_one_that_stalls(deployment, loop, monkeypatch):
    monkeypatch.setattr("query_plane.asgi.WRITE_DEADLINE_S", 0.2)

    async def read():
        done = asyncio.Event()
        body = json.dumps({"sql": "SELECT 1"}).encode()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message):
            if not message.get("more_body", True):
                done.set()

        pairs = [(b"authorization", f"Bearer {deployment.grant('ada')}".encode())]
        scope = {"type": "http", "method": "POST", "path": EXECUTE, "headers": pairs}
        await create_app(loop.core)(scope, receive, send)
        assert done.is_set()

    loop.run(read())
    assert loop.journal.outcomes() == [("ok", None)]


def test_a_reader_over_grpc_that_stalls_loses_its_query(deployment, loop, monkeypatch, tmp_path):
    monkeypatch.setattr(grpc_door, "WRITE_DEADLINE_S", 0.2)
    metadata = (("authorization", f"Bearer {deployment.grant('ada')}"),)

    async def stall():
        async with (
            grpc_door.serving(loop.core, tmp_path / "q"),
            grpc.aio.insecure_channel(f"unix:{tmp_path}/q") as there,
        ):
            call = there.unary_stream(
                EXECUTE,
                request_serializer=lambda message: message.to_binary(),
                response_deserializer=ExecuteResponse.from_binary,
            )(ExecuteRequest(sql=ENDLESS["sql"], row_limit=1_000_000), metadata=metadata)
            await call.read()
            await until(loop.journal.outcomes)
            call.cancel()

    loop.run(stall())
    assert loop.journal.outcomes() == [("cancelled", "canceled")]
    assert loop.core.held == 0
