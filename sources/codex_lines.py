"""Codex's lines: the envelope in its generations, who a rollout descends from, and the keys of its records."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from polyc.limits import LINE_SIZE_BYTES_MAX
from sources import fields
from sources.keys import KeyChain
from sources.lines import BadLineError, object_decoder, open_lines, skip_long_line

ENVELOPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
HEAD_LINES_MAX: Final = 64  # the metas of all ancestors lead the file
BARE_ITEMS: Final = frozenset({
    "message", "function_call", "function_call_output", "reasoning", "local_shell_call", "custom_tool_call",
    "custom_tool_call_output", "web_search_call",
})  # fmt: skip

_NAME_ID: Final = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.jsonl(?:\.zst)?$")
_STAMP: Final = re.compile(rb'\s*\{\s*"timestamp": ?"([^"\\]{1,40})"\s*,\s*')


class _Envelope(msgspec.Struct):
    timestamp: Any = None
    type: Any = None
    payload: Any = None
    id: Any = None
    record_type: Any = None


_decode_envelope: Final = object_decoder(_Envelope)
_decode_bare: Final = object_decoder(dict[str, Any])


class Record(msgspec.Struct, frozen=True):
    """A record in the newest form: `kind` is the envelope's type, `item` its payload."""

    kind: str
    item: dict[str, Any]
    stamp: Any


class Lineage(msgspec.Struct, frozen=True):
    """Who a rollout is and whom it names as its ancestors, nearest first."""

    session_id: str
    ancestors: tuple[str, ...] = ()
    spawned_by: str | None = None

    @property
    def eldest(self) -> str:
        """The ancestor all of whose descendants share their first records."""
        return self.ancestors[-1] if self.ancestors else self.session_id


def decode_record(line: bytes) -> Record:
    """A line of any generation; an older one's item stands bare, its meta without a type."""
    envelope = _decode_envelope(line)
    if isinstance(envelope.payload, dict):
        return Record(str(envelope.type), envelope.payload, envelope.timestamp)
    item = _decode_bare(line)
    if envelope.record_type is not None:
        return Record("state", item, None)
    if isinstance(envelope.type, str):
        return Record("response_item" if envelope.type in BARE_ITEMS else envelope.type, item, envelope.timestamp)
    if isinstance(envelope.id, str):
        return Record("session_meta", item, envelope.timestamp)
    return Record("untyped", item, envelope.timestamp)


def lineage_of(path: Path) -> Lineage:
    """What the leading session_meta records say; else the id in the file's name."""
    ids: list[str] = []
    named: str | None = None
    spawned: str | None = None
    for place, meta in enumerate(_metas(path)):
        ident = meta.get("id")
        if isinstance(ident, str) and ident not in ids:
            ids.append(ident)
        if place == 0:
            named = fields.text(meta.get("forked_from_id"))
            spawned = _spawned_by(meta.get("source"))
    if not ids:
        found = _NAME_ID.search(path.name)
        return Lineage(found[1] if found else path.name.removesuffix(".zst").removesuffix(".jsonl"))
    return Lineage(ids[0], tuple(dict.fromkeys([*([named] if named else []), *ids[1:]])), spawned)


class RolloutKeys:
    """The keys of a rollout's records.

    The chain begins with the eldest ancestor's id: equal beginnings of unrelated sessions (the same instructions in
    the same folder) are no copies, and a fork has its parent's keys exactly as far as it is a copy. Stamps are left
    out (a fork re-stamps), and so are metas (a fork has its own before the copied ones).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._chain = KeyChain(lineage_of(path).eldest)
        self._offset = 0

    def fresh(self) -> Iterator[tuple[int, bytes]]:
        """Those of the lines since the last time; of one that has no end yet, each time."""
        with open_lines(self._path) as stream:
            if self._offset:
                stream.seek(self._offset)
            while line := stream.readline(LINE_SIZE_BYTES_MAX + 1):
                if len(line) > LINE_SIZE_BYTES_MAX:
                    self._offset += skip_long_line(stream, line, offset=self._offset).size_bytes
                    continue
                is_whole = line.endswith(b"\n")
                if not line.isspace():
                    found = key_of(self._chain if is_whole else self._chain.copy(), line)
                    if found is not None:
                        yield found
                if is_whole:
                    self._offset += len(line)


def key_of(chain: KeyChain, line: bytes) -> tuple[int, bytes] | None:
    """The next record's key and its time as written (empty: none); None for a meta."""
    if b'"session_meta"' in line[:200]:
        return None
    stamp = _STAMP.match(line)
    if stamp is None:
        return chain.key(line.rstrip()), b""
    return chain.key(line[stamp.end() :].rstrip()), stamp[1]


def _metas(path: Path) -> Iterator[dict[str, Any]]:
    with open_lines(path) as stream:
        for place in range(HEAD_LINES_MAX):
            line = stream.readline()
            if not line:
                return
            try:
                record = decode_record(line)
            except BadLineError:
                continue
            if record.kind == "session_meta":
                yield record.item
            elif place:
                return


def _spawned_by(source: Any) -> str | None:
    subagent = source.get("subagent") if isinstance(source, dict) else None
    spawn = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
    return fields.text(spawn.get("parent_thread_id")) if isinstance(spawn, dict) else None
