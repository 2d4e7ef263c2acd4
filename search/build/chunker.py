"""Rows of committed turns → chunks: what is text, where it is cut, what is left out.

    messages     transcript (text of people and models), summary, other (notices, injected context)
    blocks       other: a message's thinking, its blocks joined by an empty line
    tool_calls   call: name, then each argument; output: the result's text
    cut          at white space, 1200 characters with 150 of overlap; of a long event its first 48 and last 16 chunks
    left out     dumps of the environment, base64, this product's own searches and their successful results

Rows come from folds, so only committed turns are seen; nothing is read but the rows given.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from facts.catalog import TABLES
from search.analyzer import blobs
from search.build.calls import is_own_search, patch_paths, render_call
from search.chunk import Chunk, Kind, SessionMeta
from search.stream import Stream, stream_of

_CHARS: Final = 1200
_OVERLAP: Final = 150
_HEAD: Final = 48
_TAIL: Final = 16
_INJECTED: Final = frozenset({"runtime_context", "runtime_protocol"})


Text = tuple[Chunk, Stream]  # a chunk and its tokens


def texts_of(rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> list[Text]:
    """The chunks of a partition's rows, by position, those without a word left out."""
    messages = [_named("messages", values) for values in rows.get("messages", ())]
    found = [
        *_messages(messages),
        *_thinking(rows.get("blocks", ()), messages),
        *_calls(rows.get("tool_calls", ())),
    ]
    found.sort(key=lambda item: (item[0].position, item[0].kind, item[0].start_byte))
    return [(chunk, stream) for chunk, stream in found if stream.parts]


def meta_of(rows: Sequence[tuple[Any, ...]]) -> SessionMeta | None:
    """The conversation's current row of `sessions`, or None when the tick has none."""
    if not rows:
        return None
    row = _named("sessions", rows[-1])
    return SessionMeta(
        title=row["title"],
        origin=row["origin"],
        provider_session_id=row["provider_session_id"],
        repo=row["repo"],
        cwd=row["cwd"],
        git_branch=row["git_branch"],
        updated_at_us=_us(row["updated_at"]),
        parent=row["parent_partition"],
        root=row["root_partition"],
        link_kind=row["link_kind"],
        agent_id=row["agent_id"],
    )


def _messages(rows: Iterable[Mapping[str, Any]]) -> Iterator[Text]:
    for row in rows:
        if row["text"] and row["kind"] != "thinking":
            origin = row["material_origin"] or "unknown"
            yield from _cut(
                row, _message_kind(row), row["text"], role=row["role"] or "", origin=origin, fields=("text",)
            )


def _thinking(blocks: Iterable[tuple[Any, ...]], messages: Iterable[Mapping[str, Any]]) -> Iterator[Text]:
    """What models thought, by message; a message's own row may hold only what it said."""
    thoughts: dict[str, list[str]] = {}
    for values in blocks:
        if values[_BLOCK_TYPE] == "thinking" and values[_BLOCK_TEXT]:
            thoughts.setdefault(values[_BLOCK_MESSAGE], []).append(values[_BLOCK_TEXT])
    for row in messages:
        if row["message_id"] in thoughts:
            text = "\n\n".join(thoughts.pop(row["message_id"]))
            origin = row["material_origin"] or "unknown"
            yield from _cut(row, "other", text, role=row["role"] or "", origin=origin, fields=("thinking",))


def _message_kind(row: Mapping[str, Any]) -> Kind:
    if row["kind"] == "summary":
        return "summary"
    said = row["kind"] == "text" and row["role"] in {"user", "assistant"} and row["material_origin"] not in _INJECTED
    return "transcript" if said else "other"


