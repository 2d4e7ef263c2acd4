"""The importers' cursors: what was read of which file and what was appended of which conversation.

A cache in one SQLite file: when it is lost, damaged or of another version it is made anew, and the journal itself is
asked for what it has (`Importer`, `past`). Nothing in it is evidence.

    file          path → provider ('' = nobody's), signature (sizes and times of it and companions), how much of
                  its end was told
    conversation  partition → file, incarnation ordinal, how many events were appended, the digest of them all, and the
                  leaf at which the journal stood then
    record, copy  keys of records → the file that was seen to hold one first, and the others: finds the copies of
                  resumed and forked sessions
    member        what was known of such a file when its family was last settled: files get deleted
    share         pairs of files that hold copies of each other's records
    quarantined   bad pieces that were told already
"""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Self

import apsw
import msgspec
from msgspec.structs import astuple

from polyc.errors import UnavailableError

VERSION: Final = 3

BUSY_MS: Final = 10_000  # a watcher's round is much shorter; a first import of everything is longer, and says so

_SCHEMA: Final = """
CREATE TABLE file(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, provider TEXT NOT NULL, signature TEXT NOT NULL,
                  told INTEGER NOT NULL) STRICT;
CREATE TABLE conversation(partition TEXT PRIMARY KEY, path TEXT NOT NULL, ordinal INTEGER NOT NULL,
                          count INTEGER NOT NULL, digest BLOB NOT NULL, foreigners TEXT NOT NULL, leaf BLOB NOT NULL)
                          STRICT, WITHOUT ROWID;
CREATE INDEX conversation_path ON conversation(path);
CREATE TABLE record(key INTEGER PRIMARY KEY, file INTEGER NOT NULL) STRICT;
CREATE TABLE copy(key INTEGER NOT NULL, file INTEGER NOT NULL, PRIMARY KEY(key, file)) STRICT, WITHOUT ROWID;
CREATE TABLE member(file INTEGER PRIMARY KEY, content BLOB NOT NULL) STRICT;
CREATE TABLE share(a INTEGER NOT NULL, b INTEGER NOT NULL, PRIMARY KEY(a, b)) STRICT, WITHOUT ROWID;
CREATE TABLE quarantined(path TEXT NOT NULL, offset INTEGER NOT NULL, sha256 TEXT NOT NULL,
                         PRIMARY KEY(path, offset, sha256)) STRICT, WITHOUT ROWID;
"""


class FileCursor(msgspec.Struct, frozen=True, gc=False):
    """What is known of a file; `told`: up to which `Stillness` its end was told."""

    id: int
    provider: str
    signature: str
    told: int


class Progress(msgspec.Struct, frozen=True, gc=False):
    """What was appended of a conversation: the incarnation's ordinal, the number of events, the digest of them all.

    `foreigners` is a digest of the copies that were left out. `leaf` is where the partition stood in the journal when
    this was noted: when it stands elsewhere now, this is out of date and the journal is asked.
    """

    path: str
    ordinal: int
    count: int
    digest: bytes
    foreigners: str = ""
    leaf: bytes = b""


