"""Codex' names of sessions: `session_index.jsonl` in its home, one {id, thread_name} a line, the last one counts.

A name is known when a rollout is told from its beginning; one that was given later makes a new incarnation when the
rollout grows. Names that stand in the rollout itself (`thread_name_updated`) are told where they stand.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from sources import fields
from sources.lines import object_decoder, records

INDEX: Final = "session_index.jsonl"

_decode: Final = object_decoder(dict[str, Any])


def title_of(rollout: Path, session_id: str) -> str | None:
    """The session's name in the index of the home that the rollout lies in."""
    for folder in rollout.parents:
        if folder.name in {"sessions", "archived_sessions"}:
            index = folder.parent / INDEX
            try:
                stat = index.stat()
            except OSError:
                return None
            return _names(index, stat.st_mtime_ns, stat.st_size).get(session_id)
    return None


@lru_cache(maxsize=4)
def _names(index: Path, _changed_ns: int, _size_bytes: int) -> Mapping[str, str]:
    found: dict[str, str] = {}
    try:
        for _offset, line in records(index, _decode, set_aside=lambda _bad: None):
            ident, name = fields.text(line.get("id")), fields.text(line.get("thread_name"))
            if ident is not None and name is not None:
                found[ident] = name
    except OSError:
        return {}
    return found
