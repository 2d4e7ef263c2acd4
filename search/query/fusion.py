"""Reciprocal rank fusion, and the one order of answers: score, then best source rank, then time, then chunk id.

rrf(d) = sum over lanes of  1 / (60 + rank(d))        rank from 1; a lane that does not know d adds nothing
with a weight w: (1 - w) / (60 + r_lexical) + w / (60 + r_semantic)
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from search.query.lexical_lane import Match, Spot

RANKING: Final = "rrf60+bm25-scoped/2"  # changes whenever the same archive could answer in another order
_K: Final = 60
Name = TypeVar("Name", bound=Hashable)


class SemanticMatch(NamedTuple):
    """A chunk by its vector's similarity (cosine)."""

    similarity: float
    spot: Spot


class Ranked(NamedTuple):
    """A chunk in its final place; a lane that did not find it is None."""

    score: float
    best_rank: int
    spot: Spot
    lexical: Match | None
    lexical_rank: int | None
    semantic: SemanticMatch | None
    semantic_rank: int | None

    @property
    def key(self) -> tuple[float, int, int, int]:
        """The complete sort key."""
        return (-self.score, self.best_rank, self.spot.minus_time, self.spot.ident)


def reciprocal_ranks(lanes: Sequence[Sequence[Name]], weights: Sequence[float]) -> dict[Name, tuple[float, int]]:
    """Each name's fused score and best rank.

    >>> ranks = reciprocal_ranks([["a", "b", "b", "c"], ["c", "a"]], [1, 1])
    >>> sorted(ranks, key=lambda name: -ranks[name][0])
    ['a', 'c', 'b']
    """
    fused: dict[Name, tuple[float, int]] = {}
    for lane, weight in zip(lanes, weights, strict=True):
        seen: set[Name] = set()
        for rank, name in enumerate(lane, 1):
            if name in seen:
                continue
            seen.add(name)
            score, best = fused.get(name, (0.0, rank))
            fused[name] = (score + weight / (_K + rank), min(best, rank))
    return fused


def only_lexical(matches: Iterable[Match]) -> Iterable[Ranked]:
    """The lexical order as it stands."""
    for rank, match in enumerate(matches, 1):
        yield Ranked(match.score, rank, match.spot, match, rank, None, None)


def only_semantic(matches: Iterable[SemanticMatch]) -> Iterable[Ranked]:
    """The semantic order as it stands."""
    for rank, match in enumerate(matches, 1):
        yield Ranked(match.similarity, rank, match.spot, None, None, match, rank)


def fuse(lexical: Sequence[Match], semantic: Sequence[SemanticMatch], weight: float | None) -> list[Ranked]:
    """Both lanes in one order."""
    weights = (1.0, 1.0) if weight is None else (1.0 - weight, weight)
    of_lexical = {match.spot: (rank, match) for rank, match in reversed(list(enumerate(lexical, 1)))}
    of_semantic = {match.spot: (rank, match) for rank, match in reversed(list(enumerate(semantic, 1)))}
    fused = reciprocal_ranks([[match.spot for match in lexical], [match.spot for match in semantic]], weights)
    ranked = []
    for spot, (score, best) in fused.items():
        lexical_rank, match = of_lexical.get(spot, (None, None))
        semantic_rank, similar = of_semantic.get(spot, (None, None))
        ranked.append(Ranked(score, best, spot, match, lexical_rank, similar, semantic_rank))
    return sorted(ranked, key=lambda item: item.key)
