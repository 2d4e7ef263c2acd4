"""`polyc fsck`: what can be derived from the entries, compared with them, and repaired when asked.

Derived are tiles, the rows of partitions, fences, the nodes beside the latest checkpoint, SQLite's indexes. Entries,
signatures, checkpoints are evidence: never written here; what is wrong with them is `polyc verify`'s to say. A repair
first verifies the entries against the latest checkpoint.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import apsw

from journal import opening
from journal.body import COLUMNS, Stored
from journal.database import explained, open_writer, row, rows
from journal.lock import WriterLock
from journal.tree import Tree
from polyc import entry, note
from polyc.dataroot import DataRoot
from polyc.entry import FLAG_CLOSES_FENCE
from polyc.errors import CorruptError
from polyc.merkle import Frontier

APPENDS_PER_STEP: Final = 512

Change = tuple[str, str, tuple[Any, ...]]  # what differs, and the statement with its values that repairs it
_Head = tuple[int, bytes, int, int, bytes]  # next position, last leaf, first and last index, who opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What differed from the entries, and whether it was repaired."""

    entries: int
    findings: tuple[str, ...]
    repaired: bool


def fsck(root: DataRoot, *, repair: bool = False) -> Checked:
    """Compare what is derived with the entries; repair it when asked. Nobody may write meanwhile."""
    policy = root.policy()
    opening.check_stands(root.journal_file)
    lock = WriterLock(root.journal_file.with_name("journal.lock"))
    try:
        with explained(place=str(root.journal_file)):
            connection = open_writer(root.journal_file, origin=policy.origin)
            try:
                return _check(connection, repair=repair)
            finally:
                connection.close()
    finally:
        lock.release()


def _check(connection: apsw.Connection, *, repair: bool) -> Checked:
    findings = [f"database: {text}" for (text,) in rows(connection, "PRAGMA integrity_check(10)") if text != "ok"]
    derived = _derived_from_entries(connection)
    changes: list[Change] = [
        *_tile_changes(connection, derived.tiles),
        *_head_changes(connection, derived.heads),
        *_fence_changes(connection, derived.fences),
        *_node_changes(connection, derived.tree.frontier),
    ]
    findings += [finding for finding, _statement, _bindings in changes]
    if repair and findings:
        _check_sealed(connection, derived.tree)
        with connection:
            for _finding, statement, bindings in changes:
                connection.execute(statement, bindings)
            connection.execute("REINDEX")
    return Checked(entries=derived.tree.frontier.size, findings=tuple(findings), repaired=repair and bool(findings))


@dataclass(slots=True)
class _Derived:
    """What the entries give: tree and tiles; the row of each incarnation; fences that were closed."""

    tree: Tree
    tiles: dict[tuple[int, int], bytes] = field(default_factory=dict)
    heads: dict[int, _Head] = field(default_factory=dict)
    fences: set[tuple[int, bytes]] = field(default_factory=set)


def _derived_from_entries(connection: apsw.Connection) -> _Derived:
    derived = _Derived(Tree(Frontier(), [b""] * 8))
    columns_of_all = f"pid, name, incarnation, {COLUMNS}"
    query = f"SELECT {columns_of_all} FROM append JOIN part USING (pid) WHERE idx >= ? ORDER BY idx LIMIT ?"
    at = 0
    while chunk := rows(connection, query, (at, APPENDS_PER_STEP)):
        for pid, name, incarnation, *columns in chunk:
            stored = Stored(*columns)
            run = stored.open(f"{name}/{incarnation.hex()}")
            leaves = [entry.leaf_hash(header) for header in run.headers]
            for level, n, hashes in derived.tree.extend(leaves):
                derived.tiles[level, n] = hashes
            at = stored.index + stored.count
            first = derived.heads.get(pid)
            first_index, opener = (stored.index, run.key_ids[0]) if first is None else (first[2], first[4])
            derived.heads[pid] = (run.positions[-1] + 1, leaves[-1], first_index, at - 1, opener)
            if run.flags[-1] & FLAG_CLOSES_FENCE:
                derived.fences.add((pid, run.fences[-1]))
    return derived


