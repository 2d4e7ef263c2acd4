"""Which packs hold which rows of a partition: resolution from the newest pack to the base (artifacts.md).

Collect appends until a replace; base packs are replaces. State tables: the newest pack that replaces holds all.
A *piece* is the rows of one partition in one pack that are live; everything else in that pack is *dead*.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from artifacts.index import APPEND, KEEP, IndexRow, PackIndex
from artifacts.layout import Family


class Piece(NamedTuple):
    """Live rows: how many rows of this partition a pack's table file holds."""

    pack_id: str
    partition: str
    rows: int


class Link(NamedTuple):
    """One pack's part of a partition; whether its row tables' and its state tables' rows are live."""

    pack_id: str
    contents: PackIndex
    row: int
    rows_live: bool
    state_live: bool


class BaseLayer:
    """All base packs as one: every partition in exactly one of them."""

    def __init__(self, packs: Sequence[tuple[str, PackIndex]]) -> None:
        self.packs = tuple(packs)
        self.place: dict[str, tuple[int, int]] = {}
        for ordinal, (_, index) in enumerate(self.packs):
            self.place.update({name: (ordinal, row) for row, name in enumerate(index.partitions)})


class Layers:
    """The packs of one generation, resolved; immutable."""

    def __init__(self, base: BaseLayer, deltas: Sequence[tuple[str, PackIndex]]) -> None:
        self.base = base
        self.deltas = tuple(deltas)  # oldest first
        self._newest_first = tuple(reversed(self.deltas))
        self._dead: dict[Family, dict[str, frozenset[str]]] = {}

    def packs(self) -> list[tuple[str, PackIndex]]:
        """Base packs, then deltas from the oldest."""
        return [*self.base.packs, *self.deltas]

    def partitions(self) -> list[str]:
        """Every partition, sorted."""
        names = set(self.base.place)
        for _, index in self.deltas:
            names.update(index.row_of)
        return sorted(names)

    def has(self, partition: str) -> bool:
        """Whether the generation knows the partition."""
        return partition in self.base.place or any(partition in index.row_of for _, index in self.deltas)

    def newest(self, partition: str) -> IndexRow | None:
        """The newest index row of a partition."""
        chain = self.chain(partition)
        return chain[0].contents.row(chain[0].row) if chain else None

    def chain(self, partition: str) -> list["Link"]:
        """The packs that hold anything live of a partition, newest first: until its rows and its state are closed."""
        links: list[Link] = []
        row_open = state_open = True
        for pack_id, index in self._newest_first:
            row = index.row_of.get(partition)
            if row is None:
                continue
            links.append(Link(pack_id, index, row, row_open, state_open))
            row_open = row_open and index.column("row_mode")[row] == APPEND
            state_open = state_open and index.column("state_mode")[row] == KEEP
            if not row_open and not state_open:
                return links
        place = self.base.place.get(partition)
        if place is not None:
            pack_id, index = self.base.packs[place[0]]
            links.append(Link(pack_id, index, place[1], row_open, state_open))
        return links

    def counts(self, partition: str, tables: Iterable[str]) -> dict[str, int]:
        """How many rows of these row tables are published of a partition."""
        chain = [link for link in self.chain(partition) if link.rows_live]
        return {table: n for table in tables if (n := sum(link.contents.count(table, link.row) for link in chain))}

    def pieces(self, table: str, family: Family, partitions: Iterable[str]) -> list[Piece]:
        """The live pieces of a table for these partitions; oldest packs first."""
        found: list[Piece] = []
        open_set = set(partitions)
        for pack_id, index in self._newest_first:
            here = open_set & index.row_of.keys() if len(open_set) > len(index.row_of) else open_set
            closes = index.column("row_mode" if family == "row" else "state_mode")
            for partition in sorted(here):
                row = index.row_of.get(partition)
                if row is None:
                    continue
                rows = index.count(table, row)
                if rows:
                    found.append(Piece(pack_id, partition, rows))
                if closes[row] not in (APPEND, KEEP):
                    open_set.discard(partition)
        for partition in sorted(open_set):
            place = self.base.place.get(partition)
            if place is not None:
                pack_id, index = self.base.packs[place[0]]
                rows = index.count(table, place[1])
                if rows:
                    found.append(Piece(pack_id, partition, rows))
        found.reverse()
        return found

    def dead(self, family: Family) -> dict[str, frozenset[str]]:
        """Pack id → the partitions whose rows of this family in it are superseded; packs without any are absent."""
        known = self._dead.get(family)
        if known is None:
            known = self._dead[family] = self._find_dead(family)
        return known

    def _find_dead(self, family: Family) -> dict[str, frozenset[str]]:
        closed: set[str] = set()
        dead: dict[str, frozenset[str]] = {}
        for pack_id, index in self._newest_first:
            here = closed & index.row_of.keys()
            if here:
                dead[pack_id] = frozenset(here)
            modes = index.column("row_mode" if family == "row" else "state_mode")
            closed.update(
                name for name, mode in zip(index.partitions, modes, strict=True) if mode not in (APPEND, KEEP)
            )
        by_pack: dict[int, list[str]] = {}
        for name in closed & self.base.place.keys():
            by_pack.setdefault(self.base.place[name][0], []).append(name)
        dead.update({self.base.packs[ordinal][0]: frozenset(names) for ordinal, names in by_pack.items()})
        return dead
