"""Where hits may be: the indexes of a scope's packs under a request's conditions, and what the scope's statistics are.

A unit is one index of one pack. Statistics are counted over the scope alone, hits are looked for under the request's
filters too; what either counts is exact and depends on nothing outside the scope.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import tantivy

from search.chunk import KINDS, Kind
from search.opened import OpenIndex
from search.pack import INDEX_NAMES, IndexName
from search.query.clauses import Question
from search.query.filters import INDEX_KINDS, hit_filters, partition_filter
from search.query.request import SearchRequest
from search.query.scope import Scope, ScopedPack
from search.query.score import ScopedClause, idf, stem_of

Must, Should = tantivy.Occur.Must, tantivy.Occur.Should


class Unit:
    """One index of one pack under conditions; `place` counts the scope's packs."""

    def __init__(
        self, place: int, scoped: ScopedPack, name: IndexName, index: OpenIndex, conditions: Sequence[Any]
    ) -> None:
        self.place = place
        self.scoped = scoped
        self.name = name
        self.index = index
        self.conditions = conditions
        self.weights: tuple[float, ...] = (1.0,) * len(KINDS)  # of a chunk's score, by the number of its kind

    def matching(self, query: Any) -> Any:
        """The query under the conditions."""
        if not self.conditions:
            return query
        return tantivy.Query.boolean_query([(Must, query), *((Must, condition) for condition in self.conditions)])

    def count(self, query: Any) -> int:
        """How many rows match."""
        return int(self.index.searcher.search(self.matching(query), 1, count=True).count)


def scope_units(packs: Sequence[ScopedPack]) -> list[Unit]:
    """The indexes of packs, under the scope alone: what statistics are counted on."""
    units = []
    for place, scoped in enumerate(packs):
        for name in INDEX_NAMES:
            index = scoped.pack.index(name)
            if index is not None:
                condition = partition_filter(index.schema, scoped)
                units.append(Unit(place, scoped, name, index, [] if condition is None else [condition]))
    return units


def hit_units(units: Iterable[Unit], request: SearchRequest) -> list[Unit]:
    """Those where hits may be, under the request's filters too."""
    found = []
    for scoped in units:
        kinds: list[Kind] = [kind for kind in request.kinds if kind in INDEX_KINDS[scoped.name]]
        names = scoped.scoped.pack.names
        more = hit_filters(scoped.index.schema, scoped.name, kinds, names, request) if kinds else None
        if more is not None:
            unit = Unit(scoped.place, scoped.scoped, scoped.name, scoped.index, [*scoped.conditions, *more])
            unit.weights = tuple(request.weight(kind) if kind in kinds else 0.0 for kind in KINDS)
            found.append(unit)
    return found


def scoped_clauses(question: Question, scope: Scope, units: Sequence[Unit]) -> tuple[ScopedClause, ...]:
    """The clauses with the scope's statistics; those that nothing in the scope satisfies are left out.

    How many chunks have a word is remembered with the scope: both are of one generation, and common words come again.
    """
    total = scope.chunks
    averages: dict[str, dict[IndexName, float]] = {
        "body": {name: _average(counts.body_tokens, counts.chunks) for name, counts in scope.counts.items()},
        "stem": {name: _average(counts.stem_tokens, counts.chunks) for name, counts in scope.counts.items()},
    }
    words: dict[int, list[ScopedClause]] = {}
    for clause in question.clauses:
        stem = stem_of(clause.tokens[0]) if clause.field == "stem" else ""
        words.setdefault(clause.word, []).append(ScopedClause(clause, 0.0, averages[clause.field], stem))
    found: list[ScopedClause] = []
    for clauses in words.values():
        name = tuple((item.clause.field, item.clause.tokens) for item in clauses)
        matching = scope.matching.get(name)
        if matching is None:
            matching = sum(_matching(unit, clauses) for unit in units)
            scope.remember(name, matching)
        if matching:
            found += [item._replace(idf=idf(total, matching)) for item in clauses]
    return tuple(found)


def clause_query(unit: Unit, scoped: ScopedClause) -> Any:
    """The engine's query of a clause."""
    schema, clause = unit.index.schema, scoped.clause
    if clause.field == "stem":
        return tantivy.Query.term_query(schema, "stem", scoped.stem, "freq")
    if len(clause.tokens) == 1:
        return tantivy.Query.term_query(schema, "body", clause.tokens[0], "freq")
    return tantivy.Query.phrase_query(schema, "body", list(clause.tokens))


def proposal_query(unit: Unit, clauses: Sequence[ScopedClause]) -> Any | None:
    """What the engine is asked for candidates with, or None when no row of the pack can satisfy a clause.

    Each clause is boosted by idf(scope) / idf(pack), so that the engine's idf becomes the scope's.
    """
    held = [(Should, _boosted(unit, item)) for item in clauses if frequency(unit, item)]
    return unit.matching(tantivy.Query.boolean_query(held)) if held else None


def frequency(unit: Unit, item: ScopedClause) -> int:
    """An upper bound of the pack's rows that satisfy a clause; exact for one token."""
    clause = item.clause
    if clause.field == "stem":
        return int(unit.index.searcher.doc_freq("stem", item.stem))
    return min([int(unit.index.searcher.doc_freq("body", token)) for token in clause.tokens])


def _boosted(unit: Unit, scoped: ScopedClause) -> Any:
    clause = scoped.clause
    tokens = [scoped.stem] if clause.field == "stem" else clause.tokens
    own = math.fsum(idf(unit.index.rows, unit.index.searcher.doc_freq(clause.field, token)) for token in tokens)
    return tantivy.Query.boost_query(clause_query(unit, scoped), clause.weight * scoped.idf / own)


def _matching(unit: Unit, clauses: Sequence[ScopedClause]) -> int:
    """How many rows of a unit satisfy a word's clauses."""
    held = [(item, found) for item in clauses if (found := frequency(unit, item))]
    if not held:
        return 0
    if len(held) == 1 and not unit.conditions and len(held[0][0].clause.tokens) == 1:
        return held[0][1]
    queries = [clause_query(unit, item) for item, _ in held]
    return unit.count(
        queries[0] if len(queries) == 1 else tantivy.Query.boolean_query([(Should, query) for query in queries])
    )


def _average(tokens: int, chunks: int) -> float:
    return tokens / chunks if chunks and tokens else 1.0
