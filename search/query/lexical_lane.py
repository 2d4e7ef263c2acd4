"""The lexical lane: exact BM25 order of a scope, from candidates that the engine proposes.

The engine scores with one pack's statistics. Each clause is boosted by idf(scope) / idf(pack), so its score differs
from ours only by the average length: ours is never more than `factor` = max(1, avgdl(scope) / avgdl(pack)) times it
(lengths are floored in the engine). So whatever it proposed scores at most `factor` times what it said, and whatever
comes later no more than that: a candidate's text is read only while it could still stand above what is settled.

Candidates come in *runs*: rows of one kind with the same numbers of tokens that the engine scored alike. The engine's
score is made of the same counts as ours, so a run is scored once, from the text of one of its rows: chunks by the
thousand that all say a word once cost one text. Two different counts could collide in the engine's 32 bits; so the
text of every row that is shown is scored too (`scored`), and where it contradicts its run the search is done again
with runs of one row (`careful`). Nothing here depends on rows outside the scope but the work done.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Any, Final, NamedTuple

import tantivy

from search.chunk import Chunk
from search.pack import INDEX_NAMES, IndexName, index_of
from search.query.score import ScopedClause, Scored, Scorer
from search.query.units import Unit, proposal_query

_FIRST_BATCH_MIN: Final = 32  # the engine proposes so many almost as fast as one
_FIRST_BATCH_MAX: Final = 256
_GROWTH: Final = 4
_LISTED_MIN: Final = 512  # fewer rows are listed faster than asked for twice
_PORTION: Final = 64
_SLACK: Final = 1.0001  # the engine computes in 32 bits
_NO_TIME: Final = 1 << 62  # what has no time comes last


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


class LexicalLane:
    """Matches of a request, best first; scores no more of them than the order asked for needs."""

    def __init__(
        self, units: Sequence[Unit], clauses: Sequence[ScopedClause], *, batch: int, careful: bool = False
    ) -> None:
        batch = min(_FIRST_BATCH_MAX, max(_FIRST_BATCH_MIN, batch))
        self._scorers = {name: _Remembering(clauses, name) for name in INDEX_NAMES}
        self._streams = [
            _Stream(unit, clauses, self._scorers[unit.name], batch=batch, careful=careful) for unit in units
        ]
        self.total = sum([stream.total for stream in self._streams])

    def __iter__(self) -> Iterator[Match]:
        """Every match once, in exact order."""
        numbers = count()  # so that no two entries compare equal
        waiting: list[tuple[float, int, int, int, int, _Run]] = []
        while self._streams:
            behind = max(self._streams, key=lambda stream: stream.bound)
            if behind.bound >= (-waiting[0][0] if waiting else 0.0):
                for run in behind.propose():
                    heappush(waiting, (*run.key, next(numbers), run))
                continue
            if not waiting:
                return
            run = waiting[0][-1]
            if run.settle():
                heapreplace(waiting, (*run.key, next(numbers), run))
                continue
            yield run.take()
            if run.members:
                heapreplace(waiting, (*run.key, next(numbers), run))
            else:
                heappop(waiting)

    def scored(self, match: Match, chunk: Chunk) -> Scored:
        """What a match's own text scores; another score than its run's is a coincidence of the engine's numbers."""
        given = match.scored
        scorer = self._scorers[index_of(chunk.kind)]
        return scorer.score(chunk.words_text, body_count=given.body_count, stem_count=given.stem_count)


class _Remembering(Scorer):
    """A scorer that scores equal texts once."""

    def __init__(self, clauses: Sequence[ScopedClause], index: IndexName) -> None:
        super().__init__(clauses, index)
        self.known: dict[int, Scored] = {}


