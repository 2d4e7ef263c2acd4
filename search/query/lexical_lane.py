"""The lexical lane: exact BM25 order of a scope, from candidates that the engine proposes.

The engine scores with one pack's statistics. Each clause is boosted by idf(scope) / idf(pack), so its score differs
from ours only by the average length: ours is never more than `factor` = max(1, avgdl(scope) / avgdl(pack)) times it
(lengths are floored in the engine). So whatever it proposed scores at most `factor` times what it said, and whatever
comes later no more than that: candidates are read and scored only while one of them could still stand above what is
settled, and the order is exact. Chunks of equal text are scored once. Nothing here depends on rows outside the scope
but the work done.
"""

import heapq
import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import tantivy

from search.chunk import Kind
from search.opened import OpenIndex
from search.pack import INDEX_NAMES, IndexName
from search.query.clauses import Clause, Question
from search.query.filters import INDEX_KINDS, hit_filters, partition_filter
from search.query.request import SearchRequest
from search.query.scope import Scope, ScopedPack
from search.query.score import ScopedClause, Scored, Scorer, idf, stem_of

_FIRST_BATCH_MIN: Final = 32  # the engine proposes so many almost as fast as one
_FIRST_BATCH_MAX: Final = 256
_GROWTH: Final = 4
_SCORED_AT_ONCE: Final = 8
_SLACK: Final = 1.0001  # the engine computes in 32 bits

Must, Should = tantivy.Occur.Must, tantivy.Occur.Should


class Spot(NamedTuple):
    """A row: where it lies (`pack` counts in the scope's packs), and what ordering and shaping ask of it."""

    pack: int
    index_name: str
    row: int
    partition: str
    position: int
    kind: int
    minus_time: int
    ident: int


class Match(NamedTuple):
    """A candidate, and the complete sort key: best first when compared as it stands."""

    minus_score: float
    minus_time: int
    ident: int
    spot: Spot
    scored: Scored

    @property
    def score(self) -> float:
        """What it is ordered by."""
        return -self.minus_score


class Unit:
    """One index of one pack under a request's conditions."""

    def __init__(self, place: int, scoped: ScopedPack, name: IndexName, index: OpenIndex) -> None:
        self.place = place
        self.scoped = scoped
        self.name = name
        self.index = index
        self.conditions: list[Any] = []
        self.weight = 1.0  # of all its rows: rows of another weight are another unit, so that bounds are tight

    def matching(self, query: Any) -> Any:
        """The query under the conditions."""
        if not self.conditions:
            return query
        return tantivy.Query.boolean_query([(Must, query), *((Must, condition) for condition in self.conditions)])

    def count(self, query: Any) -> int:
        """How many rows match."""
        return int(self.index.searcher.search(self.matching(query), 1, count=True).count)


def scope_units(packs: Sequence[ScopedPack]) -> list[Unit]:
    """The scope's indexes, under the scope alone: what statistics are counted on."""
    units = []
    for place, scoped in enumerate(packs):
        for name in INDEX_NAMES:
            index = scoped.pack.index(name)
            if index is not None:
                unit = Unit(place, scoped, name, index)
                condition = partition_filter(index.schema, scoped)
                unit.conditions = [] if condition is None else [condition]
                units.append(unit)
    return units


def hit_units(packs: Sequence[ScopedPack], request: SearchRequest) -> list[Unit]:
    """The indexes where hits may be, under scope and filters, by weight; `packs` are the narrowed ones."""
    units = []
    for scoped in scope_units(packs):
        for weight, kinds in _by_weight(request, scoped.name):
            more = hit_filters(scoped.index.schema, scoped.name, kinds, scoped.scoped.pack.names, request)
            if more is not None:
                unit = Unit(scoped.place, scoped.scoped, scoped.name, scoped.index)
                unit.conditions = [*scoped.conditions, *more]
                unit.weight = weight
                units.append(unit)
    return units


def _by_weight(request: SearchRequest, index: IndexName) -> list[tuple[float, list[Kind]]]:
    groups: dict[float, list[Kind]] = {}
    for kind in request.kinds:
        if kind in INDEX_KINDS[index]:
            groups.setdefault(request.weight(kind), []).append(kind)
    return sorted(groups.items(), reverse=True)


