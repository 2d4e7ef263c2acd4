"""Copilot CLI: `~/.copilot/session-state/<id>/events.jsonl`, older `<id>.jsonl`.

No end of a turn is written: the next message of the person or the session's shutdown closes it, `abort` cancels it.
A tool's results come out of order, twice or for calls that never began: the first result of an open call counts, the
others are kept apart and counted. Tokens are stated once, at shutdown, for each model.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sources import fields
from sources.content import as_json, bounded, plain_text, text_block
from sources.conversation import Identity, Tokens
from sources.dialogue import Answer, Asked, End, Named, Notice, Opening, Prompt, Result, Statement, Talk
from sources.lines import SetAside, object_decoder, records
from sources.provider import Context, Provider
from sources.times import When, read_time

NAME: Final = "copilot-cli"
NOTICE_BYTES_MAX: Final = 64 * 1024
SILENT: Final = frozenset({
    "session.start", "session.resume", "session.info", "session.truncation", "session.idle", "assistant.turn_start",
    "assistant.turn_end", "assistant.usage", "tool.execution_progress", "hook.start", "hook.end", "session.usage_info",
    "assistant.intent", "session.snapshot_rewind", "tool.user_requested", "assistant.message_delta",
})  # fmt: skip

_decode: Final = object_decoder(dict[str, Any])


def recognise(path: Path, head: bytes) -> bool:
    """A log that begins with `session.start`."""
    return path.suffix == ".jsonl" and b'"session.start"' in head.split(b"\n", 1)[0]


def tellings(path: Path, _set_aside: SetAside) -> Iterator[Talk]:
    """One session a file."""
    start = _start(path)
    ident = fields.text(start.get("sessionId")) or (path.parent.name if path.stem == "events" else path.stem)
    yield Talk(Identity(NAME, ident), lambda context: (_opening(path, ident, start), _Log(path, context).statements()))


def _start(path: Path) -> dict[str, Any]:
    for _offset, record in records(path, _decode, set_aside=lambda _bad: None):
        if record.get("type") == "session.start":
            return fields.mapping(record.get("data"))
        break
    return {}


def _opening(path: Path, ident: str, start: dict[str, Any]) -> Opening:
    where = fields.mapping(start.get("context"))
    return Opening(
        session_id=ident,
        source_path=str(path),
        when=read_time(start.get("startTime")),
        cwd=fields.text(where.get("cwd")),
        repo=fields.text(where.get("repository")),
        git_branch=fields.text(where.get("branch")),
    )


class _Log:
    def __init__(self, path: Path, context: Context) -> None:
        self._path = path
        self._context = context
        self._model: str | None = None
        self._answer: str | None = None  # the key of the call that tools are asked by
        self._open: dict[str, str | None] = {}  # calls without a result yet, with their names

    def statements(self) -> Iterator[Statement]:
        counts = self._context.counts
        for offset, record in records(self._path, _decode, set_aside=self._context.set_aside):
            counts.records += 1
            kind = fields.text(record.get("type")) or "untyped"
            data = fields.mapping(record.get("data"))
            when = read_time(record.get("timestamp"))
            key = fields.text(record.get("id")) or f"line:{offset}"
            yield from self._statement(kind, key, data, when)

    def _statement(self, kind: str, key: str, data: dict[str, Any], when: When) -> Iterator[Statement]:
        match kind:
            case "user.message":
                self._answer = None
                yield Prompt(key=key, when=when, blocks=(text_block(plain_text(data.get("content"))),))
            case "assistant.message":
                yield self._said(key, data, when)
            case "assistant.reasoning":
                thought = text_block(plain_text(data.get("content")), "thinking")
                yield Answer(key=self._answer or key, when=when, model=self._model, blocks=(thought,))
                self._answer = self._answer or key
            case "tool.execution_start":
                yield from self._asked(key, data, when)
            case "tool.execution_complete":
                yield self._answered(key, data, when)
            case "session.model_change":
                self._model = fields.text(data.get("newModel")) or self._model
            case "session.title_changed":
                yield Named(when=when, title=fields.text(data.get("title")))
            case "abort":
                yield End(when=when, status="cancelled", code=fields.text(data.get("reason")) or "interrupted")
            case "session.error":
                text = bounded(plain_text(data.get("message")) or "error", NOTICE_BYTES_MAX)
                yield Notice(key=key, when=when, text=text, author=kind, error="error")
            case "session.shutdown":
                yield from self._shut(key, data, when)
            case _ if kind in SILENT:
                self._context.counts.skipped[kind] += 1
            case _:
                self._context.counts.unknown[kind] += 1
                yield Notice(key=key, when=when, text=bounded(as_json(data), NOTICE_BYTES_MAX), author=kind)

    def _said(self, key: str, data: dict[str, Any], when: When) -> Statement:
        self._answer = key
        text = plain_text(data.get("content"))
        asked = []
        for place, request in enumerate(map(fields.mapping, fields.items(data.get("toolRequests")))):
            ident = fields.text(request.get("toolCallId")) or f"{key}:{place}"
            name = fields.text(request.get("name")) or "unknown"
            self._open[ident] = name
            asked.append(Asked(tool_call_id=ident, name=name, arguments=request.get("arguments")))
        return Answer(
            key=key,
            when=when,
            model=fields.text(data.get("model")) or self._model,
            blocks=(text_block(text),) if text else (),
            asked=tuple(asked),
        )

    def _asked(self, key: str, data: dict[str, Any], when: When) -> Iterator[Statement]:
        ident = fields.text(data.get("toolCallId")) or key
        if ident in self._open:
            self._context.counts.repeats += 1
            return
        name = fields.text(data.get("toolName")) or fields.text(data.get("mcpToolName")) or "unknown"
        self._open[ident] = name
        asked = Asked(
            tool_call_id=ident,
            name=name,
            arguments=data.get("arguments"),
            server=fields.text(data.get("mcpServerName")),
        )
        self._answer = self._answer or key
        yield Answer(key=self._answer, when=when, model=self._model, asked=(asked,))

    def _answered(self, key: str, data: dict[str, Any], when: When) -> Statement:
        ident = fields.text(data.get("toolCallId")) or key
        if ident not in self._open:
            self._context.counts.unknown["orphan_result"] += 1
            return Notice(key=key, when=when, text=bounded(as_json(data), NOTICE_BYTES_MAX), author="orphan_result")
        success = data.get("success")
        result = data.get("result", data.get("error"))
        text = fields.mapping(result).get("content", fields.mapping(result).get("message", result))
        return Result(
            key=key,
            when=when,
            tool_call_id=ident,
            name=self._open.pop(ident),
            text=plain_text(text) if result is not None else None,
            is_error=not success if isinstance(success, bool) else None,
        )

    def _shut(self, key: str, data: dict[str, Any], when: When) -> Iterator[Statement]:
        metrics = fields.mapping(data.get("modelMetrics", data.get("usage")))
        for model, metric in metrics.items():
            used = fields.mapping(fields.mapping(metric).get("usage", metric))
            read, cached = fields.count(used.get("inputTokens")), fields.count(used.get("cacheReadTokens"))
            yield Answer(
                key=f"{key}:{model}",
                when=when,
                model=str(model),
                usage=Tokens(
                    input_tokens=read,
                    output_tokens=fields.count(used.get("outputTokens")),
                    cache_read_tokens=cached,
                    cache_write_tokens=fields.count(used.get("cacheWriteTokens")),
                    input_uncached_tokens=None if read is None else max(read - (cached or 0), 0),
                ),
            )
        if not self._open:
            yield End(when=when, evidence="inferred")


COPILOT_CLI: Final = Provider(name=NAME, recognise=recognise, tellings=tellings)
