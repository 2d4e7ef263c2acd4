"""Other programs' SQLite files: read as they are, in one snapshot, without a trace beside them.

The file is opened read-only; where even that would leave a `-shm` file (a WAL database in a folder that cannot be
written) it is opened as immutable. A database that cannot be read gives `UnreadableError`, never half of its rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

BUSY_MS: Final = 2000  # its own program may be writing


class UnreadableError(OSError):
    """The database is damaged, locked, or not what its name says."""


def companions_of(path: Path) -> Iterable[Path]:
    """The write-ahead log: rows may stand there alone."""
    return (path.with_name(path.name + "-wal"),)


def rows(path: Path, statement: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a statement over the file."""
    _check_whole(path)
    try:
        connection = _open(path)
        try:
            return list(connection.execute(statement, tuple(bindings)))
        finally:
            connection.close()
    except apsw.Error as error:
        raise UnreadableError(f"cannot read {path.name}: {type(error).__name__}") from None


def tables(path: Path) -> dict[str, frozenset[str]]:
    """The tables of the file and their columns."""
    found: dict[str, set[str]] = {}
    statement = "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"
    for table, column in rows(path, statement):
        found.setdefault(str(table), set()).add(str(column))
    return {table: frozenset(columns) for table, columns in found.items()}


def names(path: Path) -> Iterator[str]:
    """The tables' names; none when the file cannot be read."""
    try:
        yield from tables(path)
    except UnreadableError:
        return


def _check_whole(path: Path) -> None:
    """UnreadableError when the file is shorter than its header says: SQLite would read what is missing as zeros.

    The header: https://www.sqlite.org/fileformat2.html#the_database_header (page size at 16, pages at 28).
    """
    with path.open("rb") as stream:
        header = stream.read(100)
    if len(header) < 100:  # nothing was written yet, or it lies in the write-ahead log alone
        return
    size_bytes = path.stat().st_size
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65_536 if page_bytes == 1 else page_bytes
    pages = int.from_bytes(header[28:32], "big")
    if page_bytes < 512 or size_bytes % page_bytes or size_bytes < pages * page_bytes:
        raise UnreadableError(f"{path.name} is cut short")


def _open(path: Path) -> apsw.Connection:
    address = f"file:{quote(str(path))}"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(f"{address}?mode=ro", flags=flags)
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except apsw.Error:
        connection = apsw.Connection(f"{address}?immutable=1", flags=flags)
    return connection
