"""What a search answers: hits with their evidence, and the decisions that led to them. The same on every surface.

Sizes are of the scope, never of the archive. `retrieval_score` orders nothing across answers; it is a diagnostic.
Byte ranges count in the event's canonical text (search.chunk).
"""

from typing import Any

import msgspec


class LaneScore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lane's part in a hit; `parts` by clause, when explained."""

    rank: int
    score: float
    parts: dict[str, float] | None = None


class HitSnippet(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of the event's text and what matched in it."""

    text: str
    start_byte: int
    end_byte: int
    highlights: tuple[tuple[int, int], ...]
    cut_before: bool
    cut_after: bool


class Hit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A result. `id` and `session` are short; the complete ids stand beside them when verbose."""

    rank: int
    id: str
    session: str
    partition: str
    position: int
    turn_id: str
    kind: str
    role: str
    citation: str
    snippet: HitSnippet
    matched: tuple[str, ...]
    retrieval_score: float
    occurred_at: str | None = None
    tool: str | None = None
    is_error: bool | None = None
    paths: tuple[str, ...] = ()
    title: str | None = None
    provider: str | None = None
    workspace: str | None = None
    further_matches: int = 0
    lexical: LaneScore | None = None
    semantic: LaneScore | None = None
    capped: bool = False
    # verbose only
    chunk_id: str | None = None
    source_incarnation: str | None = None
    tool_call_id: str | None = None
    evidence: tuple[int, ...] = ()
    cwd: str | None = None
    branch: str | None = None
    provider_session: str | None = None
    agent: str | None = None
    parent: str | None = None
    root: str | None = None
    suggested_next_commands: tuple[str, ...] = ()


class GenerationUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An index that was looked at; the watermark is for the fleet only (ruling 33)."""

    kind: str
    generation: str
    watermark: int | None = None


class Freshness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked about freshness, and what came of it: `indexed` is never called the latest."""

    requested: str
    outcome: str
    published_at: str | None = None


class ResultWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the results this is; `more_available` by one further shaped result."""

    limit: int
    offset: int
    returned: int
    more_available: bool


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer; `matching_chunks` counts the lexical matches in the scope exactly.

    `generated_at` is when the command line rendered it: the other doors' answers are the same whenever they are given.
    """

    query: str
    results: tuple[Hit, ...]
    window: ResultWindow
    requested_mode: str
    effective_mode: str
    ranking_policy: str
    generations: tuple[GenerationUse, ...]
    freshness: Freshness
    matching_chunks: int = 0
    fallback: str | None = None
    next_cursor: str | None = None
    pool_truncated: bool = False
    query_truncated: bool = False
    facets: dict[str, dict[str, int]] | None = None
    explain: dict[str, Any] | None = None
    generated_at: str | None = None

    def to_json(self) -> bytes:
        """The JSON text."""
        return msgspec.json.encode(self)
