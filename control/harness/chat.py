"""An OpenAI-compatible chat endpoint as a harness: one completion a turn, told as the events any harness would say."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import msgspec

from control.harness.config import ChatConfig
from control.harness.wire import TurnRequest
from polyc.errors import RefusedError, UnavailableError
from polyc.limits import HARNESS_LINE_SIZE_BYTES_MAX

CONNECT_S = 10.0


class _Function(msgspec.Struct):
    name: str
    arguments: str = "{}"


class _ToolCall(msgspec.Struct):
    id: str
    function: _Function


class _Message(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None


async def run_chat(config: ChatConfig, request: TurnRequest) -> AsyncGenerator[bytes]:
    """The completion as events: the call, its message, its tools' calls, its usage, then the end."""
    completion = await _ask(config, request)
    if not completion.choices:
        raise RefusedError("the chat endpoint gave no choice", code="aborted")
    for value in _events(completion, request, model=completion.model or config.model):
        yield msgspec.json.encode(value)


async def _ask(config: ChatConfig, request: TurnRequest) -> _Completion:
    headers = {"content-type": "application/json", "accept": "application/json"}
    if config.api_key_file is not None:
        headers["authorization"] = f"Bearer {_key_of(config.api_key_file)}"
    messages = [{"role": item["role"], "content": item["text"]} for item in request.history]
    if config.system_prompt is not None:
        messages.insert(0, {"role": "system", "content": config.system_prompt})
    messages.append({"role": "user", "content": request.prompt})
    body = msgspec.json.encode({"model": config.model, "messages": messages, "stream": False})
    timeout = httpx.Timeout(config.deadline_s, connect=CONNECT_S)
    try:
        async with (
            httpx.AsyncClient(timeout=timeout, trust_env=False, follow_redirects=False) as client,
            client.stream("POST", f"{config.url}/chat/completions", content=body, headers=headers) as response,
        ):
            raw = bytearray()
            async for chunk in response.aiter_bytes():
                raw += chunk
                if len(raw) > HARNESS_LINE_SIZE_BYTES_MAX:
                    raise RefusedError("the chat endpoint's answer is too large", code="resource_exhausted")
            if response.status_code != httpx.codes.OK:
                raise RefusedError(f"the chat endpoint answered {response.status_code}", code="aborted")
    except httpx.HTTPError:
        raise UnavailableError("the chat endpoint broke off") from None
    try:
        return msgspec.json.decode(bytes(raw), type=_Completion)
    except (msgspec.DecodeError, UnicodeError):
        raise RefusedError("the chat endpoint's answer is not a completion", code="aborted") from None


def _key_of(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except OSError:
        raise RefusedError("the chat endpoint's key file cannot be read", code="failed_precondition") from None


def _events(completion: _Completion, request: TurnRequest, *, model: str) -> list[dict[str, Any]]:
    call_id = completion.id or request.dispatch_id
    choice = completion.choices[0]
    calls = choice.message.tool_calls or []
    message_id = f"{call_id}:message"
    blocks: list[dict[str, Any]] = []
    if choice.message.content:
        blocks.append({"type": "text", "text": choice.message.content})
    blocks.extend({"type": "tool_use", "tool_call_id": call.id} for call in calls)
    said: list[dict[str, Any]] = [
        {
            "type": "model_call",
            "call_id": call_id,
            "provider": "openai-compatible",
            "model": model,
            "stop_reason": choice.finish_reason,
        },
        {
            "type": "message",
            "message_id": message_id,
            "role": "assistant",
            "material_origin": "assistant_authored",
            "model": model,
            "call_id": call_id,
            "blocks": blocks,
        },
    ]
    said.extend(
        {
            "type": "tool_call",
            "tool_call_id": call.id,
            "name": call.function.name,
            "arguments": call.function.arguments,
            "message_id": message_id,
        }
        for call in calls
    )
    if completion.usage is not None:
        said.append(_usage(completion.usage, call_id=call_id, model=model))
    said.append({"type": "done", "status": "completed"})
    return said


def _usage(usage: _Usage, *, call_id: str, model: str) -> dict[str, Any]:
    """This format's prompt tokens include the cached ones (ruling 20)."""
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
    reasoning = usage.completion_tokens_details.reasoning_tokens if usage.completion_tokens_details else None
    uncached = None if usage.prompt_tokens is None else usage.prompt_tokens - (cached or 0)
    return {
        "type": "usage",
        "call_id": call_id,
        "provider": "openai-compatible",
        "model": model,
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "cache_read_tokens": cached,
        "reasoning_tokens": reasoning,
        "input_uncached_tokens": uncached,
    }
