"""Gemini CLI: `~/.gemini/tmp/<project hash>/chats/session-*.json` (rewritten) or `.jsonl` (an upsert log).

In the log a later record of the same id takes the earlier one's place, `$set` patches the session, `$set.messages`
replaces all messages, and `$rewindTo` takes a message and all after it off the live path (inclusive, as Gemini's own
loader does). What was rewound is kept and marked; its tokens were spent. No end of a turn is ever written.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from facts.events import Block
from sources import fields
from sources.content import as_json, binary_block, bounded, plain_text, text_block
from sources.conversation import Identity, Tokens
from sources.dialogue import Answer, Asked, End, Gone, Notice, Opening, Prompt, Result, Statement, Talk
from sources.lines import BadLineError, Quarantined, SetAside, object_decoder, records, whole_document
from sources.provider import Context, Provider
from sources.times import read_time

NAME: Final = "gemini-cli"
NOTICE_BYTES_MAX: Final = 64 * 1024
_decode: Final = object_decoder(dict[str, Any])


@dataclass(slots=True)
class _Chat:
    """The file's end state: the last form of each message, in order of first appearance, and what was taken back."""

    head: dict[str, Any] = field(default_factory=dict)
    last: dict[str, dict[str, Any]] = field(default_factory=dict)
    order: list[str | Gone] = field(default_factory=list)
    live: list[str] = field(default_factory=list)

    def message(self, record: dict[str, Any]) -> None:
        ident = str(record["id"])
        if ident not in self.last:
            self.order.append(ident)
        if ident not in self.live:
            self.live.append(ident)
        self.last[ident] = record

    def rewind(self, target: Any, offset: int) -> None:
        """Inclusive; an unknown target clears all."""
        place = self.live.index(target) if target in self.live else 0
        self._gone(self.live[place:], "rewound", offset)
        self.live = self.live[:place]

    def patch(self, patch: Any, offset: int) -> None:
        if not isinstance(patch, dict):
            return
        messages = patch.get("messages")
        if isinstance(messages, list) and messages:
            kept = [m for m in messages if isinstance(m, dict) and isinstance(m.get("id"), str)]
            ids = {m["id"] for m in kept}
            self._gone([ident for ident in self.live if ident not in ids], "replaced", offset)
            self.live = [ident for ident in self.live if ident in ids]
            for record in kept:
                self.message(record)
        self.head |= {key: value for key, value in patch.items() if key != "messages"}

    def _gone(self, ids: list[str], reason: Any, offset: int) -> None:
        if ids:
            self.order.append(Gone(key=str(offset), when=read_time(None), message_ids=tuple(ids), reason=reason))


def recognise(path: Path, head: bytes) -> bool:
    """A document or log that begins with a session id and a project's hash."""
    return path.suffix in {".json", ".jsonl"} and b'"sessionId"' in head and b'"projectHash"' in head


def is_part(path: Path) -> bool:
    """Logs and checkpoints beside the chats."""
    return path.name == "logs.json" or path.name.startswith("checkpoint")


def tellings(path: Path, _set_aside: SetAside) -> Iterator[Talk]:
    """One conversation a file."""
    head = _read(path, None).head
    identity = Identity(NAME, fields.text(head.get("sessionId")) or path.stem)
    yield Talk(identity, lambda context: _talk(path, context))


def _talk(path: Path, context: Context) -> tuple[Opening, Iterator[Statement]]:
    chat = _read(path, context)
    opening = Opening(
        session_id=fields.text(chat.head.get("sessionId")),
        source_path=str(path),
        when=read_time(chat.head.get("startTime")),
        title=fields.text(chat.head.get("summary")),
    )
    return opening, _statements(chat, context)


def _read(path: Path, context: Context | None) -> _Chat:
    set_aside = context.set_aside if context is not None else lambda _bad: None
    chat = _Chat()
    if path.suffix == ".json":
        _read_document(path, chat, set_aside)
        return chat
    for offset, record in records(path, _decode, set_aside=set_aside):
        if context is not None:
            context.counts.records += 1
        if "$rewindTo" in record:
            chat.rewind(record["$rewindTo"], offset)
        elif "$set" in record:
            chat.patch(record["$set"], offset)
        elif isinstance(record.get("id"), str) and "type" in record:
            chat.message(record)
        elif "sessionId" in record:
            chat.head |= {key: value for key, value in record.items() if key != "messages"}
            chat.patch({"messages": record.get("messages")}, offset)
        elif context is not None:
            context.counts.unknown["record"] += 1
    return chat


