"""`polyc fsck`: what can be derived from the entries, compared with them, and repaired when asked.

Derived are tiles, heads, fences, SQLite's indexes. Entries, signatures, checkpoints are evidence: never written here;
what is wrong with them is `polyc verify`'s to say. A repair first verifies the entries against the latest checkpoint.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import apsw

from journal.database import explained, open_writer, row, rows
from journal.lock import WriterLock
from journal.tree import Tree
from polyc import entry, note
from polyc.dataroot import DataRoot
from polyc.entry import FLAG_CLOSES_FENCE
from polyc.errors import CorruptError
from polyc.merkle import Frontier

LEAVES_PER_STEP: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What differed from the entries, and whether it was repaired."""

    entries: int
    findings: tuple[str, ...]
    repaired: bool


def fsck(root: DataRoot, *, repair: bool = False) -> Checked:
    """Compare what is derived with the entries; repair it when asked. Nobody may write meanwhile."""
    policy = root.policy()
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
    tree, tiles = _tree_of_entries(connection)
    changes: list[tuple[str, str, tuple[Any, ...]]] = [
        *_tile_changes(connection, tiles),
        *_head_changes(connection),
        *_fence_changes(connection),
    ]
    findings += [finding for finding, _statement, _bindings in changes]
    if repair and findings:
        _check_sealed(connection, tree)
        with connection:
            for _finding, statement, bindings in changes:
                connection.execute(statement, bindings)
            connection.execute("REINDEX")
    return Checked(entries=tree.frontier.size, findings=tuple(findings), repaired=repair and bool(findings))


def _tree_of_entries(connection: apsw.Connection) -> tuple[Tree, dict[tuple[int, int], bytes]]:
    tree = Tree(Frontier(), [b""] * 8)
    tiles: dict[tuple[int, int], bytes] = {}
    at = 0
    query = "SELECT header FROM entry WHERE idx >= ? AND idx < ? ORDER BY idx"
    while headers := rows(connection, query, (at, at + LEAVES_PER_STEP)):
        for level, n, hashes in tree.extend([entry.leaf_hash(header) for (header,) in headers]):
            tiles[level, n] = hashes
        at += LEAVES_PER_STEP
    return tree, tiles


def _tile_changes(
    connection: apsw.Connection, tiles: dict[tuple[int, int], bytes]
) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
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


def _head_changes(connection: apsw.Connection) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    query = (
        "SELECT p.pid, p.name, p.next, p.leaf, p.first_idx, p.last_idx, max(e.position), min(e.idx), max(e.idx)"
        " FROM part p JOIN entry e USING (pid) GROUP BY p.pid"
    )
    for pid, name, next_position, leaf, first, last, position, first_index, last_index in rows(connection, query):
        header = row(connection, "SELECT header FROM entry WHERE pid = ? AND position = ?", (pid, position))[0]
        true = (position + 1, entry.leaf_hash(header), first_index, last_index)
        if (next_position, leaf, first, last) != true:
            statement = "UPDATE part SET next = ?, leaf = ?, first_idx = ?, last_idx = ? WHERE pid = ?"
            yield f"the head of {name} is not its last entry", statement, (*true, pid)


def _fence_changes(connection: apsw.Connection) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    known = set(rows(connection, "SELECT pid, fence FROM fence"))
    for pid, header in rows(connection, "SELECT pid, header FROM entry WHERE substr(header, 7, 16) <> zeroblob(16)"):
        if header[5] & FLAG_CLOSES_FENCE and (pid, header[6:22]) not in known:
            statement = "INSERT OR IGNORE INTO fence VALUES (?, ?)"
            yield f"a closed fence of partition {pid} is open", statement, (pid, header[6:22])


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
