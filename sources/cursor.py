"""Cursor: `~/.cursor/projects/<slug>/agent-transcripts/<id>/<id>.jsonl`, and the chats of `state.vscdb`.

A transcript's records have a role and content blocks; an event `turn_ended` states a turn's end. There is no model
and no usage, and often no time: then it is null, flagged, never the file's. Older transcripts are plain text with
`user:` and `assistant:` lines. In `state.vscdb` (SQLite) the keys `composerData:ID` and `bubbleId:ID:BUBBLE` hold the
chats of the editor.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from sources import fields
from sources.claude_content import binary
from sources.content import plain_text, text_block
from sources.conversation import Identity, Tokens
from sources.dialogue import Answer, Asked, End, Opening, Prompt, Result, Statement, Talk
from sources.foreign_json import value_in
from sources.lines import BadLineError, SetAside, object_decoder, records, whole_document
from sources.provider import Context, Provider
from sources.sqlite_files import companions_of, rows
from sources.times import read_time

NAME: Final = "cursor"

_decode: Final = object_decoder(dict[str, Any])
_SPEAKER: Final = re.compile(r"^(user|assistant):\s*$", re.MULTILINE)
_QUERY: Final = re.compile(r"\s*<user_query>\n?(.*?)\n?</user_query>\s*", re.DOTALL)


def recognise(path: Path, head: bytes) -> bool:
    """A transcript by its folder or its records' form; the editor's database by its name."""
    if path.suffix == ".vscdb":
        return head.startswith(b"SQLite format 3")
    in_transcripts = "agent-transcripts" in path.parts
    if path.suffix == ".txt":
        return in_transcripts and _SPEAKER.match(head.decode("utf-8", "replace")) is not None
    if path.suffix != ".jsonl":
        return False
    try:
        first = _decode(head.split(b"\n", 1)[0])
    except BadLineError:
        return False
    is_said = fields.text(first.get("role")) in {"user", "assistant"} and isinstance(first.get("message"), dict)
    return is_said and (in_transcripts or "sessionId" not in first)


def tellings(path: Path, _set_aside: SetAside) -> Iterator[Talk]:
    """The transcript's conversation, or each chat of the database."""
    if path.suffix == ".vscdb":
        for name, _value in _composers(path):
            yield Talk(Identity(NAME, name), partial(_chat, path, name))
    elif path.suffix == ".txt":
        yield Talk(Identity(NAME, path.stem), lambda context: (_opening(path), _plain(path, context)))
    else:
        agent = path.stem if "subagents" in path.parts else ""
        session = _session_of(path)
        links = (("subagent", Identity(NAME, session), "subagents_folder"),) if agent else ()
        yield Talk(
            Identity(NAME, session, agent),
            lambda context: (msgspec.structs.replace(_opening(path), links=links), _transcript(path, context)),
        )


def _session_of(path: Path) -> str:
    for folder in path.parents:
        if folder.name == "subagents":
            return folder.parent.name
    return path.stem


def _opening(path: Path) -> Opening:
    return Opening(session_id=_session_of(path), source_path=str(path))


def _transcript(path: Path, context: Context) -> Iterator[Statement]:
    asked: list[str] = []
    for offset, record in records(path, _decode, set_aside=context.set_aside):
        context.counts.records += 1
        when = read_time(record.get("timestamp"))
        if record.get("event") == "turn_ended" or record.get("type") == "turn_ended":
            yield End(when=when)
            continue
        message = fields.mapping(record.get("message"))
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        key = f"line:{offset}"
        if record.get("role") == "assistant":
            yield _answer(key, record, parts, asked)
        elif record.get("role") == "user":
            yield from _user(key, record, parts, asked)
        else:
            context.counts.unknown[str(record.get("role", record.get("type")))] += 1


def _answer(key: str, record: dict[str, Any], parts: list[Any], asked: list[str]) -> Answer:
    uses = [part for part in parts if isinstance(part, dict) and part.get("type") == "tool_use"]
    ids = [fields.text(use.get("id")) or f"{key}:{place}" for place, use in enumerate(uses)]
    asked.extend(ids)
    return Answer(
        key=key,
        when=read_time(record.get("timestamp")),
        blocks=tuple(text_block(plain_text([part])) for part in parts if part not in uses and plain_text([part])),
        asked=tuple(
            Asked(
                tool_call_id=ident,
                name=fields.text(use.get("name")) or "unknown",
                arguments=use.get("input"),
                waits="id" in use,
            )
            for ident, use in zip(ids, uses, strict=True)
        ),
    )


def _user(key: str, record: dict[str, Any], parts: list[Any], asked: list[str]) -> Iterator[Statement]:
    when = read_time(record.get("timestamp"))
    said = []
    for place, part in enumerate(parts):
        if isinstance(part, dict) and part.get("type") == "tool_result":
            ident = fields.text(part.get("tool_use_id")) or (asked[-1] if asked else f"{key}:{place}")
            yield Result(key=f"{key}:{place}", when=when, tool_call_id=ident, text=plain_text(part.get("content")))
        elif isinstance(part, dict) and fields.text(part.get("type")) in {"image", "document"}:
            said.append(binary(part))
        elif text := plain_text([part]):
            query = _QUERY.fullmatch(text)
            said.append(text_block(query[1] if query else text))
    if said:
        yield Prompt(key=key, when=when, blocks=tuple(said))


