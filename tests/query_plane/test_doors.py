"""Every door leads to the same core: Connect, gRPC-Web, gRPC on the socket, the clients, DB-API, CORS, compression."""

import asyncio
import gzip
import json
import struct

import grpc
import httpx
import pyarrow as pa
import pytest
from connectrpc.errors import ConnectError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from polyc.errors import RefusedError, UnavailableError
from polychrome.query.v1.query_connect import QueryServiceClientSync
from polychrome.query.v1.query_pb import (
    DescribeCatalogRequest,
    DescribeCatalogResponse,
    ExecuteRequest,
    ExecuteResponse,
)
from query_plane import dbapi
from query_plane.answer import IncompleteAnswerError, SchemaFrame, TrailerFrame
from query_plane.client import AsyncClient, Client, frame_of
from query_plane.completion import completions
from tests.query_plane.edge import DESCRIBE, EXECUTE, frames

SQL = "SELECT role, COUNT(*) AS n FROM messages GROUP BY role ORDER BY role"
EXPECTED = [["assistant", 1], ["user", 1]]


def bearer(edge, **who):
    return {"authorization": f"Bearer {edge.token(**who)}"}


def arrow_of(messages) -> pa.Table:
    parts = [m.frame.value.arrow for m in messages]
    return pa.ipc.open_stream(b"".join(parts)).read_all()


# --- Connect ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["proto", "json"])
def test_the_generated_client_reads_frames(edge, codec):
    from connectrpc.codec import proto_binary_codec, proto_json_codec

    chosen = proto_binary_codec() if codec == "proto" else proto_json_codec()
    client = QueryServiceClientSync(edge.url, codec=chosen)
    messages = list(client.execute(ExecuteRequest(sql=SQL), headers=bearer(edge)))
    assert [m.frame.field for m in messages] == ["schema", "batch", "trailer"]
    assert messages[-1].frame.value.truncated is False
    assert messages[-1].frame.value.has_field("truncated")
    if codec == "proto":
        assert arrow_of(messages).to_pylist() == [{"role": r, "n": n} for r, n in EXPECTED]
    else:
        rows = [json.loads(row.to_json()) for row in messages[1].frame.value.rows]
        assert rows == [[r, float(n)] for r, n in EXPECTED]


def test_the_generated_client_gets_code_message_and_hint(edge):
    client = QueryServiceClientSync(edge.url)
    with pytest.raises(ConnectError) as caught:
        list(client.execute(ExecuteRequest(sql="SELECT * FROM mesages"), headers=bearer(edge)))
    assert caught.value.code.value == "not_found"
    assert b"did you mean" in caught.value.details[0].message_bytes
    with pytest.raises(ConnectError) as caught:
        list(client.execute(ExecuteRequest(sql="SELECT 1"), headers={"authorization": "Bearer x"}))
    assert caught.value.code.value == "unauthenticated"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"sql":"SELECT 1"}', None),
        (b'{"sql":"SELECT 1","sql":"SELECT 2"}', "invalid_argument"),
        (b'{"sql":"SELECT $a","parameters":{"a":1,"a":2}}', "invalid_argument"),
        (b"[]", "invalid_argument"),
        (b"\xff", "invalid_argument"),
    ],
)
def test_a_json_message_can_be_read_in_one_way(edge, text, code):
    response = httpx.post(
        edge.url + EXECUTE,
        content=struct.pack(">BI", 0, len(text)) + text,
        headers=bearer(edge) | {"content-type": "application/connect+json", "connect-protocol-version": "1"},
    )
    last = response.content[response.content.rindex(b"\x02\x00\x00") + 5 :]
    assert json.loads(last).get("error", {}).get("code") == code
    assert b"SELECT" not in last


def test_parameters_and_limits_travel_in_the_message(edge):
    client = QueryServiceClientSync(edge.url)
    request = ExecuteRequest.from_json('{"sql":"SELECT $a AS a FROM range(9)","parameters":{"a":7},"row_limit":2}')
    messages = list(client.execute(request, headers=bearer(edge)))
    assert arrow_of(messages).column("a").to_pylist() == [7, 7]
    assert messages[-1].frame.value.truncated is True


def test_the_catalog_can_be_asked_by_get(edge):
    client = QueryServiceClientSync(edge.url)
    catalog = client.describe_catalog(DescribeCatalogRequest(), headers=bearer(edge), use_get=True)
    assert "messages" in {table.name for table in catalog.tables}


