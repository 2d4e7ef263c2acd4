"""The agents' tools: constant statements over the trusted conversation; the assistants': SQL under the caller's grant."""

import asyncio
import json
import sys

import httpx
import pytest
from mcp.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client

from control.assistant_mcp import Addresses, Assistant, assistant_app, assistant_mcp
from control.statement_grants import StatementGrants
from control.statements import Statements
from control.tools import LIST_TOOL_CALLS, RECENT_TURNS
from polyc.durable import write_file
from polyc.errors import CorruptError, RefusedError
from polyc.grants import Inline
from polyc.published import EdgeTrust
from tests.control.edge_double import EdgeDouble, listening
from tests.control.harness_programs import PREAMBLE
from tests.control.serving import Client, serving

TOOL_PROGRAM = """
answers = [post("/api/tools/conversation_recent_turns", **body) for body in json.loads(turn["prompt"])]
answer(json.dumps(answers))
done()
"""
MCP_PROGRAM = """
def mcp(method, **params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    request = urllib.request.Request(turn["control"]["url"] + "/mcp", data=json.dumps(body).encode(), method="POST",
        headers={"authorization": "Bearer " + turn["control"]["credential"], "content-type": "application/json",
                 "accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"})
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        return {"http": error.code, "body": error.read().decode()}

listed = mcp("tools/list")
called = mcp("tools/call", name="conversation_list_tool_calls", arguments={"count": 7, "detail": "full"})
other = mcp("tools/call", name="conversation_list_tool_calls", arguments={"conversation": "conv-other"})
answer(json.dumps([[tool["name"] for tool in listed["result"]["tools"]], called, other]))
done()
"""


@pytest.fixture
def edge(deployment):
    double = EdgeDouble(EdgeTrust(deployment.root.published, deployment.keys.policy, clock=deployment.clock))
    with listening(double.app()) as url:
        double.url = url
        yield double


@pytest.fixture
def statements(local, edge):
    statements = Statements(edge.url, mint=StatementGrants(local.context).mint)
    yield statements
    statements.close()


@pytest.fixture
def ada(deployment, local, statements, tmp_path):
    configs = {}
    for name, program in (("tool", TOOL_PROGRAM), ("mcp", MCP_PROGRAM)):
        (tmp_path / f"{name}.py").write_text(PREAMBLE + program)
        configs[name] = {"kind": "subprocess", "command": [sys.executable, str(tmp_path / f"{name}.py")]}
    write_file(deployment.root.path / "harnesses.json", json.dumps(configs).encode(), mode=0o600)
    with serving(local.context, statements=statements) as url:
        yield Client(url, local.create_session("ada").bearer)


def test_a_tool_runs_a_constant_statement_over_its_own_conversation(ada, edge) -> None:
    conversation = ada.open()
    bodies = [{}, {"count": 7, "detail": "full"}, {"count": 1000}, {"conversation": "conv-other"}, {"sql": "SELECT 1"}]
    answers = json.loads(ada.turn(conversation, "tool", prompt=json.dumps(bodies))[-2]["text"])
    assert [status for status, _ in answers] == [200, 200, 200, 400, 400]
    assert answers[0][1] == {"rows": [{"n": 1}]}
    assert [(body["sql"], body["row_limit"]) for _, body in edge.asked] == [
        (RECENT_TURNS["brief"], 20),
        (RECENT_TURNS["full"], 7),
        (RECENT_TURNS["brief"], 50),
    ]
    for grant, body in edge.asked:
        assert grant.scope == Inline(partitions=(conversation,))
        assert (grant.realm, grant.surface, grant.subject) == ("fleet", "tool", "ada")
        assert "parameters" not in body


def test_an_agent_has_the_same_two_tools_over_mcp_and_no_other(ada, edge) -> None:
    conversation = ada.open()
    names, called, other = json.loads(ada.turn(conversation, "mcp")[-2]["text"])
    assert names == ["conversation_recent_turns", "conversation_list_tool_calls"]
    assert called["result"]["structuredContent"] == {"rows": [{"n": 1}]}
    assert "error" in other or other["result"].get("isError") or len(edge.asked) == 2
    assert (edge.asked[0][1]["sql"], edge.asked[0][1]["row_limit"]) == (LIST_TOOL_CALLS["full"], 7)
    assert {grant.scope for grant, _ in edge.asked} == {Inline(partitions=(conversation,))}


