"""Who asks, and which rows that is: a grant's scope as ordinals of each pack, with statistics of exactly these rows.

Ruling 36: what a participant is told must equal what an archive that holds only the scope would tell. So a scope has
its own number of chunks and its own token counts; nothing about other rows enters a score, an order or a total.
An empty scope, like a scope of unknown partitions, has no rows; it never means everything.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from polyc.limits import SEARCH_SCOPE_WORDS_MAX
from search.chunk import SessionMeta
from search.opened import OpenPack
from search.pack import INDEX_NAMES, Counts, IndexName


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the grant allows: a realm, and the partitions it names (None: every one, of the fleet realm only)."""

    realm: Literal["participant", "fleet"]
    partitions: frozenset[str] | None
    digest: str = field(init=False)  # a name for the policy: cursors bind it, caches are keyed by it

    def __post_init__(self) -> None:
        """A participant's scope is always a set."""
        assert self.realm == "fleet" or self.partitions is not None, "a participant's grant names its partitions"
        names = ["*"] if self.partitions is None else sorted(self.partitions)
        digest = hashlib.sha256("\x1f".join([self.realm, *names]).encode()).hexdigest()[:32]
        object.__setattr__(self, "digest", digest)


class ScopedPack:
    """A pack with the ordinals that count; `whole` when these are all of the pack's."""

    def __init__(self, pack: OpenPack, ordinals: tuple[int, ...]) -> None:
        self.pack = pack
        self.ordinals = ordinals
        self.whole = len(ordinals) == len(pack.entries)
        self.condition: Any = None  # the engine's form of it, once it was asked for

    def admits(self, partition: str) -> bool:
        """Whether the partition is one of those that count."""
        ordinal = self.pack.ordinals.get(partition, -1)
        at = bisect_left(self.ordinals, ordinal)
        return at < len(self.ordinals) and self.ordinals[at] == ordinal


WordName = tuple[tuple[str, tuple[str, ...]], ...]  # a word by its clauses: their fields and tokens


class Scope:
    """The rows of a scope over the packs of a generation, oldest first; shared between threads."""

    def __init__(
        self, packs: tuple[ScopedPack, ...], metas: dict[str, SessionMeta], counts: dict[IndexName, Counts]
    ) -> None:
        self.packs = packs
        self.metas = metas
        self.counts = counts
        self.matching: dict[WordName, int] = {}  # how many of its chunks have a word, as far as it was asked

    @property
    def chunks(self) -> int:
        """Chunks of all indexes."""
        return sum(counts.chunks for counts in self.counts.values())

    def remember(self, name: WordName, matching: int) -> None:
        """Keep how many chunks have a word."""
        if len(self.matching) >= SEARCH_SCOPE_WORDS_MAX:
            self.matching.clear()
        self.matching[name] = matching


def resolve_scope(packs: Sequence[OpenPack], access: Access) -> Scope:
    """The scope's rows: newest pack first, until a replacement makes what is older dead."""
    dead: set[str] = set()
    found: list[ScopedPack] = []
    metas: dict[str, SessionMeta] = {}
    totals: dict[IndexName, Counts] = dict.fromkeys(INDEX_NAMES, Counts())
    for pack in reversed(packs):
        ordinals = [
            ordinal for ordinal in _named(pack, access.partitions) if pack.entries[ordinal].partition not in dead
        ]
        for ordinal in ordinals:
            entry = pack.entries[ordinal]
            if entry.meta is not None:
                metas.setdefault(entry.partition, entry.meta)
            if entry.mode == "replace":
                dead.add(entry.partition)
            for index in INDEX_NAMES:
                counts = entry.counts(index)
                if counts.chunks:
                    totals[index] = totals[index].plus(counts)
        if ordinals:
            found.append(ScopedPack(pack, tuple(ordinals)))
    return Scope(tuple(reversed(found)), metas, totals)


def narrow(scope: Scope, keep: Iterable[str]) -> tuple[ScopedPack, ...]:
    """The scope's packs with only these partitions: filters narrow what is found, never what scores rest on."""
    wanted = set(keep)
    narrowed = []
    for scoped in scope.packs:
        entries = scoped.pack.entries
        left = tuple([ordinal for ordinal in scoped.ordinals if entries[ordinal].partition in wanted])
        if left:
            narrowed.append(ScopedPack(scoped.pack, left))
    return tuple(narrowed)


def _named(pack: OpenPack, partitions: frozenset[str] | None) -> Iterable[int]:
    if partitions is None:
        return range(len(pack.entries))
    if len(partitions) < len(pack.ordinals):
        return sorted(pack.ordinals[name] for name in partitions if name in pack.ordinals)
    return [ordinal for ordinal, entry in enumerate(pack.entries) if entry.partition in partitions]
