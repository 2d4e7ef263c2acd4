"""RFC 6962 §2.1 Merkle trees over SHA-256, without storage: hashes, an incremental tree, proofs and their checks.

    empty tree   SHA-256("")            leaf   SHA-256(0x00 ‖ entry)            node   SHA-256(0x01 ‖ left ‖ right)

A complete subtree is named by (height, n): it covers leaves [n·2^height, (n+1)·2^height). Makers of proofs are told
where hashes come from by a `Nodes` function; checkers need nothing but the proof. The checks are those of RFC 9162
§2.1.3.2 and §2.1.4.2 (the same trees, with the algorithms written out).
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

HASH_SIZE_BYTES: Final = 32
TILE_HEIGHT: Final = 8  # c2sp.org/tlog-tiles: a tile holds 256 hashes, a subtree of height 8
TILE_WIDTH: Final = 1 << TILE_HEIGHT
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()
PROOF_HASHES_MAX: Final = 64  # a tree has at most 2^64 leaves

Nodes = Callable[[int, int], bytes]

_sha256 = hashlib.sha256


def leaf_hash(entry: bytes) -> bytes:
    """The hash of a leaf (RFC 6962 §2.1)."""
    return _sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node (RFC 6962 §2.1)."""
    return _sha256(b"\x01" + left + right).digest()


class Frontier:
    """The right edge of a growing tree: the complete subtrees whose sizes are the bits of `size`, largest first."""

    __slots__ = ("nodes", "size")

    def __init__(self, size: int = 0, nodes: Sequence[bytes] = ()) -> None:
        if len(nodes) != size.bit_count():
            raise ValueError("a frontier has one node a set bit of its size")
        self.size = size
        self.nodes = list(nodes)

    def copy(self) -> "Frontier":
        """An independent frontier that stands at the same place."""
        return Frontier(self.size, self.nodes)

    def extend(self, leaves: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Append leaf hashes; returns the completed subtrees of height 8, 16, … as (height, hash), in order."""
        sha256, nodes, size, at = _sha256, self.nodes, self.size, 0
        completed: list[tuple[int, bytes]] = []
        while at < len(leaves):
            # The largest aligned block that the leaves fill, level by level, then the carry up the right edge.
            width = min(size & -size or TILE_WIDTH, TILE_WIDTH, 1 << ((len(leaves) - at).bit_length() - 1))
            block = leaves[at : at + width]
            while len(block) > 1:
                block = [sha256(b"\x01" + a + b).digest() for a, b in zip(block[::2], block[1::2], strict=True)]
            node, height = block[0], width.bit_length() - 1
            if height == TILE_HEIGHT:
                completed.append((height, node))
            bits = size >> height
            while bits & 1:
                node = sha256(b"\x01" + nodes.pop() + node).digest()
                bits >>= 1
                height += 1
                if not height % TILE_HEIGHT:
                    completed.append((height, node))
            nodes.append(node)
            at += width
            size += width
        self.size = size
        return completed

    def root(self) -> bytes:
        """The tree's root: the frontier's nodes folded from the right."""
        if not self.nodes:
            return EMPTY_ROOT
        sha256, root = _sha256, self.nodes[-1]
        for node in reversed(self.nodes[:-1]):
            root = sha256(b"\x01" + node + root).digest()
        return root


def subtrees(leaves: bytes) -> list[list[bytes]]:
    """The hashes of all complete subtrees over leaf hashes that are given in one piece, by height, leaves first.

    >>> [len(level) for level in subtrees(b"".join(leaf_hash(bytes([i])) for i in range(7)))]
    [7, 3, 1]
    """
    sha256 = _sha256
    level = [leaves[at : at + HASH_SIZE_BYTES] for at in range(0, len(leaves), HASH_SIZE_BYTES)]
    levels = [level]
    while len(level) > 1:  # the last one of an odd number has no partner
        level = [sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=False)]
        levels.append(level)
    return levels


def root_of(leaves: Iterable[bytes]) -> bytes:
    """The root over these leaf hashes.

    >>> root_of([]) == EMPTY_ROOT
    True
    >>> root_of([leaf_hash(b"")]).hex()[:16]
    '6e340b9cffb37a98'
    """
    frontier = Frontier()
    frontier.extend(list(leaves))
    return frontier.root()


def inclusion_proof(index: int, size: int, nodes: Nodes) -> list[bytes]:
    """PATH(index, D[0:size]) of RFC 6962 §2.1.1, from the leaf's sibling up."""
    if not 0 <= index < size:
        raise ValueError("the index lies outside the tree")
    path: list[bytes] = []
    low, high = 0, size
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(range_hash(middle, high, nodes))
            high = middle
        else:
            path.append(range_hash(low, middle, nodes))
            low = middle
    return path[::-1]


def consistency_proof(old: int, new: int, nodes: Nodes) -> list[bytes]:
    """PROOF(old, D[0:new]) of RFC 6962 §2.1.2; empty when old is 0 or equals new."""
    if not 0 <= old <= new:
        raise ValueError("the old size lies outside the tree")
    if old in (0, new):
        return []
    path: list[bytes] = []
    low, high = 0, new
    whole = True  # whether [low, high) still starts the old tree at its own root
    while old != high:
        middle = low + _split(high - low)
        if old <= middle:
            path.append(range_hash(middle, high, nodes))
            high = middle
        else:
            path.append(range_hash(low, middle, nodes))
            low = middle
            whole = False
    if not whole:
        path.append(range_hash(low, high, nodes))
    return path[::-1]


def range_hash(low: int, high: int, nodes: Nodes) -> bytes:
    """MTH(D[low:high]) where low is a multiple of the least power of two that is not less than high - low."""
    size = high - low
    if size & (size - 1) == 0:
        height = size.bit_length() - 1
        return nodes(height, low >> height)
    middle = low + _split(size)
    return node_hash(range_hash(low, middle, nodes), range_hash(middle, high, nodes))


def verify_inclusion(*, leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the proof binds the leaf to this index of the tree with this root (RFC 9162 §2.1.3.2)."""
    if not 0 <= index < size or len(proof) > PROOF_HASHES_MAX:
        return False
    fn, sn, result = index, size - 1, leaf
    for sibling in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            result = node_hash(sibling, result)
            while not fn & 1 and fn:
                fn >>= 1
                sn >>= 1
        else:
            result = node_hash(result, sibling)
        fn >>= 1
        sn >>= 1
    return sn == 0 and result == root


def verify_consistency(*, old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that the new tree starts with the old one (RFC 9162 §2.1.4.2)."""
    if not 0 <= old <= new or len(proof) > PROOF_HASHES_MAX:
        return False
    if old == new:
        return not proof and old_root == new_root
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    if not proof:
        return False
    path = list(proof)
    if old & (old - 1) == 0:
        path.insert(0, old_root)
    fn, sn = old - 1, new - 1
    while fn & 1:
        fn >>= 1
        sn >>= 1
    old_result = new_result = path[0]
    for node in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            old_result = node_hash(node, old_result)
            new_result = node_hash(node, new_result)
            while not fn & 1 and fn:
                fn >>= 1
                sn >>= 1
        else:
            new_result = node_hash(new_result, node)
        fn >>= 1
        sn >>= 1
    return sn == 0 and old_result == old_root and new_result == new_root


def _split(size: int) -> int:
    """The largest power of two below size (RFC 6962's k)."""
    return 1 << ((size - 1).bit_length() - 1)
