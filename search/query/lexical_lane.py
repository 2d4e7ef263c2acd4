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

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from operator import neg
from typing import Any, Final, NamedTuple

import tantivy

from search.chunk import Chunk
from search.pack import INDEX_NAMES, IndexName, index_of
from search.query.score import ScopedClause, Scored, Scorer
from search.query.units import Unit, proposal_query

_FIRST_BATCH_MIN: Final = 32  # the engine proposes so many almost as fast as one
_FIRST_BATCH_MAX: Final = 256
_FIRST_LISTED: Final = 1024  # under conditions: asking twice meets them twice, which costs more than a longer list
_GROWTH: Final = 16  # the same reason
_LISTED_MIN: Final = 512  # fewer rows are listed faster than asked for twice
_PORTION: Final = 64
_LONG_MIN: Final = 4 * _PORTION  # a portion is longer only when all of it is scored alike
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
    is_own: bool  # scored from its own text, not from that of another row of its run

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
            if run:
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
        self._batch = max(batch, _FIRST_LISTED) if unit.conditions else batch
        self._seen: set[int] = set()
        self._hits: list[tuple[float, Any]] = []
        self._query = proposal_query(unit, clauses)
        if self._query is not None:
            result = unit.index.searcher.search(self._query, self._batch, count=True)
            self.total = int(result.count)
            self._hits = result.hits
            self.bound = self._bound_of(self._hits[0]) if self._hits else -1.0

    def propose(self) -> "Iterable[_Run]":
        """The next portion, as runs."""
        while not self._hits or (not self._seen and self._hits[0][0] == self._hits[-1][0] and self._has_more):
            self._ask_on()  # of what is scored alike all is needed to know the best of it
        size = min(_PORTION, len(self._hits))
        size = bisect_right(self._hits, -self._hits[size - 1][0], lo=size, key=_minus_score)
        portion, self._hits = self._hits[:size], self._hits[size:]
        if self._has_more:
            self._seen.update([address.doc for _, address in portion])
        last = self._hits[0] if self._hits else portion[-1]
        self.bound = self._bound_of(last) if self._hits or self._has_more else -1.0
        return self._runs(portion)

    @property
    def _has_more(self) -> bool:
        """Whether the engine was not asked for all of them yet."""
        return self._batch < self.total

    def _ask_on(self) -> None:
        """Have more candidates."""
        self._batch = max(self._batch * _GROWTH, min(self.total, _LISTED_MIN))
        hits = self.unit.index.searcher.search(self._query, self._batch, count=False).hits
        self._hits = [hit for hit in hits if hit[1].doc not in self._seen] if self._seen else hits

    def _bound_of(self, hit: tuple[float, Any]) -> float:
        return hit[0] * self._factor * self._weight_max

    def scored(self, row: int, digest: int, *, body_count: int, stem_count: int) -> tuple[Scored, bool]:
        """The score of a row, before its kind's weight, and whether it was taken from this row's own text."""
        known = self._scorer.known.get(digest)
        if known is not None:
            return known, False
        text = self.unit.scoped.pack.chunk(self.unit.name, row).words_text
        known = self._scorer.score(text, body_count=body_count, stem_count=stem_count)
        self._scorer.known[digest] = known
        return known, True

    def members(self, addresses: Sequence[Any]) -> "list[_Member]":
        """Rows with all that is asked of them before their texts."""
        times, *more = self.columns(_OF_MEMBERS, addresses)
        return list(zip(_ages(times), *more, [address.doc for address in addresses], strict=True))

    def columns(self, fields: Sequence[str], addresses: Sequence[Any]) -> "list[list[Any]]":
        """Each field's values of the rows."""
        searcher = self.unit.index.searcher
        return [searcher.fast_field_values(field, addresses) for field in fields]

    def _runs(self, hits: Sequence[tuple[float, Any]]) -> "Iterable[_Run]":
        """The rows that the engine scored alike, of one kind and equal lengths, together."""
        addresses = [address for _, address in hits]
        kinds, bodies, stems = self.columns(_ALIKE, addresses)
        own = [address.doc for address in addresses] if self._careful else [0] * len(addresses)
        numbers = [[score for score, _ in hits], kinds, bodies, stems, own]
        is_long = len(addresses) > _LONG_MIN
        rows = addresses if is_long else self.members(addresses)
        runs: defaultdict[_Alike, list[Any]] = defaultdict(list)
        if all(values.count(values[0]) == len(values) for values in numbers):
            runs[next(zip(*numbers, strict=True))] = rows
        else:
            for key, row in zip(zip(*numbers, strict=True), rows, strict=True):
                runs[key].append(row)
        return [_Run(self, rows, key, is_read=not is_long, bound=key[0] * self._factor) for key, rows in runs.items()]