class _Stream:
    """One unit's candidates: proposed by the engine in batches that grow, looked at a portion at a time.

    A larger batch asks again from the start and skips what was seen: two questions of the engine with an offset could
    disagree about ties.
    """

    def __init__(
        self, unit: Unit, clauses: Sequence[ScopedClause], scorer: _Remembering, *, batch: int, careful: bool
    ) -> None:
        self.unit = unit
        self.bound = -1.0  # what was not looked at yet scores no more
        self.total = 0
        self._scorer = scorer
        self._careful = careful
        self._factor = _factor(unit, clauses) * _SLACK
        self._weight_max = max(unit.weights)
        self._batch = batch
        self._seen: set[int] = set()
        self._hits: list[tuple[float, Any]] = []
        self._query = proposal_query(unit, clauses)
        if self._query is not None:
            result = unit.index.searcher.search(self._query, batch, count=True)
            self.total = int(result.count)
            self._hits = result.hits
            self.bound = self._bound_of(self._hits[0]) if self._hits else -1.0

    def propose(self) -> "Iterable[_Run]":
        """The next portion, as runs."""
        if not self._hits:
            self._batch = max(self._batch * _GROWTH, min(self.total, _LISTED_MIN))
            hits = self.unit.index.searcher.search(self._query, self._batch, count=False).hits
            self._hits = [hit for hit in hits if hit[1].doc not in self._seen]
        size = min(_PORTION, len(self._hits))
        while size < len(self._hits) and self._hits[size][0] == self._hits[size - 1][0]:
            size += 1  # of what is scored alike all is needed to know the best of it
        portion, self._hits = self._hits[:size], self._hits[size:]
        rows = [address.doc for _, address in portion]
        has_more = self._batch < self.total
        if has_more:
            self._seen.update(rows)
        last = self._hits[0] if self._hits else portion[-1]
        self.bound = self._bound_of(last) if self._hits or has_more else -1.0
        return self._runs(portion, rows)

    def _bound_of(self, hit: tuple[float, Any]) -> float:
        return hit[0] * self._factor * self._weight_max

    def scored(self, row: int, digest: int, *, body_count: int, stem_count: int) -> Scored:
        """The score of a row, before its kind's weight."""
        known = self._scorer.known.get(digest)
        if known is None:
            text = self.unit.scoped.pack.chunk(self.unit.name, row).words_text
            known = self._scorer.score(text, body_count=body_count, stem_count=stem_count)
            self._scorer.known[digest] = known
        return known

    def _runs(self, hits: Sequence[tuple[float, Any]], rows: Sequence[int]) -> "Iterable[_Run]":
        """The rows that the engine scored alike, of one kind and equal lengths, together."""
        searcher = self.unit.index.searcher
        addresses = [address for _, address in hits]
        kinds, bodies, stems, times, *more = (searcher.fast_field_values(field, addresses) for field in _COLUMNS)
        members = list(zip(map(_minus, times), *more, rows, strict=True))
        own = rows if self._careful else [0] * len(rows)
        alike = list(zip([score for score, _ in hits], kinds, bodies, stems, own, strict=True))
        runs: defaultdict[_Alike, list[_Member]] = defaultdict(list)
        if alike.count(alike[0]) == len(alike):
            runs[alike[0]] = members
        else:
            for key, member in zip(alike, members, strict=True):
                runs[key].append(member)
        return [
            _Run(self, rows, bound=score * self._factor, kind=kind, body_count=body_count, stem_count=stem_count or 0)
            for (score, kind, body_count, stem_count, _), rows in runs.items()
        ]


# What is read of a row before its text; outputs have no stems. The last ones, with the row, are a member of a run.
_COLUMNS: Final = ("kind", "body_count", "stem_count", "time", "ident", "digest", "partition", "position")
_Alike = tuple[float, int, int, int | None, int]  # the engine's score, kind, lengths; the row of a run of one
_Member = tuple[int, int, int, int, int, int]  # minus time, ident, digest, partition's ordinal, position, row


class _Run:
    """Rows that have one score, which is known when it is settled."""

    def __init__(
        self, stream: _Stream, members: list[_Member], *, bound: float, kind: int, body_count: int, stem_count: int
    ) -> None:
        self._kind = kind
        self._weight = stream.unit.weights[kind]
        self.key = (-bound * self._weight, 0, 0, 0)  # not settled: before all that could be equal
        self.members = members
        self._stream = stream
        self._counts = {"body_count": body_count, "stem_count": stem_count}
        self._scored: Scored | None = None

    def settle(self) -> bool:
        """Score it, unless that was done."""
        if self._scored is not None:
            return False
        _, _, digest, _, _, row = self.members[0]
        self._scored = self._stream.scored(row, digest, **self._counts)
        self.members.sort(reverse=True)
        self._place()
        return True

    def take(self) -> Match:
        """Its best member, which leaves it."""
        assert self._scored is not None, "it is settled"
        minus_score, unit = self.key[0], self._stream.unit
        minus_time, ident, _, ordinal, position, row = self.members.pop()
        if self.members:
            self._place()
        partition = unit.scoped.pack.entries[ordinal].partition
        spot = Spot(unit.place, unit.name, row, partition, position, self._kind, minus_time, ident)
        return Match(minus_score, minus_time, ident, spot, self._scored)

    def _place(self) -> None:
        assert self._scored is not None, "it is settled"
        minus_time, ident, *_ = self.members[-1]
        self.key = (-self._scored.score * self._weight, 1, minus_time, ident)


def spots(unit: Unit, addresses: Sequence[Any]) -> list[Spot]:
    """What is known of rows without reading their records."""
    searcher, entries = unit.index.searcher, unit.scoped.pack.entries
    names = ("partition", "position", "kind", "time", "ident")
    columns = [searcher.fast_field_values(name, list(addresses)) for name in names]
    return [
        Spot(unit.place, unit.name, address.doc, entries[partition].partition, position, kind, _minus(time), ident)
        for address, partition, position, kind, time, ident in zip(addresses, *columns, strict=True)
    ]


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


def _minus(time: int | None) -> int:
    """The newest first; what has no time comes last."""
    return _NO_TIME if time is None else -time


def _factor(unit: Unit, clauses: Sequence[ScopedClause]) -> float:
    """How much more than the engine's our score of a candidate can be."""
    totals = unit.scoped.pack.totals[unit.name]
    averages = {"body": totals.body_tokens / totals.chunks, "stem": totals.stem_tokens / totals.chunks}
    ratios = [scoped.averages[unit.name] / own for scoped in clauses if (own := averages[scoped.clause.field])]
    return max([1.0, *ratios])
