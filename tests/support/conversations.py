"""Synthetic imported conversations with the events of real ones: for tests and benches of the planes below facts."""

import functools
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from facts import codec, events
from polyc.appending import Draft
from polyc.ids import imported_partition, uuid8

WORDS = [
    "ferry",
    "tide",
    "harbour",
    "fare",
    "deck",
    "crew",
    "quay",
    "night",
    "morning",
    "ticket",
    "engine",
    "chart",
    "lamp",
    "anchor",
]
MODELS = ("aster-large", "aster-small", "birch-2")
TOOLS = (("read", "file_read"), ("edit", "file_edit"), ("shell", "shell"), ("search", "search"))
START = datetime(2025, 1, 6, tzinfo=UTC)


def partition_of(number: int) -> str:
    return imported_partition("synthetic", f"session-{number}")


@functools.cache
def _pool() -> str:
    """Some megabytes of words of a made-up language: as hard to compress as prose."""
    rng = random.Random(7)
    syllables = ["ka", "lo", "mi", "ter", "va", "ns", "or", "il", "ba", "qu", "esh", "dra", "po", "nu", "sil", "ter"]
    vocabulary = ["".join(rng.choices(syllables, k=rng.randrange(1, 5))) for _ in range(6000)] + WORDS * 40
    return " ".join(rng.choices(vocabulary, k=600_000))


def text(seed: int, words: int) -> str:
    """About that many words; another seed, another place in the pool."""
    pool, size = _pool(), words * 6
    start = (seed * 7919 * 104_729) % (len(pool) - size)
    return pool[start : start + size]


def _seed(number: int, index: int, call: int = 0, kind: int = 0) -> int:
    return ((number * 64 + index) * 16 + call) * 4 + kind


def opening(number: int, *, weeks: int = 26) -> list[Draft]:
    at = START + timedelta(weeks=number % weeks, seconds=number)
    return [
        codec.encode(
            events.ConversationOpened(
                id=uuid8("open", str(number)), occurred_at=at, origin="claude-code", conversation_id=partition_of(number),
                provider_session_id=f"session-{number}", title=text(number, 5), cwd="/src/ferry", repo="ferry",
            )
        )
    ]  # fmt: skip


def turn(number: int, index: int, *, words: int = 120, weeks: int = 26, calls: int = 3) -> list[Draft]:
    """One committed turn: a prompt, and `calls` model calls each with usage, a tool call and its result."""
    at = START + timedelta(weeks=number % weeks, seconds=number + 60 * index)
    seed = f"{number}/{index}"
    ref = events.TurnRef(partition_of(number), f"t{index}")
    out = [
        events.TurnStart(id=uuid8("start", seed), occurred_at=at, turn=ref, evidence="stated"),
        events.Message(
            id=uuid8("user", seed), occurred_at=at, turn_id=f"t{index}", message_id=f"u{index}", role="user",
            material_origin="human_authored", blocks=(events.Block(type="text", text=text(_seed(number, index), words // 3)),),
        ),
    ]  # fmt: skip
    for call in range(calls):
        key, model = f"{index}-{call}", MODELS[(number + call) % len(MODELS)]
        tool, action = TOOLS[(number + index + call) % len(TOOLS)]
        out += [
            events.ModelCall(id=uuid8("call", seed, key), occurred_at=at, turn_id=f"t{index}", call_id=f"k{key}", provider="aster", model=model, latency_ms=900 + call),
            events.Message(
                id=uuid8("said", seed, key), occurred_at=at, turn_id=f"t{index}", message_id=f"a{key}", role="assistant",
                material_origin="assistant_authored", model=model, call_id=f"k{key}",
                blocks=(events.Block(type="text", text=text(_seed(number, index, call, 1), words)),),
            ),
            events.Usage(id=uuid8("usage", seed, key), occurred_at=at, turn_id=f"t{index}", call_id=f"k{key}", provider="aster", model=model, input_tokens=1000 + number % 97, output_tokens=50 + call),
            events.ToolCall(id=uuid8("tool", seed, key), occurred_at=at, turn_id=f"t{index}", tool_call_id=f"x{key}", name=tool, action=action, message_id=f"a{key}", arguments=f'{{"path":"src/{call}.py"}}', path=f"src/{call}.py"),
            events.ToolResult(id=uuid8("result", seed, key), occurred_at=at, turn_id=f"t{index}", tool_call_id=f"x{key}", text=text(_seed(number, index, call, 2), words * 2), is_error=False, duration_ms=12),
        ]  # fmt: skip
    out.append(
        events.TurnComplete(
            id=uuid8("end", seed), occurred_at=at, turn=ref, status="completed", evidence="stated", duration_ms=4000
        )
    )
    return [codec.encode(event) for event in out]


def conversation(number: int, *, turns: int, words: int = 120, weeks: int = 26, calls: int = 3) -> Iterator[Draft]:
    yield from opening(number, weeks=weeks)
    for index in range(turns):
        yield from turn(number, index, words=words, weeks=weeks, calls=calls)