_ALIKE: Final = ("kind", "body_count", "stem_count")  # outputs have no stems
_OF_MEMBERS: Final = ("time", "ident", "digest", "partition", "position")
_Alike = tuple[float, int, int, int | None, int]  # the engine's score, kind, lengths; the row of a run of one
_Member = tuple[int, int, int, int, int, int]  # minus time, ident, digest, partition's ordinal, position, row


class _Run:
    """Rows that have one score, which is known when it is settled.

    Thousands of rows can be alike, of which an answer shows twenty: a long run knows its rows' ages alone and reads
    the rest of them a slice at a time, the newest first.
    """

    def __init__(self, stream: _Stream, rows: list[Any], alike: "_Alike", *, is_read: bool, bound: float) -> None:
        _, self._kind, self._body_count, stem_count, _ = alike
        self._stem_count = stem_count or 0
        self._weight = stream.unit.weights[self._kind]
        self.key = (-bound * self._weight, 0, 0, 0)  # not settled: before all that could be equal
        self._stream = stream
        self._members: list[_Member] = rows if is_read else []  # a heap when settled
        self._unread: list[Any] = [] if is_read else rows  # addresses; their ages and their order when settled
        self._ages: list[int] = []
        self._order: list[int] = []  # places of those not read yet, the newest last
        self._scored: Scored | None = None
        self._own: int | None = None  # the row whose own text was scored

    def __bool__(self) -> bool:
        """Whether rows are left."""
        return bool(self._members)

    def settle(self) -> bool:
        """Score it, unless that was done: from its best member's text, which is the likeliest to be shown."""
        if self._scored is not None:
            return False
        if self._unread:
            self._ages = _ages(self._stream.columns(("time",), self._unread)[0])
            self._order = sorted(range(len(self._ages)), key=self._ages.__getitem__, reverse=True)
            self._read_on()
        heapify(self._members)
        _, _, digest, _, _, row = self._members[0]
        self._scored, is_own = self._stream.scored(
            row, digest, body_count=self._body_count, stem_count=self._stem_count
        )
        self._own = row if is_own else None
        self._place()
        return True

    def take(self) -> Match:
        """Its best member, which leaves it."""
        assert self._scored is not None, "it is settled"
        minus_score, unit = self.key[0], self._stream.unit
        minus_time, ident, _, ordinal, position, row = heappop(self._members)
        if not self._members and self._order:
            self._read_on()
        if self._members:
            self._place()
        partition = unit.scoped.pack.entries[ordinal].partition
        spot = Spot(unit.place, unit.name, row, partition, position, self._kind, minus_time, ident)
        return Match(minus_score, minus_time, ident, spot, self._scored, row == self._own)

    def _read_on(self) -> None:
        """Read the next slice: what is equally old is told apart by what is read, so none of it is left for later."""
        order, ages = self._order, self._ages
        place = order[max(0, len(order) - _PORTION)]
        first = bisect_left(order, -ages[place], key=lambda each: -ages[each])
        self._members = self._stream.members([self._unread[each] for each in order[first:]])
        heapify(self._members)
        del order[first:]

    def _place(self) -> None:
        assert self._scored is not None, "it is settled"
        minus_time, ident, *_ = self._members[0]
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


def _minus_score(hit: tuple[float, Any]) -> float:
    return -hit[0]


def _ages(times: Sequence[Any]) -> list[int]:
    return list(map(_minus, times) if None in times else map(neg, times))  # a third of the time


def _minus(time: int | None) -> int:
    """The newest first; what has no time comes last."""
    return _NO_TIME if time is None else -time


def _factor(unit: Unit, clauses: Sequence[ScopedClause]) -> float:
    """How much more than the engine's our score of a candidate can be."""
    totals = unit.scoped.pack.totals[unit.name]
    averages = {"body": totals.body_tokens / totals.chunks, "stem": totals.stem_tokens / totals.chunks}
    ratios = [scoped.averages[unit.name] / own for scoped in clauses if (own := averages[scoped.clause.field])]
    return max([1.0, *ratios])
