"""Counts of matching chunks by kind, role, tool, provider and conversation: of the scope and filters, exactly."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import tantivy

from search.chunk import KINDS, SessionMeta
from search.query.score import ScopedClause
from search.query.units import Unit, clause_query

_TOP: Final = 20
_BUCKETS_MAX: Final = 65_000  # the engine's bound; a pack has no more partitions or tools that match


def count_facets(
    units: Sequence[Unit], clauses: Sequence[ScopedClause], metas: Mapping[str, SessionMeta]
) -> dict[str, dict[str, int]]:
    """The facets of a question; each by count, then name, the 20 largest."""
    found: dict[str, Counter[str]] = {name: Counter() for name in ("kind", "role", "tool", "provider", "conversation")}
    for unit in units:
        names = unit.scoped.pack.names
        for ordinal, count in _buckets(unit, clauses, "kind").items():
            found["kind"][KINDS[ordinal]] += count
        for ordinal, count in _buckets(unit, clauses, "role").items():
            found["role"][names.roles[ordinal - 1] if ordinal else "unknown"] += count
        for ordinal, count in _buckets(unit, clauses, "tool").items():
            if ordinal:
                found["tool"][names.tools[ordinal - 1]] += count
        for ordinal, count in _buckets(unit, clauses, "partition").items():
            partition = unit.scoped.pack.entries[ordinal].partition
            found["conversation"][partition] += count
            found["provider"][metas.get(partition, SessionMeta()).origin or "unknown"] += count
    return {
        name: dict(sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:_TOP])
        for name, counter in found.items()
    }


def _buckets(unit: Unit, clauses: Sequence[ScopedClause], field: str) -> dict[int, int]:
    query = tantivy.Query.boolean_query([(tantivy.Occur.Should, clause_query(unit, item)) for item in clauses])
    answer: dict[str, Any] = unit.index.searcher.aggregate(
        unit.matching(query), {"by": {"terms": {"field": field, "size": _BUCKETS_MAX, "segment_size": _BUCKETS_MAX}}}
    )
    return {int(bucket["key"]): int(bucket["doc_count"]) for bucket in answer["by"]["buckets"]}
