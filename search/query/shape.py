"""From ranked chunks to results: one best event a conversation, one conversation a root before a root repeats.

A conversation's root is what its own session row claims, never what walking parents would infer; without a claim it is
its own. Dense answers (`--events`, `--session`) keep every event, once: overlapping chunks of an event are one result.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from polyc.limits import SEARCH_POOL
from search.query.fusion import Ranked

_ROUNDS_MAX: Final = 1000


class Shaped(NamedTuple):
    """The results in their order; `further` by conversation: matches seen beyond its best one."""

    results: list[Ranked]
    further: dict[str, int]
    pool_full: bool


def shape_dense(ranked: Iterable[Ranked], *, wanted: int) -> Shaped:
    """The first `wanted` events."""
    return Shaped(list(_events(ranked, wanted)), {}, pool_full=False)


def shape_diverse(ranked: Iterable[Ranked], *, wanted: int, root_of: Callable[[str], str]) -> Shaped:
    """The first `wanted` conversations, by rounds over roots; looks at no more than `SEARCH_POOL` events."""
    best: dict[str, Ranked] = {}
    further: dict[str, int] = {}
    roots: set[str] = set()
    seen = 0
    for item in _events(ranked, SEARCH_POOL + 1):
        seen += 1
        if seen > SEARCH_POOL:
            break
        partition = item.spot.partition
        if partition in best:
            further[partition] = further.get(partition, 0) + 1
            continue
        best[partition] = item
        roots.add(root_of(partition))
        if len(roots) >= wanted:
            break
    return Shaped(list(_rounds(best, root_of))[:wanted], further, pool_full=seen > SEARCH_POOL)


def _events(ranked: Iterable[Ranked], limit: int) -> Iterator[Ranked]:
    """Each event once, at its best rank."""
    seen: set[tuple[str, int, int]] = set()
    for item in ranked:
        key = (item.spot.partition, item.spot.position, item.spot.kind)
        if key not in seen:
            seen.add(key)
            yield item
            if len(seen) >= limit:
                return


def _rounds(best: dict[str, Ranked], root_of: Callable[[str], str]) -> Iterator[Ranked]:
    """Families take turns, in the order of their best results."""
    families: dict[str, list[Ranked]] = {}
    for partition, item in best.items():
        families.setdefault(root_of(partition), []).append(item)
    for turn in range(min(_ROUNDS_MAX, max(map(len, families.values()), default=0))):
        for family in families.values():
            if turn < len(family):
                yield family[turn]
