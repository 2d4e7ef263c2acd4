"""The log's Merkle tree as C2SP tiles (c2sp.org/tlog-tiles): 256 hashes a tile, written when full.

The writer keeps the frontier and the partial tile of each level in memory; they are rebuilt from tiles and entries.
`TileNodes` finds any complete subtree's hash for proofs: from a tile, or from the entries that no full tile covers.
"""

from collections.abc import Iterable
from typing import Final

import apsw

from journal.body import COLUMNS, Stored
from journal.database import row, rows
from polyc import merkle
from polyc.entry import leaf_hash
from polyc.errors import CorruptError
from polyc.merkle import HASH_SIZE_BYTES, TILE_HEIGHT, TILE_WIDTH, Frontier

LEVELS_MAX: Final = 64 // TILE_HEIGHT
_TILE_SIZE_BYTES: Final = TILE_WIDTH * HASH_SIZE_BYTES
_COVERING: Final = (  # the appends that hold the entries of a range of indexes
    f"SELECT name, incarnation, {COLUMNS} FROM append JOIN part USING (pid) WHERE idx < ?2"
    " AND idx >= coalesce((SELECT max(idx) FROM append WHERE idx <= ?1), ?1) ORDER BY idx"
)

Tile = tuple[int, int, bytes]


class Tree:
    """A growing tree: its frontier and its partial tiles. Work on a copy, swap it in when COMMIT succeeded."""

    __slots__ = ("frontier", "partials")

    def __init__(self, frontier: Frontier, partials: list[bytes]) -> None:
        self.frontier = frontier
        self.partials = partials

    def copy(self) -> "Tree":
        """An independent tree that stands at the same place."""
        return Tree(self.frontier.copy(), list(self.partials))

    def extend(self, leaves: list[bytes]) -> list[Tile]:
        """Append leaf hashes; returns the tiles that became full, lower levels first."""
        size = self.frontier.size
        completed: list[list[bytes]] = [leaves]  # by level; a subtree completes only with one below it
        for height, node in self.frontier.extend(leaves):
            level = height // TILE_HEIGHT
            if level == len(completed):
                completed.append([])
            completed[level].append(node)
        full: list[Tile] = []
        for level, hashes in enumerate(completed):
            joined = b"".join((self.partials[level], *hashes))
            n = size >> (TILE_HEIGHT * (level + 1))
            whole = len(joined) // _TILE_SIZE_BYTES
            full += [(level, n + i, joined[i * _TILE_SIZE_BYTES : (i + 1) * _TILE_SIZE_BYTES]) for i in range(whole)]
            self.partials[level] = joined[whole * _TILE_SIZE_BYTES :]
        return full


class TileNodes:
    """A `merkle.Nodes` over the stored tiles and entries, for a tree of at least `size` entries."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._tiles: dict[tuple[int, int], bytes] = {}

    def __call__(self, height: int, n: int) -> bytes:
        """The hash of the complete subtree (height, n)."""
        level, above = divmod(height, TILE_HEIGHT)
        low, width = n << above, 1 << above
        tile = self.tile(level, low >> TILE_HEIGHT)
        start = (low & (TILE_WIDTH - 1)) * HASH_SIZE_BYTES
        hashes = tile[start : start + width * HASH_SIZE_BYTES]
        if len(hashes) != width * HASH_SIZE_BYTES:
            raise CorruptError("the tile is too short", place=f"tile {level}/{low >> TILE_HEIGHT}", kind="tile")
        return merkle.root_of(_split(hashes))

    def tile(self, level: int, n: int) -> bytes:
        """A tile, full or as far as the log goes: stored, or made of what lies below it."""
        known = self._tiles.get((level, n))
        if known is not None:
            return known
        found = row(self._connection, "SELECT hashes FROM tile WHERE level = ? AND n = ?", (level, n))
        hashes = found[0] if found else self._make(level, n)
        if found and len(hashes) != _TILE_SIZE_BYTES:
            raise CorruptError("is not 256 hashes", place=f"tile {level}/{n}", kind="tile")
        if len(self._tiles) >= 256:
            self._tiles.clear()  # 2 MiB; a proof touches a dozen
        self._tiles[level, n] = hashes
        return hashes

    def _make(self, level: int, n: int) -> bytes:
        if level == 0:
            return self._made_of_entries(n << TILE_HEIGHT)
        below = []
        for child in range(n << TILE_HEIGHT, (n + 1) << TILE_HEIGHT):
            tile = self.tile(level - 1, child)
            if len(tile) < TILE_WIDTH * HASH_SIZE_BYTES:
                break
            below.append(merkle.root_of(_split(tile)))
        return b"".join(below)

    def _made_of_entries(self, start: int) -> bytes:
        """The level 0 tile that begins at an index, as far as the entries go on without a gap."""
        end = start + TILE_WIDTH
        leaves: list[bytes] = []
        for name, incarnation, *columns in rows(self._connection, _COVERING, (start, end)):
            stored = Stored(*columns)
            headers = stored.headers(f"{name}/{incarnation.hex()}")
            if stored.index > start + len(leaves):
                break
            leaves += map(leaf_hash, headers[start + len(leaves) - stored.index : end - stored.index])
        return b"".join(leaves)


def load_tree(connection: apsw.Connection, *, size: int) -> Tree:
    """The tree of the first `size` entries, from tiles and the entries after the last full one."""
    nodes = TileNodes(connection)
    frontier, low = [], 0
    for height in reversed(range(size.bit_length())):
        if size >> height & 1:
            frontier.append(nodes(height, low >> height))
            low += 1 << height
    partials = []
    for level in range(LEVELS_MAX):
        count = size >> (TILE_HEIGHT * level)
        width = count & (TILE_WIDTH - 1)
        tile = nodes.tile(level, count >> TILE_HEIGHT) if width else b""
        partials.append(tile[: width * HASH_SIZE_BYTES])
    return Tree(Frontier(size, frontier), partials)


def _split(hashes: bytes) -> Iterable[bytes]:
    return (hashes[i : i + HASH_SIZE_BYTES] for i in range(0, len(hashes), HASH_SIZE_BYTES))
