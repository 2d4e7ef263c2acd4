"""Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`, subagents in `<session>/subagents/**/agent-*.jsonl`.

A record is a line. Chain records carry `uuid` and `parentUuid`; a copy in a resumed or forked session keeps them.
An answer of the model comes in one line a content block, which share `message.id` and repeat (or grow) the usage: the
snapshot with the most output tokens counts. A turn begins with what a person typed (not a tool's result, a command,
a reminder, a summary) and ends with `stop_reason` end_turn and its like (inferred), or with the interruption's line
(stated). Subagent files carry the session's id; their turns, calls and tokens are their own.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from facts.events import SessionLink
from polyc.limits import LINE_SIZE_BYTES_MAX
from sources import fields
from sources.claude_records import Reader
from sources.content import plain_text
from sources.conversation import Identity, Segment
from sources.foreign_json import value_in
from sources.keys import record_key
from sources.lines import BadLineError, SetAside, contains, object_decoder, whole_document
from sources.provider import Context, Provider

NAME: Final = "claude-code"

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_KEY_FIELDS: Final = re.compile(rb'"uuid": ?"([^"\\]{1,64})"(?:, ?"timestamp": ?"([^"\\]{1,40})")?')
_TIME_FIELD: Final = re.compile(rb'"timestamp": ?"([^"\\]{1,40})"')
_KEYS_SIZE_BYTES: Final = 1024 * 1024  # lines that are searched at once
_TYPES: Final = frozenset({
    "user", "assistant", "system", "attachment", "summary", "ai-title", "custom-title", "agent-name", "agent-setting",
    "mode", "queue-operation", "file-history-snapshot", "permission-mode", "last-prompt", "progress", "pr-link",
})  # fmt: skip
_SPEAKERS: Final = frozenset({"user", "assistant", "system"})
_FIRST_FIELDS: Final = re.compile(rb'^\{"(?:parentUuid|type|uuid|sessionId)": ?[^\n]*"(?:isSidechain|userType)": ?')
_SIDECHAIN: Final = re.compile(rb'"isSidechain": ?true')
_TASK: Final = re.compile(rb'"name": ?"(?:Task|Agent)"')
_HEAD_LINES_MAX: Final = 200  # a session names itself in its first lines; snapshots and titles may come before


class _Head(msgspec.Struct, rename="camel"):
    type: Any = None
    uuid: Any = None
    session_id: Any = None
    message: Any = None
    timestamp: Any = None
    parent_uuid: Any = None
    is_sidechain: Any = None


_decode_head: Final = object_decoder(_Head)


def _is_chained(record: _Head) -> bool:
    """Whether a record of a speaker is one of a session's chain; the oldest had neither ids nor a session."""
    return bool(record.session_id) or (isinstance(record.message, dict) and isinstance(record.timestamp, str))


@dataclass(frozen=True, slots=True)
class Session:
    """A transcript: of a session (agent id empty) or of one of its subagents."""

    path: Path
    identity: Identity
    session_id: str | None
    sidechain: str | None = None  # the first record of a chain that older versions wrote into the session's own file
    parent_call: str | None = None

    def segments(self, context: Context) -> Iterator[Segment]:
        """Its events in order."""
        reader = Reader(
            self.identity, context=context, session_id=self.session_id, path=self.path, sidechain=self.sidechain
        )
        reader.links = self._links
        yield from reader.segments()

    def _links(self, reader: Reader) -> Iterable[SessionLink]:
        if self.identity.agent_id and self.session_id:
            yield reader.teller.link(
                "subagent",
                Identity(NAME, self.session_id).partition,
                "agent_file" if self.sidechain is None else "sidechain",
                parent_tool_call_id=self.parent_call or _parent_call(self.path, self.identity.agent_id),
            )
        for owner, kind in reader.context.owners:
            yield reader.teller.link("fork" if kind == "fork" else "resume", owner, "copied_records")


def recognise(path: Path, head: bytes) -> bool:
    """A .jsonl whose first records are of Claude Code's types; journals of workflows are none."""
    if path.suffix != ".jsonl" or path.name == "journal.jsonl":
        return False
    for line in head.split(b"\n")[:_HEAD_LINES_MAX]:
        try:
            record = _decode_head(line)
        except BadLineError:
            continue
        kind = fields.text(record.type)
        if kind in _TYPES - _SPEAKERS or (kind in _SPEAKERS and _is_chained(record)):
            return True
    return _FIRST_FIELDS.search(head) is not None and b'"sessionId"' in head  # a first line longer than the head


def is_part(path: Path) -> bool:
    """Descriptions of subagents, journals of workflows, spilled results."""
    return (
        path.name.endswith(".meta.json")
        or (path.name == "journal.jsonl" and "workflows" in path.parts)
        or path.parent.name == "tool-results"
    )


def companions(path: Path) -> Iterable[Path]:
    """A subagent's description and the session that started it."""
    if not path.name.startswith("agent-"):
        return ()
    session = _session_of(path)
    meta = path.with_suffix(".meta.json")
    return (meta, session) if session is not None and _meta_call(meta) is None else (meta,)