def _calls(rows: Sequence[tuple[Any, ...]]) -> Iterator[Text]:
    named = [_named("tool_calls", values) for values in rows]
    own = {row["tool_call_id"] for row in named if row["block_type"] == "call" and is_own_search(row)}
    of_call = {row["tool_call_id"]: row for row in named if row["block_type"] == "call"}
    for row in named:
        asked = of_call.get(row["tool_call_id"], row)
        if row["block_type"] == "call":
            if row["tool_call_id"] not in own:
                text, fields = render_call(row)
                paths = patch_paths(row, text)
                yield from _cut(
                    row, "call", text, role="assistant", origin="assistant_authored", fields=fields, paths=paths
                )
        elif row["result_text"] and not (row["tool_call_id"] in own and row["is_error"] is False):
            path = tuple(filter(None, (row["path"] or asked["path"],)))
            named_row = {**row, "name": row["name"] or asked["name"]}
            text = row["result_text"]
            if not _is_environment(text):
                yield from _cut(
                    named_row, "output", text, role="tool", origin="tool_result", fields=("result_text",), paths=path
                )


def _cut(
    row: Mapping[str, Any],
    kind: Kind,
    text: str,
    *,
    role: str,
    origin: str,
    fields: tuple[str, ...],
    paths: tuple[str, ...] = (),
) -> Iterator[Text]:
    """The chunks of one event's canonical text."""
    encoded = blobs(text)  # here, because a cut may leave too little of a blob to know it by
    spans = list(_spans(text))
    capped = len(spans) > _HEAD + _TAIL
    if capped:
        spans = spans[:_HEAD] + spans[-_TAIL:]
    occurred_at_us = _us(row["occurred_at"])
    ascii_text = text.isascii()
    at_char = at_byte = 0
    for start, end in spans:
        at_byte += start - at_char if ascii_text else len(text[at_char:start].encode())
        at_char = start
        piece = text[start:end]
        chunk = Chunk(
            partition=row["partition"],
            source_incarnation=row["source_incarnation"],
            turn_id=row["turn_id"],
            run_id=None,
            kind=kind,
            position=row["position"],
            evidence=(row["position"],),
            text=piece,
            fields=fields,
            start_byte=at_byte,
            end_byte=at_byte + (end - start if ascii_text else len(piece.encode())),
            occurred_at_us=occurred_at_us,
            role=role,
            origin=origin,
            tool=row.get("name"),
            tool_call_id=row.get("tool_call_id"),
            paths=paths,
            is_error=row.get("is_error"),
            capped=capped,
            blanks=_within(encoded, start, end),
        )
        yield chunk, stream_of(chunk.words_text)


def _within(ranges: Sequence[tuple[int, int]], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """The parts of ranges that fall into a chunk, counted from its start."""
    if not ranges:
        return ()
    return tuple(
        (max(low, start) - start, min(high, end) - start) for low, high in ranges if low < end and start < high
    )


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Half-open ranges of characters, cut at white space where there is some in the last third."""
    start, size = 0, len(text)
    while size - start > _CHARS:
        end = start + _CHARS
        blank = _last_blank(text, end - _CHARS // 3, end)
        end = blank if blank is not None else end
        yield start, end
        begin = _last_blank(text, end - 2 * _OVERLAP, end - _OVERLAP)
        start = begin if begin is not None else end - _OVERLAP
    yield start, size


def _last_blank(text: str, low: int, high: int) -> int | None:
    """The place after the last white space in a range."""
    for index in range(high - 1, low - 1, -1):
        if text[index].isspace():
            return index + 1
    return None


_ASSIGNMENT: Final = re.compile(r"(?m)^(?:export |declare -x )?[A-Z_][A-Z0-9_]*=")
_ENVIRONMENT_LINES: Final = 12


def _is_environment(text: str) -> bool:
    """Whether most lines set variables: a dump of an environment, which is no text (search-rfc.txt)."""
    lines = text.count("\n", 0, 1 << 20) + 1
    return lines >= _ENVIRONMENT_LINES and 2 * len(_ASSIGNMENT.findall(text, 0, 1 << 20)) > lines


_BLOCK_TYPE, _BLOCK_TEXT, _BLOCK_MESSAGE = map(TABLES["blocks"].column_names.index, ("type", "text", "message_id"))
_COLUMNS: Final = {name: TABLES[name].column_names for name in ("messages", "tool_calls", "sessions")}


def _named(table: str, values: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(_COLUMNS[table], values, strict=True))


def _us(value: datetime | None) -> int | None:
    """Microseconds since 1970, without passing through a float."""
    if value is None:
        return None
    delta = value - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
