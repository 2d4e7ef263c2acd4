"""OpenTelemetry spans of generative AI, as OTLP JSON: one document, or one a line (the Collector's file exporter).

Spans are grouped by `gen_ai.conversation.id` (else `session.id`, else the trace). A span of a model's operation is a
model call: its output messages are the answer, and a user message that its input ends with is a prompt. A span of
`execute_tool` is a call and its result. A call that finishes without asking for a tool ends the turn (inferred), a
span with an error status fails it (stated).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from facts.events import Block
from sources import fields
from sources.content import plain_text, text_block
from sources.conversation import Identity, Tokens
from sources.dialogue import Answer, Asked, End, Opening, Prompt, Result, Statement, Talk
from sources.foreign_json import value_in
from sources.lines import BadLineError, Quarantined, SetAside, object_decoder, records, whole_document
from sources.provider import Context, Provider
from sources.times import When, read_time

NAME: Final = "otlp-genai"

Json = dict[str, Any]
_MODEL_OPERATIONS: Final = frozenset({"chat", "text_completion", "generate_content", "completion"})
_USAGE: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read.input_tokens",
    "cache_creation.input_tokens",
    "reasoning.output_tokens",
)
_decode: Final = object_decoder(dict[str, Any])


class Span(msgspec.Struct, frozen=True):
    """A span with its attributes as plain values."""

    span_id: str
    parent_id: str
    name: str
    start: int
    end: int
    failed: str | None
    attributes: Json
    events: tuple[Json, ...]


def recognise(path: Path, head: bytes) -> bool:
    """Resource spans that speak of generative AI."""
    is_json = path.suffix in {".json", ".jsonl"}
    return is_json and (b'"resourceSpans"' in head or b'"resource_spans"' in head) and b"gen_ai." in head


def tellings(path: Path, set_aside: SetAside) -> Iterator[Talk]:
    """Each conversation of the file."""
    for name, spans in _conversations(path, set_aside).items():
        yield Talk(Identity(NAME, name), partial(_talk, path, name, spans))


def _talk(path: Path, name: str, spans: list[Span], context: Context) -> tuple[Opening, Iterator[Statement]]:
    context.counts.records += len(spans)
    service = next((fields.text(span.attributes.get("service.name")) for span in spans), None)
    opening = Opening(session_id=name, source_path=str(path), when=_when(spans[0].start), title=service)
    return opening, _Conversation().statements(spans)


def _conversations(path: Path, set_aside: SetAside) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = {}
    for document in _documents(path, set_aside):
        for name, span in _spans(document):
            found.setdefault(name, []).append(span)
    for spans in found.values():
        spans.sort(key=lambda span: (span.start, span.end, span.span_id))
    return found


def _documents(path: Path, set_aside: SetAside) -> Iterator[Json]:
    if path.suffix == ".jsonl":
        for _offset, document in records(path, _decode, set_aside=set_aside):
            yield document
        return
    try:
        yield _decode(whole_document(path))
    except BadLineError as bad:
        set_aside(Quarantined(0, path.stat().st_size, bad.reason, ""))


def _spans(document: Json) -> Iterator[tuple[str, Span]]:
    for resource in map(fields.mapping, fields.items(document.get("resourceSpans", document.get("resource_spans")))):
        shared = _attributes(fields.mapping(resource.get("resource")).get("attributes"))
        for scope in map(fields.mapping, fields.items(resource.get("scopeSpans", resource.get("scope_spans")))):
            for raw in map(fields.mapping, fields.items(scope.get("spans"))):
                span = _span(raw, shared)
                if any(key.startswith("gen_ai.") for key in span.attributes):
                    yield _conversation_of(span, raw), span


def _span(raw: Json, shared: Json) -> Span:
    status = fields.mapping(raw.get("status"))
    failed = status.get("code") == 2 or status.get("code") == "STATUS_CODE_ERROR"
    return Span(
        span_id=str(raw.get("spanId", raw.get("span_id", ""))),
        parent_id=str(raw.get("parentSpanId", raw.get("parent_span_id", ""))),
        name=str(raw.get("name", "")),
        start=_nanos(raw.get("startTimeUnixNano", raw.get("start_time_unix_nano"))),
        end=_nanos(raw.get("endTimeUnixNano", raw.get("end_time_unix_nano"))),
        failed=(fields.text(status.get("message")) or "error") if failed else None,
        attributes=shared | _attributes(raw.get("attributes")),
        events=tuple(map(fields.mapping, fields.items(raw.get("events")))),
    )


def _conversation_of(span: Span, raw: Json) -> str:
    for key in ("gen_ai.conversation.id", "session.id"):
        if name := fields.text(span.attributes.get(key)):
            return name
    return str(raw.get("traceId", raw.get("trace_id", "")))


class _Conversation:
    def __init__(self) -> None:
        self._prompts = 0  # user messages seen in inputs so far: each call repeats the ones before
        self._asked: set[str] = set()

    def statements(self, spans: list[Span]) -> Iterator[Statement]:
        for span in spans:
            operation = fields.text(span.attributes.get("gen_ai.operation.name"))
            if operation == "execute_tool":
                yield from self._tool(span)
            elif operation in _MODEL_OPERATIONS or (operation is None and "gen_ai.request.model" in span.attributes):
                yield from self._call(span)

    def _call(self, span: Span) -> Iterator[Statement]:
        said = [text for role, text in _inputs(span) if role == "user"]
        if len(said) > self._prompts or (said and len(said) < self._prompts):
            yield Prompt(key=f"{span.span_id}:prompt", when=_when(span.start), blocks=(text_block(said[-1]),))
        self._prompts = len(said) or self._prompts
        blocks, asked = _output(span)
        self._asked.update(one.tool_call_id for one in asked)
        finish = [str(one) for one in fields.items(span.attributes.get("gen_ai.response.finish_reasons"))]
        yield Answer(
            key=span.span_id,
            when=_when(span.start),
            ended=_when(span.end),
            model=fields.text(span.attributes.get("gen_ai.response.model"))
            or fields.text(span.attributes.get("gen_ai.request.model")),
            blocks=blocks,
            asked=asked,
            usage=_tokens(span.attributes),
            stop_reason=finish[0] if finish else None,
            error=span.failed,
        )
        if span.failed is not None:
            code = fields.text(span.attributes.get("error.type")) or "error"
            yield End(when=_when(span.end), status="failed", code=code, message=span.failed)
        elif not asked and not {"tool_calls", "tool_call", "tool_use"} & set(finish):
            yield End(when=_when(span.end), evidence="inferred")

    def _tool(self, span: Span) -> Iterator[Statement]:
        ident = fields.text(span.attributes.get("gen_ai.tool.call.id")) or span.span_id
        name = fields.text(span.attributes.get("gen_ai.tool.name")) or span.name.removeprefix("execute_tool ")
        if ident not in self._asked:
            arguments = _json(span.attributes.get("gen_ai.tool.call.arguments"))
            asked = Asked(tool_call_id=ident, name=name, arguments=arguments)
            yield Answer(key=f"{span.span_id}:asked", when=_when(span.start), asked=(asked,))
        result = span.attributes.get("gen_ai.tool.call.result")
        yield Result(
            key=span.span_id,
            when=_when(span.end),
            tool_call_id=ident,
            name=name,
            text=span.failed if result is None and span.failed else plain_text(_json(result)),
            is_error=span.failed is not None,
            duration_ms=max(span.end - span.start, 0) // 1_000_000,
        )


def _inputs(span: Span) -> Iterator[tuple[str, str]]:
    """Role and text of each input message: from the attribute, else from the span's events."""
    messages = _json(span.attributes.get("gen_ai.input.messages", span.attributes.get("gen_ai.prompt")))
    for message in map(fields.mapping, fields.items(messages)):
        yield str(message.get("role")), _message_text(message)
    for event in span.events:
        values = _attributes(event.get("attributes"))
        if event.get("name") == "gen_ai.user.message":
            yield "user", plain_text(values.get("content"))
        elif event.get("name") == "gen_ai.content.prompt":
            yield "user", plain_text(values.get("gen_ai.prompt"))