class SessionKeys:
    """The uuids of a transcript's lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def fresh(self) -> Iterator[tuple[int, bytes]]:
        """Those of the lines since the last time; of one that has no end yet, each time."""
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            while lines := stream.read(_KEYS_SIZE_BYTES):
                lines += stream.readline(LINE_SIZE_BYTES_MAX)
                self._offset += lines.rfind(b"\n") + 1
                found = _KEY_FIELDS.findall(lines)
                if not all(stamp for _record, stamp in found):  # the time stands elsewhere in the line
                    found = [pair for line in lines.split(b"\n") for pair in _key_fields(line)]
                yield from [(record_key(record), stamp) for record, stamp in found]


def _key_fields(line: bytes) -> Iterator[tuple[bytes, bytes]]:
    record, stamp = _KEY_FIELDS.search(line), _TIME_FIELD.search(line)
    if record is not None:
        yield record[1], stamp[1] if stamp is not None else b""


def tellings(path: Path, _set_aside: SetAside) -> Iterator[Session]:
    """The file's conversation, and those of the sidechains that older versions wrote into it."""
    session_id = _session_id(path)
    if path.name.startswith("agent-"):
        agent_id = path.stem.removeprefix("agent-")
        yield Session(path, Identity(NAME, session_id or path.stem, agent_id), session_id)
        return
    native = session_id or path.stem
    if path.stem != session_id:
        native = path.stem if _UUID.fullmatch(path.stem) else f"{native}/{path.stem}"
    yield Session(path, Identity(NAME, native), session_id)
    for root, call in _sidechains(path):
        yield Session(path, Identity(NAME, native, f"sidechain-{root}"), native, root, call)


def _sidechains(path: Path) -> Iterator[tuple[str, str | None]]:
    """The first records of sidechains, each with the call whose prompt it repeats.

    The first record of one hangs on no other record of a sidechain in this file.
    """
    if not contains(path, (b'"isSidechain":true', b'"isSidechain": true')):
        return
    asked: dict[str, str] = {}
    seen: set[str] = set()
    with path.open("rb") as stream:
        for line in stream:
            if _TASK.search(line):
                asked |= _task_prompts(line)
            elif _SIDECHAIN.search(line):
                try:
                    record = _decode_head(line)
                except BadLineError:
                    continue
                if not isinstance(record.uuid, str) or record.is_sidechain is not True:
                    continue
                if fields.text(record.parent_uuid) not in seen and record.uuid not in seen:
                    content = fields.mapping(record.message).get("content")
                    yield record.uuid, asked.get(plain_text(content))
                seen.add(record.uuid)


def _task_prompts(line: bytes) -> dict[str, str]:
    try:
        record = _decode_head(line)
    except BadLineError:
        return {}
    found = {}
    for part in map(fields.mapping, fields.items(fields.mapping(record.message).get("content"))):
        prompt, ident = fields.text(fields.mapping(part.get("input")).get("prompt")), fields.text(part.get("id"))
        if prompt is not None and ident is not None:
            found[prompt] = ident
    return found


def _session_id(path: Path) -> str | None:
    """The session's id, as the first chain record names it (a subagent's records name the parent session)."""
    with path.open("rb") as stream:
        for _ in range(_HEAD_LINES_MAX):
            line = stream.readline()
            if not line:
                break
            try:
                record = _decode_head(line)
            except BadLineError:
                continue
            if isinstance(record.session_id, str) and isinstance(record.uuid, str):
                return record.session_id
    return None


def _session_of(path: Path) -> Path | None:
    """The transcript of the session that a subagent's file belongs to."""
    for folder in path.parents:
        if folder.name == "subagents":
            return folder.parent.with_suffix(".jsonl")
    return None


def _meta_call(meta: Path) -> str | None:
    """The call that started the subagent, as its description says (newer versions)."""
    try:
        value = value_in(whole_document(meta))
    except (OSError, BadLineError):
        return None
    call = value.get("toolUseId") if isinstance(value, dict) else None
    return call if isinstance(call, str) else None


def _parent_call(path: Path, agent_id: str) -> str | None:
    """The call that started the subagent: from its description, else from the result that names the agent."""
    known = _meta_call(path.with_suffix(".meta.json"))
    session = _session_of(path)
    if known is not None or session is None or not session.exists():
        return known
    needle = re.compile(rb'"agentId": ?"' + re.escape(agent_id.encode()) + rb'"')
    with session.open("rb") as stream:
        for line in stream:
            if needle.search(line):
                found = re.search(rb'"tool_use_id": ?"([^"\\]{1,128})"', line)
                if found:
                    return found[1].decode("utf-8", "replace")
    return None


CLAUDE_CODE: Final = Provider(
    name=NAME,
    recognise=recognise,
    tellings=tellings,
    companions=companions,
    is_part=is_part,
    keys=SessionKeys,
    follows=True,
)
