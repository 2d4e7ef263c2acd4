"""OpenCode: `~/.local/share/opencode/opencode.db` (SQLite), or the older store of JSON files beside it.

Rows are edited in place and may vanish: each time a session is read as a whole and compared with what the journal
has. A step of an assistant's message (`step-finish`) is one model call; a step that ends for another reason than its
tools ends the turn. What a revert took back is kept and marked.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from facts.events import Block
from sources import fields
from sources.content import bounded, data_url_block, text_block
from sources.conversation import Identity, Tokens
from sources.dialogue import Answer, Asked, End, Gone, Notice, Opening, Prompt, Result, Statement, Talk
from sources.foreign_json import value_in
from sources.lines import BadLineError, SetAside, whole_document
from sources.provider import Context, Provider
from sources.sqlite_files import companions_of, names, rows
from sources.times import When, read_time

NAME: Final = "opencode"
FILES_MAX: Final = 100_000  # parts of one session in the JSON store

Json = dict[str, Any]
Entry = tuple[str, Json, list[Json]]  # a message's id, its data, its parts in order


def recognise(path: Path, head: bytes) -> bool:
    """The database by its tables, a session's file by its folder."""
    if path.suffix == ".db":
        return head.startswith(b"SQLite format 3") and {"session", "message", "part"} <= set(names(path))
    return path.suffix == ".json" and _is_store(path) and b'"id"' in head


def companions(path: Path) -> Iterable[Path]:
    """The write-ahead log, or the messages' and parts' files."""
    if path.suffix == ".db":
        return companions_of(path)
    return list(_store_files(path))


def tellings(path: Path, _set_aside: SetAside) -> Iterator[Talk]:
    """Each session."""
    if path.suffix == ".db":
        for ident, *_rest in rows(path, "SELECT id FROM session ORDER BY time_created, id"):
            yield Talk(Identity(NAME, str(ident)), partial(_from_database, path, str(ident)))
    else:
        session = _json(path)
        ident = fields.text(session.get("id")) or path.stem
        yield Talk(Identity(NAME, ident), partial(_from_store, path))


