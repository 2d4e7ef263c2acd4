"""The payload keys of an encrypting deployment: a file beside the journal that no backup and no export takes along.

A key is durable before the first payload is encrypted under it. Destroying overwrites it (SQLite's secure_delete, then
the WAL is cut) and leaves its row, so that "destroyed" and "not here" stay two things: the first is an erasure, the
second a copy of the journal without its keys.
"""

import threading
from pathlib import Path
from typing import Final

import apsw

from journal.database import explained, row
from polyc.errors import RefusedError, UnavailableError
from polyc.ids import IdSource
from polyc.payloads import KEY_SIZE_BYTES, PayloadKey

FILE: Final = "secrets.sqlite"
KEYS_CACHED_MAX: Final = 65_536
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS secret (name TEXT NOT NULL, incarnation BLOB NOT NULL, key BLOB,"
    " PRIMARY KEY (name, incarnation)) STRICT, WITHOUT ROWID"
)


class Secrets:
    """The keys by (partition, incarnation); `ids` makes new ones, without it the file is only read."""

    def __init__(self, path: Path, *, ids: IdSource | None = None) -> None:
        self.path = path
        self._ids = ids
        self._mutex = threading.Lock()
        self._known: dict[tuple[str, bytes], PayloadKey | None] = {}
        flags = apsw.SQLITE_OPEN_READONLY if ids is None else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        if ids is not None and not path.exists():
            path.touch(mode=0o600)
        with explained(place=str(path)):
            self._connection = apsw.Connection(str(path), flags=flags)
            if ids is not None:
                self._connection.pragma("journal_mode", "wal")
                self._connection.pragma("synchronous", "FULL")
                self._connection.pragma("secure_delete", True)
                self._connection.execute(_SCHEMA)

    def key(self, partition: str, incarnation: bytes) -> PayloadKey | None:
        """The key, or None when it was destroyed; UnavailableError when it is not here."""
        with self._mutex, explained(place=str(self.path)):
            known = (partition, incarnation)
            if known not in self._known:
                found = row(self._connection, "SELECT key FROM secret WHERE name = ? AND incarnation = ?", known)
                if found is None:
                    raise UnavailableError(
                        f"the payload key of {partition} is not here", hint="a copy of a journal comes without its keys"
                    )
                self._remember(known, found[0])
            return self._known[known]

    def make(self, partition: str, incarnation: bytes) -> PayloadKey:
        """The key, made and durable when it is new; RefusedError when it was destroyed."""
        assert self._ids is not None, "only the journal's writer makes keys"
        raw = self._ids.token(KEY_SIZE_BYTES)
        with self._mutex, explained(place=str(self.path)):
            self._connection.execute("INSERT OR IGNORE INTO secret VALUES (?, ?, ?)", (partition, incarnation, raw))
        key = self.key(partition, incarnation)
        if key is None:
            raise RefusedError(
                "the conversation's content was erased; nothing can be added to it",
                code="failed_precondition",
                hint="start a new incarnation",
            )
        return key

    def destroy(self, partition: str, incarnation: bytes) -> None:
        """Overwrite the key; every copy of what it encrypted is unreadable from then on."""
        with self._mutex, explained(place=str(self.path)):
            self._connection.execute(
                "INSERT INTO secret VALUES (?, ?, NULL) ON CONFLICT (name, incarnation) DO UPDATE SET key = NULL",
                (partition, incarnation),
            )
            self._known[partition, incarnation] = None
            row(self._connection, "PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _remember(self, known: tuple[str, bytes], raw: bytes | None) -> None:
        if len(self._known) > KEYS_CACHED_MAX:
            self._known.clear()
        partition, incarnation = known
        self._known[known] = None if raw is None else PayloadKey(raw, partition=partition, incarnation=incarnation)