# --- gRPC-Web and gRPC -----------------------------------------------------------------------------------------------


def test_grpc_web_answers_over_http_1(edge):
    body = ExecuteRequest(sql=SQL).to_binary()
    response = httpx.post(
        edge.url + EXECUTE,
        content=struct.pack(">BI", 0, len(body)) + body,
        headers=bearer(edge) | {"content-type": "application/grpc-web+proto", "x-grpc-web": "1"},
    )
    data, messages, trailer = response.content, [], b""
    while data:
        flag, size = struct.unpack(">BI", data[:5])
        part, data = data[5 : 5 + size], data[5 + size :]
        if flag & 0x80:
            trailer = part
        else:
            messages.append(ExecuteResponse.from_binary(part))
    assert arrow_of(messages).num_rows == 2
    assert b"grpc-status: 0" in trailer.lower().replace(b":0", b": 0")


@pytest.fixture
def channel(edge):
    socket = edge.deployment.root.socket("query")
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        yield channel


def execute_on(channel):
    return channel.unary_stream(
        EXECUTE,
        request_serializer=lambda message: message.to_binary(),
        response_deserializer=ExecuteResponse.from_binary,
    )


def test_grpcio_executes_on_the_private_socket(edge, channel):
    metadata = [("authorization", f"Bearer {edge.token()}")]
    messages = list(execute_on(channel)(ExecuteRequest(sql=SQL), metadata=metadata))
    assert arrow_of(messages).num_rows == 2
    describe = channel.unary_unary(
        DESCRIBE,
        request_serializer=lambda message: message.to_binary(),
        response_deserializer=DescribeCatalogResponse.from_binary,
    )
    assert describe(DescribeCatalogRequest(), metadata=metadata).realm == "participant"


@pytest.mark.parametrize(
    ("sql", "token", "code"),
    [
        ("SELECT * FROM signer_keys", None, grpc.StatusCode.NOT_FOUND),
        ("DELETE FROM messages", None, grpc.StatusCode.INVALID_ARGUMENT),
        ("SELECT 1", "x", grpc.StatusCode.UNAUTHENTICATED),
    ],
)
def test_grpcio_gets_the_same_codes(edge, channel, sql, token, code):
    with pytest.raises(grpc.RpcError) as caught:
        list(
            execute_on(channel)(
                ExecuteRequest(sql=sql), metadata=[("authorization", f"Bearer {token or edge.token()}")]
            )
        )
    assert caught.value.code() == code
    assert dict(caught.value.trailing_metadata())["polychrome-hint-bin"]


def test_health_and_reflection_are_served(channel):
    health = health_pb2_grpc.HealthStub(channel)
    name = "polychrome.query.v1.QueryService"
    assert health.Check(health_pb2.HealthCheckRequest(service=name)).status == health_pb2.HealthCheckResponse.SERVING
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=name)
    (answer,) = stub.ServerReflectionInfo(iter([request]))
    assert b"DescribeCatalog" in answer.file_descriptor_response.file_descriptor_proto[0]


# --- the browser, the wire -------------------------------------------------------------------------------------------


def test_a_named_origin_may_call_from_a_browser_and_another_may_not(edge):
    asking = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    for origin, allowed in (("http://localhost:1", True), ("http://evil.example", False)):
        preflight = httpx.options(edge.url + EXECUTE, headers=asking | {"origin": origin})
        assert (preflight.headers.get("access-control-allow-origin") == origin) is allowed
        for sql in ("SELECT 1", "SELECT", "SELECT * FROM signer_keys"):
            answer = edge.sql(sql, headers={"origin": origin})
            assert (answer.headers.get("access-control-allow-origin") == origin) is allowed
        refused = httpx.post(edge.url + EXECUTE, headers={"origin": origin})
        assert refused.status_code == 401
        assert (refused.headers.get("access-control-allow-origin") == origin) is allowed
    assert "access-control-allow-credentials" not in preflight.headers


def test_a_json_answer_is_compressed_when_asked(edge):
    with httpx.stream(
        "POST",
        edge.url + EXECUTE,
        json={"sql": "SELECT repeat('a', 1000) AS a FROM range(1000)"},
        headers=bearer(edge) | {"accept-encoding": "gzip"},
    ) as response:
        raw = b"".join(response.iter_raw())
    assert response.headers["content-encoding"] == "gzip"
    assert len(raw) < 100_000
    assert len(gzip.decompress(raw)) > 1_000_000