def scoped_clauses(question: Question, scope: Scope, units: Sequence[Unit]) -> tuple[ScopedClause, ...]:
    """The clauses with the scope's statistics; those that nothing in the scope satisfies are left out."""
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
        matching = sum(_matching(unit, clauses) for unit in units)
        if matching:
            found += [item._replace(idf=idf(total, matching)) for item in clauses]
    return tuple(found)


class LexicalLane:
    """Matches of a request, best first; scores no more of them than the order asked for needs."""

    def __init__(self, units: Sequence[Unit], clauses: Sequence[ScopedClause], *, batch: int) -> None:
        batch = min(_FIRST_BATCH_MAX, max(_FIRST_BATCH_MIN, batch))
        scorers = {name: _Remembering(clauses, name) for name in INDEX_NAMES}
        self._streams = [_Stream(unit, clauses, scorers[unit.name], batch) for unit in units]
        self.total = sum(stream.total for stream in self._streams)

    def __iter__(self) -> Iterator[Match]:
        """Every match once, in exact order."""
        waiting: list[Match] = []
        while True:
            bound = max((stream.bound for stream in self._streams if not stream.done), default=-1.0)
            while waiting and waiting[0].score > bound:
                yield heapq.heappop(waiting)
            live = [stream for stream in self._streams if not stream.done]
            if not live:
                return
            behind = max(live, key=lambda stream: stream.bound)
            for match in behind.fetch():
                heapq.heappush(waiting, match)


class _Remembering(Scorer):
    """A scorer that scores equal texts once."""

    def __init__(self, clauses: Sequence[ScopedClause], index: IndexName) -> None:
        super().__init__(clauses, index)
        self.known: dict[int, Scored] = {}


class _Stream:
    """One unit's candidates: proposed by the engine in batches that grow, scored a few at a time.

    A larger batch asks again from the start and skips what was seen: two questions of the engine with an offset could
    disagree about ties.
    """

    def __init__(self, unit: Unit, clauses: Sequence[ScopedClause], scorer: _Remembering, batch: int) -> None:
        self._unit = unit
        self._scorer = scorer
        self._batch = batch
        self._seen: set[int] = set()
        self._factor = _factor(unit, clauses) * _SLACK * unit.weight
        held = [(Should, _boosted(unit, item)) for item in clauses if _frequency(unit, item)]
        self._query = unit.matching(tantivy.Query.boolean_query(held))
        self._hits: deque[tuple[float, Any]] = deque()
        self.total = 0
        self.bound = -1.0  # what is still to come scores no more
        self.done = not held
        if held:
            result = unit.index.searcher.search(self._query, self._batch, count=True)
            self.total = int(result.count)
            self._propose(result.hits)

    def fetch(self) -> list[Match]:
        """The next few, scored."""
        fresh = [self._hits.popleft()[1] for _ in range(min(_SCORED_AT_ONCE, len(self._hits)))]
        if not self._hits and self._batch < self.total:
            self._batch *= _GROWTH
            self._propose(self._unit.index.searcher.search(self._query, self._batch, count=False).hits)
        self._rebound()
        return self._scored(fresh)

    def _propose(self, hits: list[tuple[float, Any]]) -> None:
        self._hits.extend(hit for hit in hits if hit[1].doc not in self._seen)
        self._seen.update(address.doc for _, address in hits)
        self._rebound()

    def _rebound(self) -> None:
        self.done = not self._hits
        self.bound = self._hits[0][0] * self._factor if self._hits else -1.0

    def _scored(self, addresses: list[Any]) -> list[Match]:
        if not addresses:
            return []
        searcher, pack, name = self._unit.index.searcher, self._unit.scoped.pack, self._unit.name
        columns = [searcher.fast_field_values(field, addresses) for field in ("digest", "body_count", "stem_count")]
        known = self._scorer.known
        matches = []
        for spot, digest, body_count, stem_count in zip(spots(self._unit, addresses), *columns, strict=True):
            scored = known.get(digest)
            if scored is None:
                text = pack.chunk(name, spot.row).words_text
                scored = self._scorer.score(text, body_count=body_count, stem_count=stem_count or 0)
                known[digest] = scored
            weighted = -scored.score * self._unit.weight
            matches.append(Match(weighted, spot.minus_time, spot.ident, spot, scored))
        return matches


