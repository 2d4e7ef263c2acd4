"""BM25 over a scope: the numbers every answer is ordered by, computed from token streams and the scope's own counts.

    score(chunk) = kind weight x sum over clauses of  weight x idf x tf x (k1 + 1) / (tf + room)
    room         = k1 x (1 - b + b x dl / avgdl)
    idf          = ln(1 + (N - n + 0.5) / (n + 0.5))     N chunks of the scope; n of them have the clause's word, in
                                                         whichever of its forms
    avgdl        average tokens of the scope's chunks in the chunk's index (main or outputs: outputs are longer)

The engine computes the same form with the statistics of one pack; it only proposes candidates (lexical_lane).
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from search.analyzer import GAP
from search.lexical import STEMMED, make_stemmer
from search.pack import IndexName
from search.query.clauses import Clause

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
    """A chunk's score (before its kind's weight), what each clause gave, and which words matched."""

    score: float
    parts: tuple[float, ...]
    words: frozenset[int]


def score_body(body: str, clauses: Sequence[ScopedClause], index: IndexName) -> Scored:
    """The score of a token stream of an index."""
    padded = f" {body} "
    size_body = padded.count(" ") - 1
    parts = padded[: padded.find(_GAP) + 1] if _GAP in padded else padded
    size_stem = parts.count(" ") - 1
    gains = []
    words = set()
    for scoped in clauses:
        clause = scoped.clause
        if clause.field == "stem":
            count, size = _count_stem(parts, scoped.stem) if index in STEMMED else 0, size_stem
        else:
            count, size = _count(padded, f" {' '.join(clause.tokens)} "), size_body
        gain = 0.0
        if count:
            words.add(clause.word)
            room = K1 * (1 - B + B * size / scoped.averages[index])
            gain = clause.weight * scoped.idf * count * (K1 + 1) / (count + room)
        gains.append(gain)
    return Scored(math.fsum(gains), tuple(gains), frozenset(words))


def _count(padded: str, needle: str) -> int:
    """Occurrences, neighbours sharing a blank included."""
    count, at = 0, padded.find(needle)
    while at >= 0:
        count += 1
        at = padded.find(needle, at + 1)
    return count


def _count_stem(parts: str, stem: str) -> int:
    """Parts with this stem. Porter2 changes only ends of words: what has the stem begins as the stem does."""
    begin = f" {stem[:-2] if len(stem) >= _STEM_KEPT else stem[0]}"  # "dying" is "die", "sensibility" is "sensibl"
    count, at = 0, parts.find(begin)
    while at >= 0:
        end = parts.find(" ", at + 1)
        count += stem_of(parts[at + 1 : end]) == stem
        at = parts.find(begin, end)
    return count


_GAP: Final = f" {GAP} "
_STEM_KEPT: Final = 5
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
