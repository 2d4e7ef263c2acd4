"""Verifies the SQLite file as a file: every value has its column's type, and SQLite finds pages and indexes whole.

That its tables are ours, and nothing beside them is (a trigger would run inside the writer), `check_format` says of
every connection. SQLite enforces the types of STRICT tables when it writes, not when it reads: a page that was edited
may hold anything, and no verifier of entries should have to expect a text where a hash stands.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw

from journal.database import explain, open_reader, row, rows
from journal.findings import Fault
from journal.records import place_of

DAMAGES_MAX: Final = 10  # of a kind; the first ones show the pattern

_TYPES: Final = {  # by table: what names a row, and the types of its columns
    "append": (
        "idx",
        {
            "pid": "integer",
            "position": "integer",
            "n": "integer",
            "append_id": "blob",
            "sig": "blob",
            "form": "integer",
            "body": "blob",
        },
    ),
    "part": (
        "pid",
        {
            "name": "text",
            "incarnation": "blob",
            "next": "integer",
            "leaf": "blob",
            "first_idx": "integer",
            "last_idx": "integer",
            "opener": "blob",
            "current": "integer",
        },
    ),
    "checkpoint": ("size", {"note": "text", "nodes": "blob"}),
    "cosignature": ("size", {"size": "integer", "line": "text"}),
    "tile": ("level || '/' || n", {"level": "integer", "n": "integer", "hashes": "blob"}),
    "fence": ("pid", {"pid": "integer", "fence": "blob"}),
}
_PLACE: Final = (
    "SELECT name, incarnation, position FROM part JOIN append USING (pid) WHERE idx = ? AND typeof(name) = 'text'"
    " AND typeof(incarnation) = 'blob' AND typeof(position) = 'integer'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesTask:
    """A file whose pages and indexes SQLite is to look at; can be sent to another process."""

    path: str


def check_types(path: Path) -> list[Fault]:
    """Values that are not of their column's type; of an append named with the partition and position it stands at."""
    faults: list[Fault] = []
    connection = open_reader(path)
    try:
        for table, (name, types) in _TYPES.items():
            differs = " OR ".join(f"typeof({column}) <> '{kind}'" for column, kind in types.items())
            for (key,) in rows(connection, f"SELECT {name} FROM {table} WHERE {differs} LIMIT {DAMAGES_MAX}"):
                stands = row(connection, _PLACE, (key,)) if table == "append" else None
                place = f"{table} {key}" if stands is None else place_of(*stands)
                faults.append(Fault(kind="type", place=place, detail="a value is not of its column's type"))
    except UnicodeDecodeError:
        faults.append(Fault(kind="database", place="part", detail="a name is not UTF-8"))
    except apsw.Error:
        pass  # a damaged page: `check_pages` names it, and so does who reads what stands on it
    finally:
        connection.close()
    return faults


def check_pages(task: PagesTask) -> list[Fault]:
    """What SQLite itself finds wrong with the file's pages and indexes."""
    path = Path(task.path)
    connection = open_reader(path)
    try:
        told = [str(text) for (text,) in rows(connection, f"PRAGMA integrity_check({DAMAGES_MAX})")]
    except apsw.Error as error:
        told = [explain(error, place=path.name).message]
    finally:
        connection.close()
    return [Fault(kind="database", place=path.name, detail=text) for text in told if text != "ok"]