def spots(unit: Unit, addresses: Sequence[Any]) -> list[Spot]:
    """What is known of rows without reading their records."""
    searcher, entries = unit.index.searcher, unit.scoped.pack.entries
    names = ("partition", "position", "kind", "time", "ident")
    columns = [searcher.fast_field_values(name, list(addresses)) for name in names]
    return [
        Spot(unit.place, unit.name, address.doc, entries[partition].partition, position, kind, _minus(time), ident)
        for address, partition, position, kind, time, ident in zip(addresses, *columns, strict=True)
    ]


def _minus(time: int | None) -> int:
    """The newest first; what has no time comes last."""
    return 1 << 62 if time is None else -time


def _factor(unit: Unit, clauses: Sequence[ScopedClause]) -> float:
    """How much more than the engine's our score of a candidate can be."""
    totals = unit.scoped.pack.totals[unit.name]
    averages = {"body": totals.body_tokens / totals.chunks, "stem": totals.stem_tokens / totals.chunks}
    ratios = [scoped.averages[unit.name] / own for scoped in clauses if (own := averages[scoped.clause.field])]
    return max([1.0, *ratios])


def _boosted(unit: Unit, scoped: ScopedClause) -> Any:
    """The clause's query, boosted so that the engine's idf becomes the scope's."""
    searcher, rows = unit.index.searcher, unit.index.rows
    clause = scoped.clause
    tokens = [scoped.stem] if clause.field == "stem" else clause.tokens
    own = math.fsum(idf(rows, searcher.doc_freq(clause.field, token)) for token in tokens)
    return tantivy.Query.boost_query(clause_query(unit, scoped), clause.weight * scoped.idf / own)


def clause_query(unit: Unit, scoped: ScopedClause) -> Any:
    """The engine's query of a clause."""
    return _query(unit, scoped.clause, scoped.stem)


def newest_spots(units: Sequence[Unit], limit: int) -> tuple[list[Spot], int]:
    """Without words: the newest rows under the conditions, and how many there are."""
    found: list[Spot] = []
    total = 0
    for unit in units:
        every = unit.matching(tantivy.Query.all_query())
        total += unit.count(tantivy.Query.all_query())
        result = unit.index.searcher.search(every, limit, count=False, order_by_field="time")
        found += spots(unit, [address for _, address in result.hits])
    found.sort(key=lambda spot: (spot.minus_time, spot.ident))
    return found[:limit], total


def _query(unit: Unit, clause: Clause, stem: str) -> Any:
    schema = unit.index.schema
    if clause.field == "stem":
        return tantivy.Query.term_query(schema, "stem", stem, "freq")
    if len(clause.tokens) == 1:
        return tantivy.Query.term_query(schema, "body", clause.tokens[0], "freq")
    return tantivy.Query.phrase_query(schema, "body", list(clause.tokens))


def _matching(unit: Unit, clauses: Sequence[ScopedClause]) -> int:
    """How many rows of a unit satisfy a word's clauses."""
    held = [(item, frequency) for item in clauses if (frequency := _frequency(unit, item))]
    if not held:
        return 0
    if len(held) == 1 and not unit.conditions and len(held[0][0].clause.tokens) == 1:
        return held[0][1]
    queries = [clause_query(unit, item) for item, _ in held]
    return unit.count(
        queries[0] if len(queries) == 1 else tantivy.Query.boolean_query([(Should, query) for query in queries])
    )


def _frequency(unit: Unit, item: ScopedClause) -> int:
    """An upper bound of the pack's rows that satisfy a clause; exact for one token."""
    tokens = (item.stem,) if item.clause.field == "stem" else item.clause.tokens
    return min(int(unit.index.searcher.doc_freq(item.clause.field, token)) for token in tokens)


def _average(tokens: int, chunks: int) -> float:
    return tokens / chunks if chunks and tokens else 1.0
