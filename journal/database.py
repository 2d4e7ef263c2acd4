"""The SQLite file: its tables, how connections are opened, and how SQLite's faults become ours.

WAL and synchronous=FULL: a COMMIT that returned is on the disk. One writer holds the lock (journal/lock.py) and is
the only one that checkpoints the WAL; readers open read-only and never hold a transaction between two chunks.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import apsw

from polyc.errors import CorruptError, PolycError, RefusedError, UnavailableError

FORMAT: Final = "polychrome/journal/sqlite/v2"  # v1 had a row an event (docs/adr/0005)
FORMAT_BEFORE: Final = "polychrome/journal/sqlite/v1"
WAL_AUTOCHECKPOINT_PAGES: Final = 4096  # 16 MiB: rare enough for imports, small enough to replay in a moment
READ_CONNECTIONS_KEPT: Final = 8
WRITE_CACHE_SIZE_KIB: Final = 64 * 1024  # a large commit fits: pages that spill are written to the WAL twice
WRITE_STATEMENTS_KEPT: Final = 64  # journal/batch.py has one for each number of rows
BUSY_TIMEOUT_MS: Final = 10_000

# append_ids begins with the id because fresh ids grow (UUIDv7): a commit writes one page of it, not one a partition.
# A file that was made with (pid, append_id) answers the same and is left as it is.
SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE part (
    pid INTEGER PRIMARY KEY, name TEXT NOT NULL, incarnation BLOB NOT NULL, next INTEGER NOT NULL,
    leaf BLOB NOT NULL, first_idx INTEGER NOT NULL, last_idx INTEGER NOT NULL, opener BLOB NOT NULL,
    current INTEGER NOT NULL, UNIQUE (name, incarnation)
) STRICT;
CREATE UNIQUE INDEX part_current ON part (name) WHERE current = 1;
CREATE TABLE append (
    idx INTEGER PRIMARY KEY, pid INTEGER NOT NULL, position INTEGER NOT NULL, n INTEGER NOT NULL,
    append_id BLOB NOT NULL, sig BLOB NOT NULL, form INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX append_place ON append (pid, position);
CREATE UNIQUE INDEX append_ids ON append (append_id, pid);
CREATE TABLE fence (pid INTEGER NOT NULL, fence BLOB NOT NULL, PRIMARY KEY (pid, fence)) STRICT, WITHOUT ROWID;
CREATE TABLE tile (level INTEGER NOT NULL, n INTEGER NOT NULL, hashes BLOB NOT NULL, UNIQUE (level, n)) STRICT;
CREATE TABLE checkpoint (size INTEGER PRIMARY KEY, note TEXT NOT NULL, nodes BLOB NOT NULL) STRICT;
CREATE TABLE cosignature (size INTEGER NOT NULL, line TEXT NOT NULL, PRIMARY KEY (size, line))
    STRICT, WITHOUT ROWID;
"""

_APPEND_IDS_BEFORE: Final = "CREATE UNIQUE INDEX append_ids ON append (pid, append_id)"


def open_writer(path: Path, *, origin: str, vfs: str | None = None, synchronous: str = "FULL") -> apsw.Connection:
    """The writing connection; creates the tables of a new file, refuses a file of another log or format."""
    with explained(place=str(path)):
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(str(path), flags=flags, vfs=vfs, statementcachesize=WRITE_STATEMENTS_KEPT)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", synchronous)
        connection.pragma("secure_delete", True)
        connection.pragma("cell_size_check", True)
        connection.pragma("cache_size", -WRITE_CACHE_SIZE_KIB)
        connection.wal_autocheckpoint(WAL_AUTOCHECKPOINT_PAGES)
        if not connection.execute("SELECT count(*) FROM sqlite_master").get:
            with connection:
                connection.execute(SCHEMA)
                connection.executemany("INSERT INTO meta VALUES (?, ?)", [("format", FORMAT), ("origin", origin)])
    check_format(connection, origin=origin, place=str(path))
    return connection