def test_a_statement_grant_is_reused_while_young_and_dies_with_a_revocation(
    local, statements, edge, deployment
) -> None:
    local.ensure_persona("ada")

    def run() -> None:
        statements.run("SELECT 1", subject="ada", scope=Inline(partitions=()), surface="dashboard")

    run()
    run()
    deployment.open_conversation("conv-a")
    local.join("conv-a", "ada")
    local.leave("conv-a", "ada")
    run()
    deployment.clock.advance(seconds=62)
    run()
    assert len({grant.credential_id for grant, _ in edge.asked}) == 3


def test_half_an_answer_is_none_and_a_refusal_keeps_its_code(local, statements, edge) -> None:
    with pytest.raises(RefusedError) as caught:
        statements.run("FAIL", subject="ada", scope=Inline(partitions=()))
    assert (caught.value.code, caught.value.hint) == ("invalid_argument", "try")
    edge.half = True
    with pytest.raises(CorruptError):
        statements.run("SELECT 1", subject="ada", scope=Inline(partitions=()))


@pytest.fixture
def assistant(ada, edge, deployment):
    made = Assistant(Addresses(control_url=ada.url, query_url=edge.url), clock=deployment.clock)
    yield made
    made.close()


def tool_calls(target, *calls) -> list:
    async def run() -> list:
        async with McpClient(target) as client:
            listed = [tool.name for tool in (await client.list_tools()).tools]
            return [listed, *[await client.call_tool(name, arguments) for name, arguments in calls]]

    return asyncio.run(run())


def test_an_assistant_queries_under_its_persons_grant(assistant, edge, local) -> None:
    session = local.create_session("ada").bearer
    server = assistant_mcp(assistant, session=session)
    names, answer, catalog, turns, refused = tool_calls(
        server,
        ("query", {"sql": "SELECT 1 AS n"}),
        ("describe_catalog", {}),
        ("recent_turns", {"count": 3}),
        ("query", {"sql": "FAIL"}),
    )
    found, refused_search = tool_calls(
        server,
        ("search", {"text": "points", "workspace": "depot", "since": "60d", "events": True, "limit": 3}),
        ("search", {"text": "FAIL"}),
    )[1:]
    assert found.structured_content == {"results": []}
    question = next(body for _, body in edge.asked if body.get("query") == "points")
    assert question["filters"] == {"workspaces": ["depot"], "since": "60d"}
    assert (question["events"], question["limit"], question["content_scope"]) == (True, 3, "all")
    assert "invalid_argument: no (try)" in refused_search.content[0].text
    assert names == ["query", "describe_catalog", "recent_turns", "list_tool_calls", "search"]
    assert answer.structured_content == {"columns": ["n"], "rows": [[1]], "truncated": False}
    assert catalog.structured_content["realm"] == "participant"
    assert not turns.is_error
    assert refused.is_error
    assert "invalid_argument: no (try)" in refused.content[0].text
    assert {(grant.subject, grant.realm, grant.surface) for grant, _ in edge.asked} == {("ada", "participant", "mcp")}
    assert len({grant.credential_id for grant, _ in edge.asked}) == 1


def test_over_http_each_request_brings_its_bearer(assistant, local) -> None:
    session = local.create_session("ada").bearer
    with listening(lambda port: assistant_app(assistant, port=port)) as url:

        async def run(bearer: str):
            headers = {"authorization": f"Bearer {bearer}"} if bearer else {}
            async with (
                httpx.AsyncClient(headers=headers) as http,
                McpClient(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
            ):
                return await client.call_tool("query", {"sql": "SELECT 1 AS n"})

        for bearer in (session, local.mint_grant(persona="ada")[0]):
            assert asyncio.run(run(bearer)).structured_content["rows"] == [[1]]
        for bearer in ("", "pcs_" + "A" * 43, "nonsense"):
            result = asyncio.run(run(bearer))
            assert result.is_error
            assert "unauthenticated" in result.content[0].text


def test_a_session_outlives_a_revoked_grant(assistant, edge, deployment, local) -> None:
    session = local.create_session("ada").bearer
    assert assistant.query(session, "SELECT 1", row_limit=1)["rows"]
    deployment.open_conversation("conv-a")
    local.join("conv-a", "ada")
    local.leave("conv-a", "ada")
    assert assistant.query(session, "SELECT 1", row_limit=1)["rows"]
    assert len({grant.credential_id for grant, _ in edge.asked}) == 2
