"""BM25 over a scope: what every answer is ordered by, computed from the chunks' texts and the scope's counts.

    score(chunk) = kind weight x sum over clauses of  weight x idf x tf x (k1 + 1) / (tf + room)
    room         = k1 x (1 - b + b x dl / avgdl)
    idf          = ln(1 + (N - n + 0.5) / (n + 0.5))     N chunks of the scope; n of them have the clause's word, in
                                                         whichever of its forms
    avgdl        average tokens of the scope's chunks in the chunk's index (main or outputs: outputs are longer)

The engine computes the same form with the statistics of one pack; it only proposes candidates (lexical_lane).
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from search.lexical import STEMMED, make_stemmer
from search.pack import IndexName
from search.query.clauses import Clause
from search.stream import Unit, flat, stream_of, unit_tokens, units

K1: Final = 1.2
B: Final = 0.75


def idf(total: int, matching: int) -> float:
    """How telling a clause is that `matching` of `total` chunks satisfy.

    >>> round(idf(10, 1), 3)
    1.992
    """
    return math.log(1 + (total - matching + 0.5) / (matching + 0.5))


class ScopedClause(NamedTuple):
    """A clause with the scope's statistics; `stem` of the field's single token."""

    clause: Clause
    idf: float
    averages: dict[IndexName, float]
    stem: str


class Scored(NamedTuple):
    """A chunk's score (before its kind's weight), what each clause gave, which words matched; and its lengths."""

    score: float
    parts: tuple[float, ...]
    words: frozenset[int]
    body_count: int
    stem_count: int


class Scorer:
    """Scores the chunks of an index for one question; remembers what each unit of their texts adds to which clause."""

    def __init__(self, clauses: Sequence[ScopedClause], index: IndexName) -> None:
        self._clauses = clauses
        self._index = index
        self._phrases = [
            (place, f" {' '.join(scoped.clause.tokens)} ")
            for place, scoped in enumerate(clauses)
            if len(scoped.clause.tokens) > 1
        ]
        self._gains = _Gains(clauses, stemmed=index in STEMMED)

    def score(self, text: str, *, body_count: int, stem_count: int) -> Scored:
        """The score of a text without blobs (`Chunk.words_text`) that has so many tokens."""
        counts = [0] * len(self._clauses)
        for gains in filter(None, map(self._gains.__getitem__, units(text))):
            for place in gains:
                counts[place] += 1
        if self._phrases:
            padded = f" {stream_of(text).body} "
            for place, needle in self._phrases:
                counts[place] = _count(padded, needle)
        parts = []
        words = set()
        for scoped, count in zip(self._clauses, counts, strict=True):
            gain = 0.0
            if count:
                clause = scoped.clause
                words.add(clause.word)
                size = stem_count if clause.field == "stem" else body_count
                room = K1 * (1 - B + B * size / scoped.averages[self._index])
                gain = clause.weight * scoped.idf * count * (K1 + 1) / (count + room)
            parts.append(gain)
        return Scored(math.fsum(parts), tuple(parts), frozenset(words), body_count, stem_count)


class _Gains(dict[Unit, tuple[int, ...]]):
    """The clauses that a unit's tokens satisfy, each as often as it is satisfied."""

    def __init__(self, clauses: Sequence[ScopedClause], *, stemmed: bool) -> None:
        super().__init__()
        self._terms: dict[str, int] = {}
        self._stems: dict[str, list[int]] = {}
        for place, scoped in enumerate(clauses):
            if scoped.clause.field == "stem" and stemmed:
                self._stems.setdefault(scoped.stem, []).append(place)
            elif scoped.clause.field == "body" and len(scoped.clause.tokens) == 1:
                self._terms[scoped.clause.tokens[0]] = place
        self._initials = {stem[0] for stem in self._stems}  # Porter2 keeps the first letter
        self._may_gain = needles(self._terms, self._stems)

    def __missing__(self, unit: Unit) -> tuple[int, ...]:
        if self._may_gain.search(flat(unit)) is None:  # most units: not worth taking apart
            self[unit] = ()
            return ()
        parts, wholes = unit_tokens(unit)
        gains = [self._terms[token] for token in (*parts, *wholes) if token in self._terms]
        for part in parts:
            if part[0] in self._initials:
                gains += self._stems.get(stem_of(part), ())
        self[unit] = known = tuple(gains)
        return known


def needles(terms: Iterable[str], stems: Iterable[str]) -> re.Pattern[bytes]:
    """Finds, in a flat unit, a place where one of the terms or a word with one of the stems may stand."""
    begins = [*terms, *map(_stem_begin, stems)]
    return re.compile(b"|".join(re.escape(begin.encode()) for begin in begins) or b"(?!)")


def _stem_begin(stem: str) -> str:
    """What every word with this stem begins with: Porter2 changes only ends of words.

    >>> [_stem_begin(stem) for stem in ("sensibl", "tri", "die", "go")]  # sensibility, tries, dying, goes
    ['sensi', 'tr', 'd', 'g']
    """
    if len(stem) >= _STEM_LONG:
        return stem[:-2]
    return stem[:2] if len(stem) > 2 and not stem.endswith("ie") else stem[0]


_STEM_LONG: Final = 5


def _count(padded: str, needle: str) -> int:
    """Occurrences, neighbours sharing a blank included."""
    count, at = 0, padded.find(needle)
    while at >= 0:
        count += 1
        at = padded.find(needle, at + 1)
    return count


_stems: dict[str, str] = {}
_STEMS_MAX: Final = 200_000
_stemmer = None


def stem_of(token: str) -> str:
    """The Porter2 stem, by the index's own stemmer; remembered."""
    global _stemmer  # noqa: PLW0603 made with the first use: importing this module must not load the engine
    known = _stems.get(token)
    if known is not None:
        return known
    if _stemmer is None:
        _stemmer = make_stemmer()
    stem: str = (_stemmer.analyze(token) or [token])[0]
    if len(_stems) >= _STEMS_MAX:
        _stems.clear()
    _stems[token] = stem
    return stem