def test_metrics_and_health_need_no_bearer_and_tell_no_content(edge):
    edge.sql("SELECT 'zz_marked'")
    text = httpx.get(edge.url + "/metrics").text
    assert "polyc_queries_total" in text
    assert "zz_marked" not in text
    assert httpx.get(edge.url + "/healthz").json() == {"status": "serving"}


def test_other_paths_and_methods_are_refused(edge):
    assert httpx.get(edge.url + "/").status_code == 404
    assert httpx.put(edge.url + EXECUTE).status_code == 405


# --- clients ---------------------------------------------------------------------------------------------------------


def test_the_async_client_gives_what_the_sync_one_gives(edge):
    async def ask():
        async with AsyncClient(edge.url, edge.token) as client:
            answer = await client.query(SQL)
            table = await client.arrow(SQL)
            names = [table.name for table in (await client.catalog()).tables]
            kinds = [type(frame) async for frame in client.stream(SQL)]
            return answer.rows, table.num_rows, names, kinds

    rows, count, names, kinds = asyncio.run(ask())
    assert rows == edge.client().rows(SQL) == EXPECTED
    assert (count, "messages" in names) == (2, True)
    assert (kinds[0], kinds[-1]) == (SchemaFrame, TrailerFrame)


def test_errors_arrive_as_our_families(edge):
    with pytest.raises(RefusedError) as caught:
        edge.client().query("SELECT * FROM mesages")
    assert (caught.value.code, caught.value.hint) == ("not_found", 'did you mean "messages"?')
    with pytest.raises(UnavailableError), Client("http://127.0.0.1:1", "x") as client:
        client.query("SELECT 1")
    with pytest.raises(UnavailableError):
        frame_of(b"not json")


def test_a_server_that_dies_in_mid_answer_leaves_no_whole_answer(edge):
    def broken(_request):
        def body():
            yield b'{"schema":{"columns":[]}}\n'
            raise httpx.RemoteProtocolError("gone")

        return httpx.Response(200, content=body())

    with (
        pytest.raises(IncompleteAnswerError),
        Client("http://edge", "x", transport=httpx.MockTransport(broken)) as client,
    ):
        client.query("SELECT 1")


def test_a_client_never_shows_its_token(edge):
    token = edge.token()
    with Client(edge.url, token) as client:
        assert token not in repr(client) + repr(vars(client).get("_http"))


def test_dbapi_reads_and_converts_named_parameters(edge):
    with dbapi.connect(edge.url, token=edge.token) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT role, 'a:b' AS x FROM messages WHERE role = :role", {"role": "user"})
        assert cursor.description[0][:2] == ("role", "VARCHAR")
        assert cursor.fetchall() == [("user", "a:b")]
        assert cursor.fetchone() is None
        cursor.execute("SELECT * FROM range(5)")
        assert (cursor.rowcount, cursor.fetchmany(2), list(cursor)) == (5, [(0,), (1,)], [(2,), (3,), (4,)])
        connection.commit()
        with pytest.raises(dbapi.NotSupportedError):
            connection.rollback()
        with pytest.raises(dbapi.ProgrammingError):
            cursor.execute("DELETE FROM messages")
        with pytest.raises(dbapi.DataError):
            cursor.execute("SELECT * FROM range(20000)")


def test_dbapi_gives_a_part_only_to_who_asked_for_parts(edge):
    with dbapi.connect(edge.url, token=edge.token, allow_truncated=True, row_limit=3) as connection:
        assert len(connection.cursor().execute("SELECT * FROM range(9)").fetchall()) == 3
    with pytest.raises(dbapi.InterfaceError):
        connection.cursor().execute("SELECT 1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM mes", "messages"),
        ("SELECT ro| FROM messages", "role"),
        ("SELECT m.te| FROM messages m", "text"),
        ("SELECT messages.te", "text"),
        ("SELECT upp", "upper("),
        ("sel", "select"),
        ("SEL", "SELECT"),
    ],
)
def test_completion_offers_what_the_grant_may_name(edge, text, expected):
    cursor = text.find("|") if "|" in text else len(text)
    offered = completions(edge.client().catalog(), text.replace("|", ""), cursor)
    assert expected in offered
    assert "signer_keys" not in completions(edge.client().catalog(), "SELECT * FROM sig", 17)


def test_json_lines_are_the_proto3_json_of_the_frames(edge):
    for line in frames(edge.sql("SELECT 1 AS a, 'x' AS b")):
        assert json.loads(ExecuteResponse.from_json(json.dumps(line)).to_json()).keys() == line.keys()
