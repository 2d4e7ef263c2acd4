"""One answer at every door of the edge: plain JSON, Connect, gRPC-Web, gRPC on the socket, the client, the command line."""

import json
import shlex
import struct

import grpc
import httpx
import pytest
from connectrpc.codec import proto_binary_codec, proto_json_codec
from connectrpc.errors import ConnectError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from polyc.cli import searching
from polyc.cli.edge import edge_url, keep_grant, kept_grant
from polyc.cli.parser import build_parser
from polyc.errors import RefusedError, UnavailableError
from polychrome.search.v1.search_connect import SearchServiceClientSync
from polychrome.search.v1.search_pb import Filters, SearchRequest, SearchResponse
from query_plane.search_client import PATH, SearchClient
from search.query.wire import FilterBody, SearchBody
from tests.cli.runner import polyc

NAME = "polychrome.search.v1.SearchService"


def test_every_door_gives_the_same_answer(served, word):
    token = served.token()
    headers = {"authorization": f"Bearer {token}"}
    plain = httpx.post(
        served.url + PATH, content=json.dumps({"query": word, "limit": 3, "facets": True}),
        headers={**headers, "content-type": "application/json"},
    ).json()  # fmt: skip
    assert plain["results"]
    request = SearchRequest(query=word, limit=3, facets=True)
    for codec in (proto_binary_codec(), proto_json_codec()):
        answer = SearchServiceClientSync(served.url, codec=codec).search(request, headers=headers)
        assert json.loads(answer.to_json()) == json.loads(SearchResponse.from_json(json.dumps(plain)).to_json())
    body = request.to_binary()
    web = httpx.post(
        served.url + PATH, content=struct.pack(">BI", 0, len(body)) + body,
        headers={**headers, "content-type": "application/grpc-web+proto", "x-grpc-web": "1"},
    ).content  # fmt: skip
    flag, size = struct.unpack(">BI", web[:5])
    assert flag == 0
    assert [hit.citation for hit in SearchResponse.from_binary(web[5 : 5 + size]).results] == _citations(plain)
    with grpc.insecure_channel(f"unix:{served.root.socket('query')}") as channel:
        call = channel.unary_unary(
            PATH, request_serializer=lambda message: message.to_binary(),
            response_deserializer=SearchResponse.from_binary,
        )  # fmt: skip
        metadata = [("authorization", f"Bearer {token}")]
        assert [hit.citation for hit in call(request, metadata=metadata).results] == _citations(plain)
        with pytest.raises(grpc.RpcError) as caught:
            call(SearchRequest(query=word, limit=0), metadata=metadata)
        assert caught.value.code() == grpc.StatusCode.OUT_OF_RANGE
        stub = health_pb2_grpc.HealthStub(channel)
        assert stub.Check(health_pb2.HealthCheckRequest(service=NAME)).status == 1
        asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol=NAME)
        (told,) = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([asked]))
        assert b"retrieval_score" in told.file_descriptor_response.file_descriptor_proto[0]
    client = SearchClient(served.url, token).search(SearchBody(query=word, limit=3))
    assert [hit.citation for hit in client.results] == _citations(plain)


def test_every_door_refuses_with_the_same_code(served):
    for token, request, code in (
        ("x.y.z", SearchRequest(query="points"), "unauthenticated"),
        (served.token(), SearchRequest(query="points", filters=Filters(since="yesterday")), "invalid_argument"),
        (served.token(), SearchRequest(query="points", filters=Filters(source_groups=["no such"])), "not_found"),
    ):
        with pytest.raises(ConnectError) as caught:
            SearchServiceClientSync(served.url).search(request, headers={"authorization": f"Bearer {token}"})
        assert caught.value.code.value == code
        with pytest.raises(RefusedError) as refused:
            SearchClient(served.url, token).ask(request.to_json().encode())
        assert refused.value.code == code


@pytest.mark.parametrize(
    ("method", "kind", "status"),
    [
        ("GET", "application/json", 405),
        ("POST", "application/x-www-form-urlencoded", 415),
        ("POST", "text/plain", 415),
        ("POST", "", 415),
    ],
)
def test_other_methods_and_types_are_refused(served, method, kind, status):
    headers = {"authorization": f"Bearer {served.token()}", "content-type": kind}
    assert httpx.request(method, served.url + PATH, content=b"{}", headers=headers).status_code == status


def test_a_command_asks_the_running_edge_under_the_grant_of_the_last_one(served, capsys, monkeypatch, word):
    arguments = build_parser().parse_args(["--data-root", str(served.root.path), "search", "--persona", "maren", word])
    assert edge_url(served.root) == served.url
    now_ms = 1_000
    keep_grant(served.root, "persona:maren", served.token(), 10**15, now_ms=now_ms)
    monkeypatch.setattr("polyc.cli.deployment.opened", _nothing)
    assert searching.run(arguments) == 0
    assert "result" in capsys.readouterr().out
    keep_grant(served.root, "persona:maren", "x.y.z", 10**15, now_ms=now_ms)
    with pytest.raises(AssertionError):  # a grant that the edge refuses is minted anew, which needs the deployment
        searching.run(arguments)
    assert kept_grant(served.root, "persona:maren", now_ms=10**15) is None
    keep_grant(served.root, "persona:maren", "x.y.z", 0, now_ms=now_ms)


def _nothing(*_: object, **__: object) -> None:
    raise AssertionError("the command opened the deployment")


def test_an_edge_that_is_gone_is_no_error(root, word):
    folder = root / "run" / "edge.json"
    folder.write_text('{"url": "http://127.0.0.1:1"}')
    try:
        assert json.loads(polyc(root, "search", "--admin", "--format", "json", word).out)["results"]
        with pytest.raises(UnavailableError):
            SearchClient("http://127.0.0.1:1", "x").ask(b"{}")
    finally:
        folder.unlink()


def test_what_a_hit_suggests_shows_and_proves_it(root, word):
    """Copy and paste: every suggested command runs as it is printed."""
    found = polyc(root, "search", "--admin", "--format", "json", "--verbose", word)
    hit = json.loads(found.out)["results"][0]
    commands = hit["suggested_next_commands"]
    assert [command.split()[1] for command in commands] == ["--data-root"] * 3
    for command in commands:
        assert f"--data-root {root}" in command
        done = polyc(root, *shlex.split(command)[3:])
        assert done.code == 0, (command, done.err)


def _citations(plain: dict) -> list[str]:
    return [hit["citation"] for hit in plain["results"]]


def test_the_filters_of_a_body_are_the_filters_of_the_message():
    assert set(FilterBody.__struct_fields__) == set(Filters.__slots__)