def _tile_changes(connection: apsw.Connection, tiles: dict[tuple[int, int], bytes]) -> Iterator[Change]:
    stored = {(level, n): hashes for level, n, hashes in rows(connection, "SELECT level, n, hashes FROM tile")}
    for (level, n), hashes in tiles.items():
        if stored.get((level, n)) != hashes:
            state = "differs from the entries" if (level, n) in stored else "is missing"
            statement = (
                "INSERT INTO tile (level, n, hashes) VALUES (?, ?, ?)"
                " ON CONFLICT (level, n) DO UPDATE SET hashes = excluded.hashes"
            )
            yield f"tile {level}/{n} {state}", statement, (level, n, hashes)
    for level, n in stored.keys() - tiles.keys():
        yield f"tile {level}/{n} covers no entries", "DELETE FROM tile WHERE level = ? AND n = ?", (level, n)


def _head_changes(connection: apsw.Connection, heads: dict[int, _Head]) -> Iterator[Change]:
    columns = "pid, name, current, next, leaf, first_idx, last_idx, opener"
    stored = rows(connection, f"SELECT {columns} FROM part ORDER BY pid")
    for pid, name, _current, *stated in stored:
        if pid in heads and tuple(stated) != heads[pid]:
            statement = "UPDATE part SET next = ?, leaf = ?, first_idx = ?, last_idx = ?, opener = ? WHERE pid = ?"
            yield f"the row of {name} is not what its entries say", statement, (*heads[pid], pid)
    newest: dict[str, int] = {}
    for pid, name, *_stated in stored:
        if pid in heads and (name not in newest or heads[newest[name]][2] < heads[pid][2]):
            newest[name] = pid
    stale = [(pid, name) for pid, name, current, *_stated in stored if current and newest.get(name, pid) != pid]
    for pid, name in stale:  # before the others: at most one is current at a time
        yield f"an older incarnation of {name} is current", "UPDATE part SET current = 0 WHERE pid = ?", (pid,)
    for pid, name, current, *_stated in stored:
        if current != 1 and newest.get(name) == pid:
            statement = "UPDATE part SET current = 1 WHERE pid = ?"
            yield f"the newest incarnation of {name} is not current", statement, (pid,)


def _fence_changes(connection: apsw.Connection, fences: set[tuple[int, bytes]]) -> Iterator[Change]:
    stored = set(rows(connection, "SELECT pid, fence FROM fence"))
    for pid, fence in sorted(fences - stored):
        statement = "INSERT OR IGNORE INTO fence VALUES (?, ?)"
        yield f"a closed fence of partition {pid} is open", statement, (pid, fence)
    for pid, fence in sorted(stored - fences):
        statement = "DELETE FROM fence WHERE pid = ? AND fence = ?"
        yield f"an open fence of partition {pid} is closed", statement, (pid, fence)


def _node_changes(connection: apsw.Connection, frontier: Frontier) -> Iterator[Change]:
    latest = row(connection, "SELECT size, nodes FROM checkpoint ORDER BY size DESC LIMIT 1")
    nodes = b"".join(frontier.nodes)
    if latest is not None and latest[0] == frontier.size and latest[1] != nodes:
        statement = "UPDATE checkpoint SET nodes = ? WHERE size = ?"
        yield f"the nodes beside checkpoint {latest[0]} are not the tree's", statement, (nodes, latest[0])


def _check_sealed(connection: apsw.Connection, tree: Tree) -> None:
    """Nothing is repaired on top of entries that the latest checkpoint does not vouch for."""
    latest = row(connection, "SELECT size, note FROM checkpoint ORDER BY size DESC LIMIT 1")
    place = "latest checkpoint"
    if latest is not None:
        checkpoint = note.decode_checkpoint(note.parse_note(latest[1], place=place).text, place=place)
        if (checkpoint.size, checkpoint.root) == (tree.frontier.size, tree.frontier.root()):
            return
    raise CorruptError(
        "the entries do not give its root: nothing is repaired", place=place, kind="root", hint="polyc verify"
    )
