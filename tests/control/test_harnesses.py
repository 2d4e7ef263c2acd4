"""Harnesses beyond programs: a service that answers NDJSON, and an OpenAI-compatible chat endpoint."""

import json

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from control.harness.config import load_harness_file
from facts.events import Message, ModelCall, ToolCall, Usage
from polyc.durable import write_file
from polyc.errors import RefusedError
from tests.control.edge_double import listening
from tests.control.serving import Client, serving

COMPLETION = {
    "id": "chatcmpl-1",
    "model": "tiny-2",
    "choices": [
        {
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "let me look",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 3},
    },
}


class Service:
    """A harness's service; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[dict, dict]] = []

    async def turn(self, request: Request) -> Response:
        self.asked.append((dict(request.headers), await request.json()))

        async def lines():
            text = {"type": "text", "text": "from afar"}
            yield json.dumps(
                {"type": "message", "role": "assistant", "material_origin": "assistant_authored", "blocks": [text]}
            )
            yield "\n"
            yield '{"type":"done",'
            yield '"status":"completed"}'

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def cut(self, request: Request) -> Response:
        return Response('{"type":"message","role":"assistant"', media_type="application/x-ndjson")

    async def broken(self, request: Request) -> Response:
        return Response("no", status_code=500)

    async def chat(self, request: Request) -> Response:
        self.asked.append((dict(request.headers), await request.json()))
        return JSONResponse(COMPLETION)

    async def nothing(self, request: Request) -> Response:
        return JSONResponse({"choices": []})

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/turn", self.turn, methods=["POST"]),
                Route("/cut", self.cut, methods=["POST"]),
                Route("/broken", self.broken, methods=["POST"]),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/empty/chat/completions", self.nothing, methods=["POST"]),
            ]
        )


@pytest.fixture
def service():
    service = Service()
    with listening(service.app()) as url:
        service.url = url
        yield service


@pytest.fixture
def ada(service, deployment, local, tmp_path):
    (tmp_path / "key").write_text("sk-of-the-endpoint\n")
    configs = {
        "far": {"kind": "http", "url": f"{service.url}/turn"},
        "cut": {"kind": "http", "url": f"{service.url}/cut"},
        "broken": {"kind": "http", "url": f"{service.url}/broken"},
        "chat": {
            "kind": "chat",
            "url": f"{service.url}/v1",
            "model": "tiny",
            "api_key_file": str(tmp_path / "key"),
            "system_prompt": "be brief",
        },
        "empty": {"kind": "chat", "url": f"{service.url}/empty", "model": "tiny"},
    }
    write_file(deployment.root.path / "harnesses.json", json.dumps(configs).encode(), mode=0o600)
    with serving(local.context) as url:
        yield Client(url, local.create_session("ada").bearer)


def test_a_service_is_told_the_turn_and_its_lines_are_recorded(ada, service, deployment) -> None:
    conversation = ada.open()
    lines = ada.turn(conversation, "far", prompt="hello")
    assert (lines[1]["text"], lines[-1]["status"]) == ("from afar", "completed")
    headers, body = service.asked[0]
    assert "authorization" not in headers
    assert (body["type"], body["prompt"], body["conversation_id"]) == ("turn", "hello", conversation)
    assert body["control"]["credential"].startswith("pcd_")
    assert body["turn_id"] == lines[0]["turn_id"]


@pytest.mark.parametrize(
    ("harness", "code"), [("cut", "invalid_argument"), ("broken", "aborted"), ("empty", "aborted")]
)
def test_a_service_that_breaks_off_is_a_failed_turn(ada, harness, code) -> None:
    end = ada.turn(ada.open(), harness)[-1]
    assert (end["status"], end["failure_code"]) == ("failed", code)


def test_a_chat_endpoint_tells_its_call_message_tools_and_tokens(ada, service, deployment) -> None:
    conversation = ada.open()
    assert ada.turn(conversation, "chat", prompt="look")[-1]["status"] == "completed"
    by_type = {type(event): event for event in deployment.journal.events(conversation)}
    assert by_type[ModelCall].model == "tiny-2"
    assert by_type[Message].call_id == by_type[ModelCall].call_id
    assert (by_type[ToolCall].name, by_type[ToolCall].arguments) == ("look", '{"a":1}')
    usage = by_type[Usage]
    assert (usage.input_tokens, usage.input_uncached_tokens, usage.cache_read_tokens) == (100, 40, 60)
    assert (usage.output_tokens, usage.reasoning_tokens) == (7, 3)


def test_a_chat_endpoint_is_given_what_was_said_before_and_its_key_from_a_file(ada, service) -> None:
    conversation = ada.open()
    for prompt in ("first", "second"):
        ada.turn(conversation, "chat", prompt=prompt)
    headers, body = service.asked[1]
    assert headers["authorization"] == "Bearer sk-of-the-endpoint"
    assert [(item["role"], item["content"]) for item in body["messages"]] == [
        ("system", "be brief"),
        ("user", "first"),
        ("assistant", "let me look"),
        ("user", "second"),
    ]


@pytest.mark.parametrize(
    "content",
    ['{"x": {"kind": "shell", "command": ["a"]}}', '{"x": {"kind": "http", "url": "file:///etc/passwd"}}',
     '{"x": {"kind": "subprocess", "command": []}}', '{"x": {"kind": "http", "url": "http://a", "token": "s"}}', "no"],
)  # fmt: skip
def test_a_file_of_harnesses_that_does_not_fit_is_refused_without_its_content(tmp_path, content) -> None:
    file = tmp_path / "harnesses.json"
    write_file(file, content.encode(), mode=0o600)
    with pytest.raises(RefusedError) as caught:
        load_harness_file(file)
    assert "passwd" not in caught.value.message


def test_a_file_that_others_can_write_is_refused(tmp_path) -> None:
    file = tmp_path / "harnesses.json"
    write_file(file, b"{}", mode=0o600)
    assert load_harness_file(file) == {}
    file.chmod(0o622)
    with pytest.raises(RefusedError):
        load_harness_file(file)
