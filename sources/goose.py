"""Goose: `sessions.db` (SQLite, schema 14 and later), earlier `sessions/*.jsonl`.

A turn begins with a message of the person and has no end of its own. Tokens stand in a ledger of requests that is not
tied to messages; where there are as many as model calls they are told with those, else as calls of their own.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from facts.events import Block
from sources import fields
from sources.content import binary_block, plain_text, text_block
from sources.conversation import Identity, Tokens
from sources.dialogue import Answer, Asked, Notice, Opening, Prompt, Result, Statement, Talk
from sources.foreign_json import value_in
from sources.lines import SetAside, object_decoder, records
from sources.provider import Context, Provider
from sources.sqlite_files import companions_of, rows, tables
from sources.times import read_time

NAME: Final = "goose"

Json = dict[str, Any]
_decode: Final = object_decoder(dict[str, Any])


_LEDGER_COLUMNS: Final = (
    ("input_tokens", "input"),
    ("output_tokens", "output"),
    ("cache_read_tokens", "cache_read_input_tokens", "cache_read"),
    ("cache_write_tokens", "cache_creation_input_tokens", "cache_write"),
)


class _Entry(msgspec.Struct, frozen=True):
    key: str
    role: str
    parts: tuple[Json, ...]
    stamp: Any
    model: str | None
    is_visible: bool


def recognise(path: Path, head: bytes) -> bool:
    """The database by its tables; a log whose first line describes a session of Goose."""
    if path.suffix == ".db":
        return head.startswith(b"SQLite format 3") and _is_goose(path)
    first = head.split(b"\n", 1)[0]
    return path.suffix == ".jsonl" and b'"working_dir"' in first and b'"sessionId"' not in first


def tellings(path: Path, _set_aside: SetAside) -> Iterator[Talk]:
    """Each session."""
    if path.suffix == ".db":
        for (ident,) in rows(path, "SELECT id FROM sessions ORDER BY id"):
            yield Talk(Identity(NAME, str(ident)), partial(_from_database, path, str(ident)))
    else:
        yield Talk(Identity(NAME, path.stem), partial(_from_log, path))


def _is_goose(path: Path) -> bool:
    try:
        found = tables(path)
    except OSError:
        return False
    return "content_json" in found.get("messages", ()) and "working_dir" in found.get("sessions", ())


def _from_database(path: Path, ident: str, context: Context) -> tuple[Opening, Iterator[Statement]]:
    found = tables(path)
    wanted = [
        name
        for name in ("name", "description", "working_dir", "created_at", "parent_session_id", "model_config_json")
        if name in found["sessions"]
    ]
    (values,) = rows(path, f"SELECT {', '.join(wanted)} FROM sessions WHERE id = ?", (ident,))
    session = dict(zip(wanted, values, strict=True))
    model = fields.text(_decoded(session.get("model_config_json")).get("model_name"))
    entries = [
        _Entry(
            fields.text(message_id) or f"row:{number}",
            str(role),
            tuple(map(fields.mapping, _list(content))),
            stamp,
            fields.text(_decoded(metadata).get("model")) or model,
            _decoded(metadata).get("userVisible") is not False,
        )
        for number, message_id, role, content, stamp, metadata in rows(
            path,
            "SELECT id, message_id, role, content_json, created_timestamp, metadata_json FROM messages "
            "WHERE session_id = ? ORDER BY id",
            (ident,),
        )
    ]
    usage = _ledger(path, ident) if "usage_ledger" in found else []
    parent = fields.text(session.get("parent_session_id"))
    opening = Opening(
        session_id=ident,
        source_path=str(path),
        when=read_time(session.get("created_at"), naive_is_utc=True),
        title=fields.text(session.get("name")) or fields.text(session.get("description")),
        cwd=fields.text(session.get("working_dir")),
        links=(("subagent", Identity(NAME, parent), "parent_session_id"),) if parent else (),
    )
    return opening, _statements(entries, usage, context)


def _from_log(path: Path, context: Context) -> tuple[Opening, Iterator[Statement]]:
    lines = [value for _offset, value in records(path, _decode, set_aside=context.set_aside)]
    head, messages = (lines[0], lines[1:]) if lines and "role" not in lines[0] else ({}, lines)
    entries = [
        _Entry(
            fields.text(message.get("id")) or f"line:{place}",
            str(message.get("role")),
            tuple(map(fields.mapping, fields.items(message.get("content")))),
            message.get("created"),
            None,
            True,
        )
        for place, message in enumerate(messages)
    ]
    opening = Opening(
        session_id=path.stem,
        source_path=str(path),
        when=read_time(messages[0].get("created")) if messages else read_time(None),
        title=fields.text(head.get("description")),
        cwd=fields.text(head.get("working_dir")),
    )
    return opening, _statements(entries, [], context)


def _ledger(path: Path, ident: str) -> list[tuple[str | None, Tokens]]:
    columns = tables(path)["usage_ledger"]
    known = (next((name for name in names if name in columns), "NULL") for names in _LEDGER_COLUMNS)
    chosen = ", ".join(known)
    model = "model" if "model" in columns else "NULL"
    return [
        (
            fields.text(name),
            Tokens(
                input_tokens=fields.count(used[0]),
                output_tokens=fields.count(used[1]),
                cache_read_tokens=fields.count(used[2]),
                cache_write_tokens=fields.count(used[3]),
            ),
        )
        for name, *used in rows(
            path, f"SELECT {model}, {chosen} FROM usage_ledger WHERE session_id = ? ORDER BY rowid", (ident,)
        )
    ]


def _statements(entries: list[_Entry], usage: list[tuple[str | None, Tokens]], context: Context) -> Iterator[Statement]:
    answers = sum(entry.role == "assistant" for entry in entries)
    paired = iter(usage if len(usage) == answers else ())
    unnamed: list[str] = []
    for entry in entries:
        context.counts.records += 1
        when = read_time(entry.stamp)
        if entry.role == "assistant":
            model, tokens = next(paired, (None, None))
            yield _answer(entry, unnamed, model, tokens)
            continue
        results = [part for part in entry.parts if part.get("type") == "toolResponse"]
        for place, part in enumerate(results):
            yield _result(f"{entry.key}:{place}", part, unnamed, entry)
        said = tuple(_blocks(entry.parts))
        if said and not entry.is_visible:
            text = "\n".join(block.text or "" for block in said)
            yield Notice(key=entry.key, when=when, text=text, origin="runtime_context", role="user")
        elif said and not results:
            yield Prompt(key=entry.key, when=when, blocks=said)
    if len(usage) != answers:
        for place, (model, tokens) in enumerate(usage):
            yield Answer(key=f"ledger:{place}", when=read_time(None), model=model, usage=tokens)


def _answer(entry: _Entry, unnamed: list[str], model: str | None, tokens: Tokens | None) -> Answer:
    asked = []
    for place, part in enumerate(part for part in entry.parts if part.get("type") == "toolRequest"):
        call = fields.mapping(part.get("toolCall"))
        call = fields.mapping(call.get("value")) or call
        ident = fields.text(part.get("id")) or fields.text(call.get("id"))
        if ident is None:
            ident = f"{entry.key}:{place}"
            unnamed.append(ident)
        asked.append(
            Asked(tool_call_id=ident, name=fields.text(call.get("name")) or "unknown", arguments=call.get("arguments"))
        )
    return Answer(
        key=entry.key,
        when=read_time(entry.stamp),
        model=model or entry.model,
        blocks=tuple(_blocks(entry.parts)),
        asked=tuple(asked),
        usage=tokens,
    )


def _result(key: str, part: Json, unnamed: list[str], entry: _Entry) -> Result:
    outcome = fields.mapping(part.get("toolResult"))
    value = outcome.get("value", outcome)
    content = fields.mapping(value).get("content", value if isinstance(value, list) else None)
    error = outcome.get("error")
    ident = fields.text(part.get("id")) or fields.text(part.get("toolCallId"))
    if ident is None:
        ident = unnamed.pop(0) if unnamed else key
    failed = error is not None or outcome.get("status") == "error" or fields.mapping(value).get("isError") is True
    return Result(
        key=key,
        when=read_time(entry.stamp),
        tool_call_id=ident,
        text=plain_text(error if error is not None else content),
        is_error=True if failed else None if "status" not in outcome else False,
    )


def _blocks(parts: Iterable[Json]) -> Iterator[Block]:
    for part in parts:
        match part.get("type"):
            case "text":
                if text := plain_text(part.get("text")):
                    yield text_block(text)
            case "thinking" | "reasoning":
                yield text_block(plain_text(part.get("thinking", part.get("text"))), "thinking")
            case "redactedThinking":
                yield Block(type="thinking", flag="redacted")
            case "image":
                yield binary_block("image", part.get("data"), media_type=fields.text(part.get("mimeType")))


def _list(cell: Any) -> list[Any]:
    return fields.items(value_in(cell))


def _decoded(cell: Any) -> Json:
    return fields.mapping(value_in(cell))


GOOSE: Final = Provider(
    name=NAME,
    recognise=recognise,
    tellings=tellings,
    companions=lambda path: companions_of(path) if path.suffix == ".db" else (),
)