def _output(span: Span) -> tuple[tuple[Block, ...], tuple[Asked, ...]]:
    blocks: list[Block] = []
    asked: list[Asked] = []
    messages = _json(span.attributes.get("gen_ai.output.messages", span.attributes.get("gen_ai.completion")))
    for message in map(fields.mapping, fields.items(messages)):
        for part in map(fields.mapping, fields.items(message.get("parts"))):
            if part.get("type") == "tool_call":
                ident = fields.text(part.get("id")) or f"{span.span_id}:{len(asked)}"
                name = fields.text(part.get("name")) or "unknown"
                asked.append(Asked(tool_call_id=ident, name=name, arguments=part.get("arguments")))
            elif text := plain_text(part.get("content")):
                blocks.append(text_block(text, "thinking" if part.get("type") == "reasoning" else "text"))
        if "parts" not in message and (text := plain_text(message.get("content"))):
            blocks.append(text_block(text))
    for event in span.events:
        values = _attributes(event.get("attributes"))
        if fields.text(event.get("name")) in {"gen_ai.choice", "gen_ai.content.completion"}:
            text = plain_text(values.get("message", values.get("gen_ai.completion", values.get("content"))))
            blocks.append(text_block(text))
    return tuple(blocks), tuple(asked)


def _message_text(message: Json) -> str:
    parts = [fields.mapping(part).get("content") for part in fields.items(message.get("parts"))]
    return "\n".join(part for part in parts if isinstance(part, str)) or plain_text(message.get("content"))


def _tokens(attributes: Json) -> Tokens | None:
    used = [fields.count(attributes.get(f"gen_ai.usage.{name}")) for name in _USAGE]
    if used[0] is None:
        used[0] = fields.count(attributes.get("gen_ai.usage.prompt_tokens"))
    if used[1] is None:
        used[1] = fields.count(attributes.get("gen_ai.usage.completion_tokens"))
    if not any(value is not None for value in used):
        return None
    return Tokens(
        input_tokens=used[0],
        output_tokens=used[1],
        cache_read_tokens=used[2],
        cache_write_tokens=used[3],
        reasoning_tokens=used[4],
        input_uncached_tokens=None if used[0] is None else max(used[0] - (used[2] or 0), 0),
    )


def _attributes(pairs: Any) -> Json:
    found = {}
    for pair in map(fields.mapping, fields.items(pairs)):
        key = fields.text(pair.get("key"))
        if key is not None:
            found[key] = _value(fields.mapping(pair.get("value")))
    return found


def _value(value: Json) -> Any:
    """An AnyValue; 64-bit integers stand as text in OTLP's JSON."""
    for kind in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if kind in value:
            return value[kind]
    if "intValue" in value:
        return _nanos(value["intValue"])
    if "arrayValue" in value:
        return [_value(fields.mapping(one)) for one in fields.items(fields.mapping(value["arrayValue"]).get("values"))]
    if "kvlistValue" in value:
        return _attributes(fields.mapping(value["kvlistValue"]).get("values"))
    return None


def _json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    inner = value_in(value)
    return value if inner is None else inner


def _nanos(value: Any) -> int:
    if isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _when(nanos: int) -> When:
    return read_time(nanos // 1000 / 1_000_000) if nanos else When(None, "missing")


OTLP: Final = Provider(name=NAME, recognise=recognise, tellings=tellings)