def open_reader(path: Path, *, vfs: str | None = None) -> apsw.Connection:
    """A read-only connection."""
    if not path.exists():
        raise RefusedError(f"no journal at {path}", code="failed_precondition")
    with explained(place=str(path)):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs, statementcachesize=64)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.pragma("query_only", True)
    return connection


def check_format(connection: apsw.Connection, *, origin: str | None, place: str) -> str:
    """The origin the file was made for; refused when the format or the origin is another one.

    CorruptError also for a schema that is not ours: a trigger or a view in it would act inside the writer.
    """
    with explained(place=place):
        try:
            meta = dict(rows(connection, "SELECT key, value FROM meta"))
        except apsw.SQLError:
            meta = {}  # a database, or an empty file, that is not ours
    if meta.get("format") == FORMAT_BEFORE:
        raise RefusedError(
            f"{place} was written by an earlier version, in another format",
            code="failed_precondition",
            hint="`polyc export` with that version, `polyc import-archive` with this one: same entries, same root",
        )
    if meta.get("format") != FORMAT:
        raise CorruptError("not a journal of this format", place=place, kind="format")
    if origin is not None and meta.get("origin") != origin:
        raise CorruptError("the journal belongs to another log", place=place, kind="origin")
    with explained(place=place):
        found = _schema_of(connection)
    if found.get("append_ids") == _APPEND_IDS_BEFORE:
        found["append_ids"] = _own_schema()["append_ids"]
    if found != _own_schema() or len(meta) != 2:
        names = sorted(name for name, _sql in found.items() ^ _own_schema().items()) or ["meta"]
        raise CorruptError(f"{names[0]!a} is not as we made it", place=place, kind="schema")
    return str(meta["origin"])


def _schema_of(connection: apsw.Connection) -> dict[str, str]:
    return dict(rows(connection, "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"))


@cache
def _own_schema() -> dict[str, str]:
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(SCHEMA)
        return _schema_of(connection)
    finally:
        connection.close()


class Readers:
    """Idle read-only connections: borrowed for one chunk, given back after it."""

    def __init__(self, path: Path, *, vfs: str | None = None) -> None:
        self.path = path
        self._vfs = vfs
        self._idle: list[apsw.Connection] = []
        self._mutex = threading.Lock()
        self._closed = False

    @contextmanager
    def borrow(self) -> Iterator[apsw.Connection]:
        """A connection of one's own for the length of the block."""
        with self._mutex:
            if self._closed:
                raise UnavailableError("the journal is closed")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = open_reader(self.path, vfs=self._vfs)
        try:
            with explained(place=str(self.path)):
                yield connection
        finally:
            with self._mutex:
                keep = not self._closed and len(self._idle) < READ_CONNECTIONS_KEPT
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def close(self) -> None:
        """Close what is idle; what is borrowed closes when it comes back."""
        with self._mutex:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def rows(connection: apsw.Connection, query: str, bindings: tuple[Any, ...] = ()) -> list[Any]:
    """Every row of a statement, as tuples of whatever types the schema (STRICT tables) says."""
    return connection.execute(query, bindings).fetchall()


def row(connection: apsw.Connection, query: str, bindings: tuple[Any, ...] = ()) -> Any:
    """The only row of a statement, or None."""
    return connection.execute(query, bindings).fetchone()


@contextmanager
def explained(*, place: str) -> Iterator[None]:
    """Turns SQLite's faults into the four families."""
    try:
        yield
    except apsw.Error as error:
        raise explain(error, place=place) from error
    except UnicodeDecodeError:
        raise CorruptError("a text is not UTF-8", place=place, kind="database") from None


def explain(error: apsw.Error, *, place: str) -> PolycError:
    """The error of ours that tells the caller what to do."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.FormatError):
        return CorruptError("SQLite finds the file damaged", place=place, kind="database")
    if isinstance(error, apsw.FullError):
        return UnavailableError("the disk is full", code="resource_exhausted", hint="free space, then try again")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return UnavailableError("the journal is busy")
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return UnavailableError(f"the journal at {place} cannot be opened for this", code="failed_precondition")
    return UnavailableError(f"the journal's storage failed: {type(error).__name__}")