def _read_document(path: Path, chat: _Chat, set_aside: Any) -> None:
    try:
        document = _decode(whole_document(path))
    except BadLineError as bad:
        set_aside(Quarantined(0, path.stat().st_size, bad.reason, ""))
        return
    chat.patch(document, 0)


def _statements(chat: _Chat, context: Context) -> Iterator[Statement]:
    for item in chat.order:
        if isinstance(item, Gone):
            yield item
            continue
        record = chat.last[item]
        when = read_time(record.get("timestamp"))
        kind = record.get("type")
        blocks = _blocks(record.get("content"))
        if kind == "user":
            yield Prompt(key=item, when=when, blocks=blocks)
        elif kind == "gemini":
            yield from _answer(item, record)
        else:
            text = bounded(plain_text(record.get("content")), NOTICE_BYTES_MAX)
            if not isinstance(kind, str) or kind not in {"info", "warning", "error", "thought"}:
                context.counts.unknown[str(kind)] += 1
            yield Notice(
                key=item, when=when, text=text, author=fields.text(kind), error="error" if kind == "error" else None
            )
            if kind == "info" and text.startswith("Request cancelled"):
                yield End(when=when, status="cancelled", code="interrupted")


def _answer(key: str, record: dict[str, Any]) -> Iterator[Statement]:
    when = read_time(record.get("timestamp"))
    thoughts = record.get("thoughts")
    calls = [call for call in fields.items(record.get("toolCalls")) if isinstance(call, dict)]
    ids = [fields.text(call.get("id")) or f"{key}:{place}" for place, call in enumerate(calls)]
    yield Answer(
        key=key,
        when=when,
        model=fields.text(record.get("model")),
        blocks=(*(_thought(one) for one in fields.items(thoughts)), *_blocks(record.get("content"))),
        usage=_tokens(record.get("tokens")),
        asked=tuple(
            Asked(
                tool_call_id=ident,
                name=fields.text(call.get("name")) or "unknown",
                arguments=call.get("args"),
                when=read_time(call["timestamp"]) if "timestamp" in call else None,
            )
            for ident, call in zip(ids, calls, strict=True)
        ),
    )
    for ident, call in zip(ids, calls, strict=True):
        status = fields.text(call.get("status"))
        if status in {"success", "error", "cancelled"}:
            yield Result(
                key=f"{key}:{ident}",
                when=read_time(call["timestamp"]) if "timestamp" in call else when,
                tool_call_id=ident,
                name=fields.text(call.get("name")),
                text=_result_text(call),
                is_error=status != "success",
            )


def _result_text(call: dict[str, Any]) -> str:
    texts = []
    for one in fields.items(call.get("result")):
        response = fields.mapping(one.get("functionResponse")).get("response") if isinstance(one, dict) else one
        output = response.get("output", response.get("error")) if isinstance(response, dict) else response
        texts.append(output if isinstance(output, str) else as_json(response))
    return "\n".join(texts) or plain_text(call.get("resultDisplay"))


def _thought(thought: Any) -> Block:
    parts_of = thought if isinstance(thought, dict) else {"description": plain_text(thought)}
    parts = [part for part in (fields.text(parts_of.get("subject")), fields.text(parts_of.get("description"))) if part]
    return text_block("\n".join(parts), "thinking")


def _tokens(tokens: Any) -> Tokens | None:
    """Input includes the cached part; thoughts are counted beside the output, and billed like it."""
    if not isinstance(tokens, dict):
        return None
    read, cached = fields.count(tokens.get("input")), fields.count(tokens.get("cached"))
    return Tokens(
        input_tokens=read,
        output_tokens=fields.count(tokens.get("output")),
        cache_read_tokens=cached,
        reasoning_tokens=fields.count(tokens.get("thoughts")),
        input_uncached_tokens=None if read is None else max(read - (cached or 0), 0),
    )


def _blocks(content: Any) -> tuple[Block, ...]:
    blocks = []
    for part in content if isinstance(content, list) else [content]:
        inline = part.get("inlineData") if isinstance(part, dict) else None
        if isinstance(inline, dict):
            blocks.append(binary_block("image", inline.get("data"), media_type=fields.text(inline.get("mimeType"))))
        elif text := plain_text([part]):
            blocks.append(text_block(text))
    return tuple(blocks)


GEMINI_CLI: Final = Provider(name=NAME, recognise=recognise, tellings=tellings, is_part=is_part)
