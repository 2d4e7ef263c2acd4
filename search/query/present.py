"""From a ranked chunk to a hit: reads the record, makes the snippet, names what a person may do next."""

import re
import shlex
from collections.abc import Iterator

from search.chunk import KINDS, Chunk, SessionMeta
from search.query.answer import Hit, HitSnippet, LaneScore
from search.query.clauses import Question
from search.query.fusion import Ranked
from search.query.request import SearchRequest
from search.query.scope import Scope
from search.query.score import ScopedClause
from search.query.snippet import Marker, Snippet
from search.query.wire import format_time

SHORT_ID: int = 12  # hex digits or characters: unambiguous in archives of millions, still typed by hand


def make_hit(
    item: Ranked,
    chunk: Chunk,
    *,
    rank: int,
    marker: Marker,
    clauses: tuple[ScopedClause, ...],
    meta: SessionMeta,
    further: int,
    request: SearchRequest,
    verbose: bool,
) -> Hit:
    """The hit of a chunk."""
    snippet = marker.snippet(chunk)
    basic = {
        "rank": rank,
        "id": chunk.chunk_id[:SHORT_ID],
        "session": short_session(chunk.partition),
        "partition": chunk.partition,
        "position": chunk.position,
        "turn_id": chunk.turn_id,
        "kind": KINDS[item.spot.kind],
        "role": chunk.role,
        "citation": f"{chunk.partition}@{chunk.position}",
        "snippet": _snippet(snippet),
        "matched": snippet.terms,
        "retrieval_score": round(item.score, 6),
        "occurred_at": format_time(chunk.occurred_at_us),
        "tool": chunk.tool,
        "is_error": chunk.is_error,
        "paths": chunk.paths[:4],
        "title": meta.title,
        "provider": meta.origin,
        "workspace": meta.repo,
        "further_matches": further,
        "lexical": _lexical(item, clauses, explain=request.explain),
        "semantic": None
        if item.semantic is None or item.semantic_rank is None
        else LaneScore(rank=item.semantic_rank, score=round(item.semantic.similarity, 6)),
        "capped": chunk.capped,
    }
    more = _verbose(chunk, meta, request) if verbose else {}
    return Hit(**basic, **more)  # type: ignore[arg-type]  # the two dicts are written out above and below


def short_session(partition: str) -> str:
    """A conversation's short name: 12 characters of its id; any unambiguous 8 are understood."""
    return partition.removeprefix("conv-").removeprefix("imp-")[:SHORT_ID]


def _snippet(snippet: Snippet) -> HitSnippet:
    return HitSnippet(
        text=snippet.text,
        start_byte=snippet.start_byte,
        end_byte=snippet.end_byte,
        highlights=snippet.highlights,
        cut_before=snippet.cut_before,
        cut_after=snippet.cut_after,
    )


def _lexical(item: Ranked, clauses: tuple[ScopedClause, ...], *, explain: bool) -> LaneScore | None:
    if item.lexical is None or item.lexical_rank is None:
        return None
    parts = None
    if explain:
        names = [f"{clause.clause.field}:{' '.join(clause.clause.tokens)}" for clause in clauses]
        gains = zip(names, item.lexical.scored.parts, strict=True)
        parts = {name: round(gain, 6) for name, gain in gains if gain}
    return LaneScore(rank=item.lexical_rank, score=round(item.lexical.score, 6), parts=parts)


def _verbose(chunk: Chunk, meta: SessionMeta, request: SearchRequest) -> dict[str, object]:
    return {
        "chunk_id": chunk.chunk_id,
        "source_incarnation": chunk.source_incarnation,
        "tool_call_id": chunk.tool_call_id,
        "evidence": chunk.evidence,
        "cwd": meta.cwd,
        "branch": meta.git_branch,
        "provider_session": meta.provider_session_id,
        "agent": meta.agent_id,
        "parent": meta.parent,
        "root": meta.root,
        "suggested_next_commands": (
            f"polyc show {chunk.partition}@{chunk.position}",
            f"polyc prove {chunk.partition} {chunk.position} --out -",
            " ".join(("polyc search", *_arguments(request), "--session", short_session(chunk.partition))),
        ),
    }


_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]+")
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def _arguments(request: SearchRequest) -> Iterator[str]:
    """The words and alternatives of a request as a shell takes them: what begins with a dash is no option."""
    for option, text in (("", request.text), *(("--term", term) for term in request.terms)):
        said = _DIRECTIONS.sub("", _CONTROLS.sub(" ", text)).strip()
        if said.startswith("-"):
            yield f"{option or '--term'}={shlex.quote(said)}"
        elif said:
            yield f"{option} {shlex.quote(said)}".lstrip()


def explain_answer(
    *, scope: Scope, question: Question, clauses: tuple[ScopedClause, ...], pool: int, lanes: dict[str, object]
) -> dict[str, object]:
    """The decisions of a search, in numbers of the scope alone."""
    return {
        "scope": {"conversations": len(scope.metas), "chunks": scope.chunks},
        "words": list(question.words),
        "clauses": [
            {
                "field": item.clause.field,
                "tokens": list(item.clause.tokens),
                "weight": item.clause.weight,
                "idf": round(item.idf, 6),
            }
            for item in clauses
        ],
        "pool": pool,
        "lanes": lanes,
    }
