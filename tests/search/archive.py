"""Small archives for tests: rows as folds make them, put into search packs of a store in memory or on disk."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from artifacts.memory import MemoryStore
from facts.catalog import TABLES
from polyc.clock import ManualClock
from search.build import PartitionChange, SearchBuild
from search.query import SearchAnswer, SearchRequest
from search.query.engine import GenerationRef, SearchEngine
from search.query.scope import Access

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def row(table: str, **values: Any) -> tuple[Any, ...]:
    columns = TABLES[table].column_names
    assert values.keys() <= set(columns), values.keys() - set(columns)
    return tuple(values.get(column) for column in columns)


def place(partition: str, position: int, *, turn: str | None = None, incarnation: str = "aa") -> dict[str, Any]:
    return {
        "partition": partition,
        "source_incarnation": incarnation,
        "position": position,
        "turn_id": turn or f"t{position}",
        "recorded_at": START + timedelta(minutes=position),
    }


def message(partition: str, position: int, text: str, *, role: str = "user", **more: Any) -> tuple[Any, ...]:
    where = place(partition, position, turn=more.pop("turn", None), incarnation=more.pop("incarnation", "aa"))
    values = {
        "message_id": f"{partition}/{position}",
        "role": role,
        "material_origin": "human_authored" if role == "user" else "assistant_authored",
        "kind": "text",
        "text": text,
        "occurred_at": START + timedelta(minutes=position),
    }
    return row("messages", **(where | values | more))


def call(partition: str, position: int, name: str, arguments: str = "{}", **more: Any) -> tuple[Any, ...]:
    values = {
        "tool_call_id": f"{partition}:c{position}",
        "block_type": "call",
        "name": name,
        "action": "other",
        "arguments": arguments,
        "occurred_at": START + timedelta(minutes=position),
    }
    return row("tool_calls", **(place(partition, position, turn=more.pop("turn", None)) | values | more))


def result(partition: str, position: int, of: int, text: str, **more: Any) -> tuple[Any, ...]:
    values = {
        "tool_call_id": f"{partition}:c{of}",
        "block_type": "result",
        "result_text": text,
        "is_error": False,
        "occurred_at": START + timedelta(minutes=position),
    }
    return row("tool_calls", **(place(partition, position, turn=more.pop("turn", None)) | values | more))


def session(partition: str, position: int, **more: Any) -> tuple[Any, ...]:
    values = {"title": partition, "origin": "live", "updated_at": START + timedelta(minutes=position)}
    return row("sessions", **(place(partition, position) | values | more))


def change(
    partition: str,
    *,
    messages: Sequence[tuple[Any, ...]] = (),
    tool_calls: Sequence[tuple[Any, ...]] = (),
    mode: str = "append",
    meta: dict[str, Any] | None = None,
    erased: bool = False,
) -> PartitionChange:
    rows = {"messages": list(messages), "tool_calls": list(tool_calls)}
    last = max([1, *(values[2] for values in [*messages, *tool_calls])])
    if not erased:
        rows["sessions"] = [session(partition, last, **(meta or {}))]
    return PartitionChange(partition=partition, incarnation="aa", mode=mode, to_position=last, rows=rows, erased=erased)


def said(
    partition: str, *texts: str, meta: dict[str, Any] | None = None, first: int = 1, mode: str = "append"
) -> PartitionChange:
    """A conversation in which these things were said, one a turn."""
    messages = [message(partition, first + number, text) for number, text in enumerate(texts)]
    return change(partition, messages=messages, meta=meta, mode=mode)


class Archive:
    """A store with search packs."""

    def __init__(self, store: Any = None) -> None:
        self.store = store if store is not None else MemoryStore(ManualClock())
        self.build = SearchBuild(self.store)
        self.packs: tuple[str, ...] = ()

    def tick(self, *changes: PartitionChange) -> "Archive":
        self.packs = self.build.extend(self.packs, changes)
        return self

    def engine(self, semantic: Any = None) -> SearchEngine:
        return SearchEngine(
            self.store,
            cursor_secret=b"a secret of the tests' own",
            semantic=None if semantic is None else lambda: semantic,
        )

    def generation(self) -> GenerationRef:
        """The packs as a generation; its name is their hash, as a manifest's would be."""
        name = hashlib.sha256("".join(self.packs).encode()).hexdigest()[:12]
        return GenerationRef(generation_id=f"g-{name}", packs=self.packs, as_of=len(self.packs))

    def search(self, text: str = "", *, scope: Sequence[str] | None = None, **more: Any) -> SearchAnswer:
        verbose = more.pop("verbose", False)
        request = SearchRequest(text=text, **more)
        return self.engine().search(request, access=access(scope), generation=self.generation(), verbose=verbose)


def access(scope: Sequence[str] | None = None) -> Access:
    if scope is None:
        return Access(realm="fleet", partitions=None)
    return Access(realm="participant", partitions=frozenset(scope))


def partitions(answer: SearchAnswer) -> list[str]:
    return [hit.partition for hit in answer.results]