def _from_database(path: Path, ident: str, context: Context) -> tuple[Opening, Iterator[Statement]]:
    columns = ("parent_id", "directory", "title", "time_created", "revert")
    ((parent, directory, title, created, revert),) = rows(
        path, f"SELECT {', '.join(columns)} FROM session WHERE id = ?", (ident,)
    )
    session = {
        "id": ident,
        "parentID": parent,
        "directory": directory,
        "title": title,
        "time": {"created": created},
        "revert": _decoded(revert),
    }
    parts: dict[str, list[Json]] = {}
    for message, part, data in rows(
        path, "SELECT message_id, id, data FROM part WHERE session_id = ? ORDER BY id", (ident,)
    ):
        parts.setdefault(str(message), []).append({"id": part, **_decoded(data)})
    found = rows(path, "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (ident,))
    entries = [(str(message), _decoded(data), parts.get(str(message), [])) for message, data in found]
    return _opening(session, path), _statements(session, entries, context)


def _from_store(path: Path, context: Context) -> tuple[Opening, Iterator[Statement]]:
    session = _json(path)
    storage = _storage(path)
    entries: list[Entry] = []
    for message in sorted((storage / "message" / path.stem).glob("*.json")):
        data = _json(message)
        parts = [_json(part) for part in sorted((storage / "part" / message.stem).glob("*.json"))]
        entries.append((fields.text(data.get("id")) or message.stem, data, parts))
    return _opening(session, path), _statements(session, entries, context)


def _opening(session: Json, path: Path) -> Opening:
    parent = fields.text(session.get("parentID"))
    return Opening(
        session_id=fields.text(session.get("id")),
        source_path=str(path),
        when=read_time(fields.mapping(session.get("time")).get("created")),
        title=fields.text(session.get("title")),
        cwd=fields.text(session.get("directory")),
        links=(("subagent", Identity(NAME, parent), "parent_id"),) if parent else (),
    )


def _statements(session: Json, entries: list[Entry], context: Context) -> Iterator[Statement]:
    for ident, data, parts in entries:
        context.counts.records += 1
        if data.get("role") == "user":
            yield from _user(ident, data, parts)
        else:
            yield from _assistant(ident, data, parts)
    reverted = fields.text(fields.mapping(session.get("revert")).get("messageID"))
    ids = [ident for ident, _data, _parts in entries]
    if reverted in ids:
        gone = tuple(ids[ids.index(reverted) :])
        yield Gone(key=f"revert:{reverted}", when=When(None), message_ids=gone)


def _user(ident: str, data: Json, parts: list[Json]) -> Iterator[Statement]:
    when = read_time(fields.mapping(data.get("time")).get("created"))
    said: list[Block] = []
    for place, part in enumerate(parts):
        text = fields.text(part.get("text"))
        if part.get("type") == "text" and text and (part.get("synthetic") is True or part.get("ignored") is True):
            yield Notice(key=f"{ident}:{place}", when=when, text=text, origin="runtime_context", role="user")
        elif part.get("type") == "text" and text:
            said.append(text_block(text))
        elif part.get("type") == "file":
            block = data_url_block("document", fields.text(part.get("url")) or "")
            said.append(msgspec.structs.replace(block, media_type=fields.text(part.get("mime")) or block.media_type))
        elif part.get("type") == "compaction":
            yield Notice(key=f"{ident}:{place}", when=when, text="compaction", author="compaction")
    if said:
        yield Prompt(key=ident, when=when, blocks=tuple(said))


def _assistant(ident: str, data: Json, parts: list[Json]) -> Iterator[Statement]:
    times = fields.mapping(data.get("time"))
    begun, ended = read_time(times.get("created")), read_time(times.get("completed"))
    steps = _steps(parts)
    waiting = False
    for number, step in enumerate(steps):
        finish = next((part for part in step if part.get("type") == "step-finish"), {})
        counted = finish.get("tokens") if finish else data.get("tokens") if len(steps) == 1 else None
        tools = [part for part in step if part.get("type") == "tool"]
        yield Answer(
            key=ident if number == 0 else f"{ident}:{number}",
            when=begun,
            ended=ended,
            model=fields.text(data.get("modelID")) or fields.text(fields.mapping(data.get("model")).get("modelID")),
            blocks=tuple(_blocks(step)),
            asked=tuple(map(_asked, tools)),
            usage=_tokens(counted),
            stop_reason=fields.text(finish.get("reason")) or fields.text(data.get("finish")),
        )
        for tool in tools:
            result = _result(tool)
            waiting = waiting or result is None
            if result is not None:
                yield result
    yield from _end(ident, data, steps, waiting=waiting)


def _end(ident: str, data: Json, steps: list[list[Json]], *, waiting: bool) -> Iterator[Statement]:
    ended = read_time(fields.mapping(data.get("time")).get("completed"))
    error = fields.mapping(data.get("error"))
    if error:
        name = fields.text(error.get("name")) or "error"
        text = fields.text(fields.mapping(error.get("data")).get("message")) or name
        yield Notice(key=f"{ident}:error", when=ended, text=text, author=name)
        if "Abort" in name:
            yield End(when=ended, status="cancelled", code="interrupted")
        else:
            yield End(when=ended, status="failed", code=name, message=text)
        return
    finishes = [part for step in steps for part in step if part.get("type") == "step-finish"]
    reason = finishes[-1].get("reason") if finishes else data.get("finish")
    if ended.at is not None and not waiting and fields.text(reason) not in {"tool-calls", "unknown"}:
        yield End(when=ended, evidence="inferred")


def _steps(parts: list[Json]) -> list[list[Json]]:
    """The parts of each model call; a message without marks is one."""
    steps: list[list[Json]] = [[]]
    for part in parts:
        steps[-1].append(part)
        if part.get("type") == "step-finish":
            steps.append([])
    return steps if len(steps) == 1 or any(part.get("type") != "patch" for part in steps[-1]) else steps[:-1]


def _blocks(parts: list[Json]) -> Iterator[Block]:
    for part in parts:
        text = fields.text(part.get("text"))
        if text and fields.text(part.get("type")) in {"text", "reasoning"}:
            yield text_block(text, "text" if part["type"] == "text" else "thinking")


def _asked(part: Json) -> Asked:
    state = fields.mapping(part.get("state"))
    return Asked(
        tool_call_id=_call_id(part),
        name=fields.text(part.get("tool")) or "unknown",
        arguments=state.get("input"),
        when=read_time(fields.mapping(state.get("time")).get("start")) if state.get("time") else None,
    )


def _result(part: Json) -> Result | None:
    """What the tool gave; None while it runs."""
    state = fields.mapping(part.get("state"))
    status = fields.text(state.get("status"))
    if status not in {"completed", "error"}:
        return None
    times = fields.mapping(state.get("time"))
    begun, ended = fields.count(times.get("start")), fields.count(times.get("end"))
    code = fields.whole(fields.mapping(state.get("metadata")).get("exit"))
    invalid = part.get("tool") == "invalid"  # it reports completed, but nothing was done
    return Result(
        key=f"{part.get('id')}:{_call_id(part)}",
        when=read_time(ended),
        tool_call_id=_call_id(part),
        name=fields.text(part.get("tool")),
        text=bounded(str(state.get("output") if status == "completed" else state.get("error") or ""), 8 * 1024 * 1024),
        is_error=status == "error" or invalid or (code is not None and code != 0),
        exit_code=code,
        duration_ms=ended - begun if ended is not None and begun is not None and ended >= begun else None,
    )


def _call_id(part: Json) -> str:
    return fields.text(part.get("callID")) or str(part.get("id"))


def _tokens(counted: Any) -> Tokens | None:
    """Input excludes the cache here."""
    if not isinstance(counted, dict):
        return None
    cache = fields.mapping(counted.get("cache"))
    return Tokens(
        input_tokens=fields.count(counted.get("input")),
        output_tokens=fields.count(counted.get("output")),
        cache_read_tokens=fields.count(cache.get("read")),
        cache_write_tokens=fields.count(cache.get("write")),
        reasoning_tokens=fields.count(counted.get("reasoning")),
        input_uncached_tokens=fields.count(counted.get("input")),
    )


# --- the JSON store --------------------------------------------------------------------------------------------------


def _is_store(path: Path) -> bool:
    return any(folder.name == "session" and folder.parent.name == "storage" for folder in path.parents)


def _storage(path: Path) -> Path:
    return next((folder for folder in path.parents if folder.name == "storage"), path.parent)


def _store_files(path: Path) -> Iterator[Path]:
    storage = _storage(path)
    count = 0
    yield storage / "message" / path.stem  # its time changes when a message appears
    for message in sorted((storage / "message" / path.stem).glob("*.json")):
        yield message
        yield storage / "part" / message.stem
        for part in sorted((storage / "part" / message.stem).glob("*.json")):
            count += 1
            if count > FILES_MAX:
                return
            yield part


def _json(path: Path) -> Json:
    try:
        return fields.mapping(value_in(whole_document(path)))
    except (OSError, BadLineError):
        return {}


def _decoded(cell: Any) -> Json:
    return fields.mapping(value_in(cell))


OPENCODE: Final = Provider(
    name=NAME,
    recognise=recognise,
    tellings=tellings,
    companions=companions,
    is_part=lambda path: "storage" in path.parts and "opencode" in path.parts,
)
