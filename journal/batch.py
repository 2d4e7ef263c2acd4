"""What one commit writes: gathered while its appends are judged, then written in a handful of statements.

SQLite's step releases Python's lock; a statement a row would hand it to the waiting authors thousands of times a
commit and get it back milliseconds later each time. So a statement takes many rows (`VALUES (…), (…), …`). They are
`OR ROLLBACK`, because a statement of many rows that may fail halfway keeps a journal of its own (twice the time,
measured); a conflict here is our bug and ends the commit anyway (sqlite.org/lang_conflict.html).
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import apsw

from journal.database import WRITE_STATEMENTS_KEPT
from journal.door import Inspected
from journal.keyevents import KeyEvents
from journal.tree import Tree

if TYPE_CHECKING:
    from journal.erasure import Erased

ROWS_PER_STATEMENT_MAX: Final = 1024  # eight values a row; SQLite allows 32,766 values a statement

_INSERT_APPENDS: Final = "INSERT OR ROLLBACK INTO append (idx, pid, position, n, append_id, sig, form, body) VALUES {}"
_UPDATE_PARTS: Final = (
    "UPDATE OR ROLLBACK part SET next = column2, leaf = column3, last_idx = column4"
    " FROM (VALUES {}) WHERE pid = column1"
)
_STORED: Final = (  # pid 12 digits ‖ append id 16
    "SELECT a.pid, a.append_id, a.idx FROM carray(?1) CROSS JOIN append a"
    " ON a.pid = CAST(CAST(substr(value, 1, 12) AS TEXT) AS INTEGER) AND a.append_id = substr(value, 13)"
)
_INSERT_PART: Final = (
    "INSERT INTO part (pid, name, incarnation, next, leaf, first_idx, last_idx, opener, current)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)"
)


class Part:
    """The head of a partition's current incarnation as the writer sees it; changes with each admitted append.

    `pid` is 0 until an append to it was admitted; `replaces` is the row of the incarnation it takes over from.
    """

    __slots__ = ("first_index", "incarnation", "last_index", "leaf", "name", "opener", "pid", "position", "replaces")

    def __init__(
        self,
        pid: int,
        name: str,
        incarnation: bytes,
        *,
        position: int,
        leaf: bytes,
        opener: bytes,
        replaces: int | None = None,
    ) -> None:
        self.pid = pid
        self.name = name
        self.incarnation = incarnation
        self.position = position
        self.leaf = leaf
        self.opener = opener
        self.replaces = replaces
        self.first_index = -1  # known for those this batch opens
        self.last_index = -1  # known once this writer appended


class Batch:
    """A commit in the making, beside the state it will become."""

    def __init__(self, tree: Tree, keys: KeyEvents) -> None:
        self.tree = tree.copy()
        self.keys = keys
        self.first_index = tree.frontier.size
        self.leaves: list[bytes] = []
        self.orders: list[tuple[Erased, int]] = []  # each with the index of its append
        self.fences: set[tuple[int, bytes]] = set()
        self.appends: dict[tuple[int, bytes], tuple[Inspected, int, int]] = {}  # -> itself, position, index
        self.stored: dict[tuple[int, bytes], int] = {}  # -> index
        self._rows: list[Any] = []  # eight values an append, one after the other
        self._opened: dict[int, Part] = {}
        self._changed: dict[int, Part] = {}

    @property
    def next_index(self) -> int:
        """The global index of the next admitted entry."""
        return self.first_index + len(self.leaves)

    def look_up(self, connection: apsw.Connection, appends: list[tuple[int, bytes]]) -> None:
        """Learn which of these (pid, append id) are sealed already."""
        if appends:
            keys = apsw.carray(tuple(b"%012d" % pid + append_id for pid, append_id in appends))
            for pid, append_id, index in connection.execute(_STORED, (keys,)):
                self.stored[pid, append_id] = index

    def admit(self, part: Part, append: Inspected) -> None:
        """Take an append at the partition's head; `part` moves on."""
        index, position, count = self.next_index, part.position + 1, len(append.leaves)
        signed, pid = append.signed, part.pid
        self._rows += (index, pid, position, count, signed.append_id, signed.signature, append.form, append.body)
        self.appends[pid, signed.append_id] = (append, position, index)
        if append.closes_fence:
            self.fences.add((pid, append.fence))
        if part.first_index < 0 and position == 1:
            part.first_index = index
            self._opened[pid] = part
        else:
            self._changed[pid] = part
        part.position += count
        part.leaf = append.leaves[-1]
        part.last_index = index + count - 1
        self.leaves.extend(append.leaves)

    def write(self, connection: apsw.Connection) -> None:
        """Write all rows but the checkpoint; grows the tree."""
        for part in self._opened.values():
            if part.replaces is not None:
                connection.execute("UPDATE part SET current = 0 WHERE pid = ?", (part.replaces,))
            connection.execute(_INSERT_PART, _row(part))
        updates: list[Any] = []
        for part in self._changed.values():
            if part.pid not in self._opened:
                updates += (part.pid, part.position + 1, part.leaf, part.last_index)
        _write_rows(connection, _UPDATE_PARTS, updates, width=4)
        _write_rows(connection, _INSERT_APPENDS, self._rows, width=8)
        if self.fences:
            connection.executemany("INSERT INTO fence VALUES (?, ?)", list(self.fences))
        tiles = self.tree.extend(self.leaves)
        if tiles:
            connection.executemany("INSERT INTO tile (level, n, hashes) VALUES (?, ?, ?)", tiles)


def _write_rows(connection: apsw.Connection, statement: str, values: list[Any], *, width: int) -> None:
    """Run the statement for all rows, `width` values each."""
    step = ROWS_PER_STATEMENT_MAX * width
    for at in range(0, len(values), step):
        portion = values[at : at + step]
        connection.execute(_for_rows(statement, len(portion) // width, width), portion)


@lru_cache(maxsize=WRITE_STATEMENTS_KEPT)
def _for_rows(statement: str, count: int, width: int) -> str:
    return statement.format(",".join([f"({','.join('?' * width)})"] * count))


def _row(part: Part) -> tuple[Any, ...]:
    return (
        part.pid,
        part.name,
        part.incarnation,
        part.position + 1,
        part.leaf,
        part.first_index,
        part.last_index,
        part.opener,
    )