class Cursors:
    """The cache, open. One import at a time holds it: from `begin` to `commit`."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._db = connection

    @classmethod
    def open(cls, path: Path | None) -> Self:
        """The cache in a file (None: in memory); one that cannot be used is made anew."""
        if path is None:
            return cls(_connect(":memory:"))
        try:
            return cls(_connect(str(path)))
        except (apsw.NotADBError, apsw.CorruptError, _OtherVersionError):
            for suffix in ("", "-journal", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            return cls(_connect(str(path)))

    def begin(self) -> None:
        """Hold the cache until `commit` or `close`; UnavailableError when another import holds it for too long."""
        if self._db.in_transaction:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            raise UnavailableError(
                "another import into this data root is running", hint="polyc up and polyc watch import by themselves"
            ) from None

    def commit(self) -> None:
        """Keep what was noted since `begin`, and let others import."""
        if self._db.in_transaction:
            self._db.execute("COMMIT")

    def forget(self) -> None:
        """Keep nothing that was noted since `begin`, and let others import."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        """Keep nothing more."""
        self.forget()
        self._db.close()

    # --- files ---------------------------------------------------------------------------------------------------

    def file(self, path: str) -> FileCursor | None:
        """What is known of a file that was looked at."""
        row = self._db.execute("SELECT id, provider, signature, told FROM file WHERE path = ?", (path,)).fetchone()
        return None if row is None else FileCursor(*row)

    def see(self, path: str, *, provider: str) -> int:
        """The file's number; a new file gets one, with a signature that fits nothing."""
        self._db.execute(
            "INSERT INTO file(path, provider, signature, told) VALUES(?, ?, '', 0) "
            "ON CONFLICT(path) DO UPDATE SET provider = excluded.provider",
            (path, provider),
        )
        return int(self._db.execute("SELECT id FROM file WHERE path = ?", (path,)).get)

    def read(self, path: str, *, signature: str, told: int) -> None:
        """The file was read as it was when it had this signature."""
        self._db.execute("UPDATE file SET signature = ?, told = ? WHERE path = ?", (signature, told, path))

    def path_of(self, file: int) -> str:
        """The path of a file's number."""
        return str(self._db.execute("SELECT path FROM file WHERE id = ?", (file,)).get)

    # --- conversations -------------------------------------------------------------------------------------------

    def progress(self, partition: str) -> Progress | None:
        """What was appended of the conversation, as far as it is known here."""
        row = self._db.execute(
            "SELECT path, ordinal, count, digest, foreigners, leaf FROM conversation WHERE partition = ?", (partition,)
        ).fetchone()
        return None if row is None else Progress(*row)

    def advance(self, partition: str, progress: Progress) -> None:
        """The conversation was appended so far."""
        self._db.execute(
            "INSERT OR REPLACE INTO conversation VALUES(?, ?, ?, ?, ?, ?, ?)", (partition, *astuple(progress))
        )

    def told_without(self, path: str) -> str | None:
        """The digest of the copies that were left out when the file was told last; None when it never was."""
        row = self._db.execute("SELECT foreigners FROM conversation WHERE path = ? LIMIT 1", (path,)).fetchone()
        return None if row is None else str(row[0])

    # --- records and their copies ----------------------------------------------------------------------------------

    def index(self, file: int, keys: set[int]) -> set[int]:
        """The file holds records of these keys; answers the other files that hold some of them."""
        before = self._db.total_changes()
        pairs = zip(keys, itertools.repeat(file))
        self._db.executemany("INSERT OR IGNORE INTO record VALUES(?, ?)", pairs)
        if self._db.total_changes() - before == len(keys):
            return set()  # nobody held any of them
        found: set[int] = set()
        for chunk in _chunks(sorted(keys), 400):
            marks = ",".join("?" * len(chunk))
            held = list(self._db.execute(f"SELECT key, file FROM record WHERE key IN ({marks})", tuple(chunk)))
            others = [(key, file) for key, holder in held if holder != file]
            self._db.executemany("INSERT OR IGNORE INTO copy VALUES(?, ?)", others)
            found.update(holder for _key, holder in held)
            copies = self._db.execute(f"SELECT DISTINCT file FROM copy WHERE key IN ({marks})", tuple(chunk))
            found.update(holder for (holder,) in copies)
        return found - {file}

    def relate(self, file: int, others: Iterable[int]) -> None:
        """The file and the others hold copies of each other's records."""
        for other in others:
            self._db.execute("INSERT OR IGNORE INTO share VALUES(?, ?), (?, ?)", (file, other, other, file))

    def family(self, file: int) -> set[int]:
        """The files related to this one, directly or over others, and itself."""
        rows = self._db.execute(
            "WITH RECURSIVE kin(file) AS (SELECT ? UNION SELECT b FROM share JOIN kin ON share.a = kin.file) "
            "SELECT file FROM kin",
            (file,),
        )
        return {member for (member,) in rows}

    def remember(self, file: int, member: bytes) -> None:
        """What is known of a file of a family."""
        self._db.execute("INSERT OR REPLACE INTO member VALUES(?, ?)", (file, member))

    def remembered(self, file: int) -> bytes | None:
        """What was known of the file when its family was last settled."""
        row = self._db.execute("SELECT content FROM member WHERE file = ?", (file,)).fetchone()
        return None if row is None else bytes(row[0])

    def keys_of(self, file: int) -> tuple[int, ...]:
        """The keys of a file's records, in no particular order."""
        statement = "SELECT key FROM record WHERE file = ?1 UNION SELECT key FROM copy WHERE file = ?1 ORDER BY key"
        return tuple(key for (key,) in self._db.execute(statement, (file,)))

    def partition_told_by(self, path: str) -> str | None:
        """The conversation that a file told."""
        row = self._db.execute("SELECT partition FROM conversation WHERE path = ? LIMIT 1", (path,)).fetchone()
        return None if row is None else str(row[0])

    # --- quarantine ------------------------------------------------------------------------------------------------

    def is_told(self, path: str, offset: int, sha256: str) -> bool:
        """Whether the bad piece was told already."""
        row = self._db.execute(
            "SELECT 1 FROM quarantined WHERE path = ? AND offset = ? AND sha256 = ?", (path, offset, sha256)
        ).fetchone()
        return row is not None

    def tell(self, path: str, offset: int, sha256: str) -> None:
        """The bad piece is told."""
        self._db.execute("INSERT OR IGNORE INTO quarantined VALUES(?, ?, ?)", (path, offset, sha256))


class _OtherVersionError(Exception):
    pass


def _connect(path: str) -> apsw.Connection:
    connection = apsw.Connection(path)
    connection.set_busy_timeout(BUSY_MS)
    connection.execute("PRAGMA journal_mode = DELETE; PRAGMA synchronous = NORMAL")
    version = connection.execute("PRAGMA user_version").get
    if version not in {0, VERSION}:
        connection.close()
        raise _OtherVersionError
    if version == 0:
        connection.execute(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT")
    return connection


def _chunks(items: list[int], size: int) -> Iterator[list[int]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]