def _plain(path: Path, context: Context) -> Iterator[Statement]:
    """`user:` and `assistant:` lines; what lies between two of them was said."""
    text = whole_document(path).decode("utf-8", "replace")
    speakers = list(_SPEAKER.finditer(text))
    never = read_time(None)
    for place, speaker in enumerate(speakers):
        context.counts.records += 1
        end = speakers[place + 1].start() if place + 1 < len(speakers) else len(text)
        said = text[speaker.end() : end].strip()
        key = f"part:{place}"
        if speaker[1] == "user":
            query = _QUERY.fullmatch(said)
            yield Prompt(key=key, when=never, blocks=(text_block(query[1] if query else said),))
        elif said:
            yield Answer(key=key, when=never, blocks=(text_block(said),))


# --- the editor's database -------------------------------------------------------------------------------------------


def _composers(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, value in rows(
        path, "SELECT key, value FROM cursorDiskKV WHERE key LIKE 'composerData:%' AND value IS NOT NULL ORDER BY key"
    ):
        yield str(key).removeprefix("composerData:"), _decoded(value)


def _chat(path: Path, name: str, context: Context) -> tuple[Opening, Iterator[Statement]]:
    ((value,),) = rows(path, "SELECT value FROM cursorDiskKV WHERE key = ?", (f"composerData:{name}",)) or ((None,),)
    composer = _decoded(value)
    opening = Opening(
        session_id=name,
        source_path=str(path),
        when=read_time(composer.get("createdAt")),
        title=fields.text(composer.get("name")),
    )
    return opening, _bubbles(path, name, composer, context)


def _bubbles(path: Path, name: str, composer: dict[str, Any], context: Context) -> Iterator[Statement]:
    inline = [fields.mapping(one) for one in fields.items(composer.get("conversation"))]
    heads = [fields.mapping(one) for one in fields.items(composer.get("fullConversationHeadersOnly"))]
    prefix = f"bubbleId:{name}:"
    statement = "SELECT key, value FROM cursorDiskKV WHERE key >= ? AND key < ?"
    found = () if inline else rows(path, statement, (prefix, f"bubbleId:{name};"))  # ';' follows ':'
    bubbles = {str(key).removeprefix(prefix): _decoded(value) for key, value in found}
    for place, head in enumerate(inline or heads):
        context.counts.records += 1
        ident = fields.text(head.get("bubbleId")) or f"bubble-{place}"
        yield from _bubble(ident, bubbles.get(ident) or head)


def _bubble(ident: str, bubble: dict[str, Any]) -> Iterator[Statement]:
    when = read_time(bubble.get("createdAt", fields.mapping(bubble.get("timingInfo")).get("clientStartTime")))
    text = plain_text(bubble.get("text"))
    if bubble.get("type") == 1:
        yield Prompt(key=ident, when=when, blocks=(text_block(text),) if text else ())
        return
    thinking = fields.text(fields.mapping(bubble.get("thinking")).get("text"))
    tool = fields.mapping(bubble.get("toolFormerData"))
    counted = fields.mapping(bubble.get("tokenCount"))
    read, written = fields.count(counted.get("inputTokens")), fields.count(counted.get("outputTokens"))
    call_id = fields.text(tool.get("toolCallId")) or f"{ident}:tool"
    name = fields.text(tool.get("name"))
    yield Answer(
        key=ident,
        when=when,
        model=fields.text(fields.mapping(bubble.get("modelInfo")).get("modelName")),
        blocks=(
            *([text_block(thinking, "thinking")] if thinking else []),
            *([text_block(text)] if text else []),
        ),
        usage=Tokens(input_tokens=read, output_tokens=written) if read or written else None,
        asked=(Asked(tool_call_id=call_id, name=name, arguments=_arguments(tool)),) if name else (),
    )
    if name and fields.text(tool.get("status")) in {"completed", "error", "cancelled"}:
        yield Result(
            key=f"{ident}:result",
            when=when,
            tool_call_id=call_id,
            name=name,
            text=plain_text(tool.get("result")),
            is_error=tool.get("status") != "completed",
        )


def _arguments(tool: dict[str, Any]) -> Any:
    raw = tool.get("rawArgs", tool.get("params"))
    if not isinstance(raw, str):
        return raw
    value = value_in(raw)
    return raw if value is None else value


def _decoded(cell: Any) -> dict[str, Any]:
    return fields.mapping(value_in(cell))


CURSOR: Final = Provider(
    name=NAME,
    recognise=recognise,
    tellings=tellings,
    companions=lambda path: companions_of(path) if path.suffix == ".vscdb" else (),
    is_part=lambda path: path.suffix in {".json", ".txt"} and ".cursor" in path.parts,
)
