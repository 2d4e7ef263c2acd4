"""Codex: `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl[.zst]`, `archived_sessions/`.

Newer rollouts state their turns (task_started, task_complete, turn_aborted); in older ones a person's message begins
an implicit turn. Every visible message may stand twice, as an event and as an item of the response, in either order.
The tokens of a model call come with `token_count`: one with the totals of the one before is a repetition. A fork
begins with a re-stamped copy of its parent's records; its `session_meta` lines name the ancestors, eldest last.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from facts.events import SessionLink
from sources import fields
from sources.codex_lines import (
    BARE_ITEMS,
    ENVELOPES,
    HEAD_LINES_MAX,
    Lineage,
    Record,
    RolloutKeys,
    decode_record,
    lineage_of,
)
from sources.codex_records import Reader
from sources.conversation import Identity, Segment
from sources.lines import BadLineError, SetAside
from sources.provider import Context, Provider

NAME: Final = "codex"

_FIRST_FIELDS: Final = re.compile(
    rb'\{"timestamp": ?"[^"\n]{10,40}", ?"type": ?"(?:session_meta|response_item|event_msg|turn_context)", ?'
    rb'"payload": ?\{'
)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout file."""

    path: Path
    lineage: Lineage

    @property
    def identity(self) -> Identity:
        """Its session's id."""
        return Identity(NAME, self.lineage.session_id)

    def segments(self, context: Context) -> Iterator[Segment]:
        """Its events in order."""
        reader = Reader(self.identity, context=context, path=self.path, lineage=self.lineage)
        reader.links = self._links
        yield from reader.segments()

    def _links(self, reader: Reader) -> Iterable[SessionLink]:
        lineage = self.lineage
        if lineage.spawned_by is not None:
            yield reader.teller.link("subagent", Identity(NAME, lineage.spawned_by).partition, "thread_spawn")
        if lineage.ancestors:
            yield reader.teller.link(
                "fork",
                Identity(NAME, lineage.ancestors[0]).partition,
                "forked_from_id",
                root_partition=Identity(NAME, lineage.eldest).partition,
            )


def recognise(path: Path, head: bytes) -> bool:
    """A rollout by its name, or a .jsonl whose records have Codex's envelope (or an older bare form)."""
    if path.name.endswith(".jsonl.zst"):
        return path.name.startswith("rollout-")
    if path.suffix != ".jsonl":
        return False
    for line in head.split(b"\n")[:HEAD_LINES_MAX]:
        try:
            record = decode_record(line)
        except BadLineError:
            continue
        if _is_codex(record):
            return True
    return _FIRST_FIELDS.match(head) is not None  # a first line longer than the head


def is_part(path: Path) -> bool:
    """Titles and typed lines, kept beside the rollouts."""
    return path.name in {"history.jsonl", "session_index.jsonl"}


def tellings(path: Path, _set_aside: SetAside) -> Iterator[Rollout]:
    """One conversation a file."""
    yield Rollout(path, lineage_of(path))


def _is_codex(record: Record) -> bool:
    item = record.item
    if record.kind == "session_meta":
        return "instructions" in item or "cli_version" in item or "originator" in item or "cwd" in item
    if record.kind not in ENVELOPES:
        return False
    if "sessionId" in item or "uuid" in item:
        return False
    if fields.text(item.get("type")) in BARE_ITEMS - {"message"}:
        return "call_id" in item or item["type"] in {"reasoning", "web_search_call"}
    if item.get("type") == "message":
        content = item.get("content")
        parts = content if isinstance(content, list) else []
        return any(isinstance(part, dict) and part.get("type") in {"input_text", "output_text"} for part in parts)
    return record.kind != "response_item" and isinstance(
        item.get("type") or item.get("cwd") or item.get("message"), str
    )


CODEX: Final = Provider(
    name=NAME,
    recognise=recognise,
    tellings=tellings,
    is_part=is_part,
    keys=RolloutKeys,
    follows=True,
    depth=lambda path: len(lineage_of(path).ancestors),
)
