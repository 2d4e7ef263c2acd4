"""Reading the SQLite store: what every reader of the embedded journal shares (see journal/port.py for the laws).

Appends come in chunks, each in a read transaction of its own: a slow reader holds no lock and no WAL. Entries only
ever get appended, and the newest checkpoint is read first, so chunks of one walk fit together. An append is verified
as a whole, also when only a part of it is asked for.
"""

import threading
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self

import apsw

from journal.body import COLUMNS, Stored
from journal.database import Readers, check_format, row, rows
from journal.keyevents import load_keyring
from journal.port import PartitionHead, RawEntry, SignedRecords
from journal.receipt import make_receipt
from journal.records import Chain, Keys, RecordBatch, raw_entries, record_batches
from journal.secrets import FILE, Secrets
from journal.tree import TileNodes
from polyc import merkle
from polyc.entry import FLAG_ENCRYPTED, Record, decode_header, leaf_hash
from polyc.errors import CorruptError, RefusedError
from polyc.keyring import KeyRing
from polyc.limits import PARTITIONS_CACHED_MAX, READ_CHUNK_BYTES_MAX, READ_CHUNK_ROWS_MAX

POLL_S: Final = 0.05  # a reader in another process looks this often; in the writer's process it is told

_CURRENT: Final = "SELECT name, incarnation, next - 1, leaf, first_idx, last_idx FROM part WHERE current = 1"
# Found by the appends, not by an index on last_idx: that would cost every commit another page.
_CHANGED: Final = (
    f"{_CURRENT} AND last_idx >= ?1 AND pid IN"
    " (SELECT pid FROM append WHERE idx >= coalesce((SELECT max(idx) FROM append WHERE idx <= ?1), 0)) ORDER BY name"
)
_ROWS: Final = f"SELECT {COLUMNS} FROM append WHERE pid = ? AND position > ? AND idx < ? ORDER BY position LIMIT ?"
_AT: Final = f"SELECT {COLUMNS} FROM append WHERE idx = ?"
_UP_TO: Final = f"SELECT {COLUMNS} FROM append WHERE pid = ? AND position <= ? ORDER BY position DESC LIMIT 2"
_ALL: Final = (
    f"SELECT name, incarnation, pid, {COLUMNS} FROM append JOIN part USING (pid)"
    " WHERE idx >= ? AND idx < ? ORDER BY idx LIMIT ?"
)


class SqliteReader:
    """A JournalReader over the file. `wait` is how to learn of new entries; without it the file is polled."""

    def __init__(
        self,
        path: Path,
        *,
        origin: str,
        root_public_key: bytes,
        wait: Callable[[int, float], None] | None = None,
        secrets: Secrets | None = None,
        vfs: str | None = None,
    ) -> None:
        self.path = path
        self.origin = origin
        self.root_public_key = root_public_key
        self._wait = wait
        self._secrets = _secrets_beside(path) if secrets is None else secrets
        self._owns_secrets = secrets is None
        self._connections = Readers(path, vfs=vfs)
        with self._connections.borrow() as connection:
            check_format(connection, origin=origin, place=str(path))

    def size(self) -> int:
        """The size of the latest checkpoint."""
        with self._connections.borrow() as connection:
            return _size(connection)

    def checkpoint(self) -> str:
        """The latest checkpoint; RefusedError when nothing was ever appended."""
        with self._connections.borrow() as connection:
            row = connection.execute("SELECT note FROM checkpoint ORDER BY size DESC LIMIT 1").fetchone()
        if row is None:
            raise RefusedError("nothing was appended yet", code="not_found")
        return str(row[0])

    def partitions(self) -> list[PartitionHead]:
        """The current incarnation of every partition, by name."""
        with self._connections.borrow() as connection:
            return [PartitionHead(*row) for row in connection.execute(f"{_CURRENT} ORDER BY name")]

    def incarnations(self) -> list[PartitionHead]:
        """Every incarnation of every partition, in the order of the log."""
        query = "SELECT name, incarnation, next - 1, leaf, first_idx, last_idx FROM part ORDER BY first_idx"
        with self._connections.borrow() as connection:
            return [PartitionHead(*row) for row in connection.execute(query)]

    def changed_since(self, index: int) -> list[PartitionHead]:
        """The partitions whose current incarnation got entries at `index` or later."""
        with self._connections.borrow() as connection:
            return [PartitionHead(*row) for row in connection.execute(_CHANGED, (index,))]

    def partition_head(self, partition: str, *, incarnation: bytes | None = None) -> PartitionHead | None:
        """Where an incarnation (the current one) stands, or None when there is none."""
        with self._connections.borrow() as connection:
            found = _find(connection, partition, incarnation)
        return None if found is None else found[1]

    def opening(self, head: PartitionHead) -> tuple[int, bytes | None]:
        """When the first entry was recorded, and its payload; not verified."""
        where = f"{head.partition}/{head.incarnation.hex()}"
        with self._connections.borrow() as connection:
            found = row(connection, _AT, (head.first_index,))
        if found is None:
            raise CorruptError("entry is missing", place=f"{where}@1", kind="gap")
        flags, recorded_at_us, payload = Stored(*found).opening(where)
        if flags & FLAG_ENCRYPTED and payload is not None:
            records = self.read(head.partition, incarnation=head.incarnation, through_index=head.first_index)
            payload = next(records).payload
        return recorded_at_us, payload

    def read(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[Record]:
        """One incarnation in order, verified while reading."""
        batches = self.read_batches(
            partition, from_position=from_position, incarnation=incarnation, through_index=through_index
        )
        return chain.from_iterable(batches)

    def read_batches(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[list[Record]]:
        """The same in lists, each verified before it is handed out."""
        return record_batches(self._walk(partition, from_position, incarnation, through_index))

    def read_signed(self, partition: str, *, from_position: int = 1) -> Iterator[SignedRecords]:
        """The current incarnation append by append, verified, each with its author's signature, which is not."""
        for walk, stored, part in self._walk(partition, from_position, None, None):
            yield walk.signed(stored, part)

    def read_all(self, *, from_index: int, to_index: int | None = None) -> Iterator[Record]:
        """The log in its order; each partition's chain is checked against its last entry seen here or before."""
        for walk, stored, part in self._walk_log(from_index, to_index):
            batch = RecordBatch()
            batch.take(walk, stored, part)
            yield from batch.records
            if batch.fault is not None:
                raise batch.fault

    def read_all_raw(self, *, from_index: int, to_index: int | None = None) -> Iterator[RawEntry]:
        """The log in its order as stored, verified like `read_all`."""
        for walk, stored, part in self._walk_log(from_index, to_index):
            yield from raw_entries(stored, walk.take(stored), part)

    def read_raw(
        self,
        partition: str,
        *,
        incarnation: bytes | None = None,
        from_position: int = 1,
        through_index: int | None = None,
    ) -> Iterator[RawEntry]:
        """One incarnation as stored, verified, with the signature at the last entry of each append."""
        for walk, stored, part in self._walk(partition, from_position, incarnation, through_index):
            yield from raw_entries(stored, walk.take(stored), part)

    def read_stored(
        self, partition: str, *, from_position: int = 1, incarnation: bytes | None = None, through_index: int
    ) -> Iterator[Stored]:
        """Whole appends as they are stored, not verified: for a reader that verifies; the first holds the position."""
        with self._connections.borrow() as connection:
            found = _find(connection, partition, incarnation)
            if found is None or not _holds(found[1], from_position):
                return
            query = "SELECT max(position) FROM append WHERE pid = ? AND position <= ?"
            first = row(connection, query, (found[0], from_position))[0]
            chunk = _rows_of(connection, found[0], (first or 1) - 1, through_index + 1)
        yield from self._appends(found[0], chunk, through_index + 1)

    def read_all_stored(self, *, from_index: int, to_index: int | None = None) -> Iterator[Stored]:
        """The same for the log in its order."""
        for _pid, _head, stored, _part in self._log(from_index, to_index):
            yield stored

    def wait_beyond(self, size: int, timeout_s: float) -> int:
        """Block until more than `size` entries are sealed or the time is over."""
        now = self.size()
        if now > size or timeout_s <= 0:
            return now
        if self._wait is not None:
            self._wait(size, timeout_s)
            return self.size()
        never, left_s = threading.Event(), timeout_s
        while left_s > 0:
            never.wait(min(POLL_S, left_s))
            left_s -= POLL_S
            now = self.size()
            if now > size:
                break
        return now

    def keyring(self) -> KeyRing:
        """The keys of `sys-keys`, verified from the root key on."""
        return load_keyring(self, root_public_key=self.root_public_key)

    def receipt(self, partition: str, position: int, *, incarnation: bytes | None = None) -> str:
        """The receipt of one entry, under the newest cosigned checkpoint that covers it, else the latest."""
        with self._connections.borrow() as connection:
            found = _find(connection, partition, incarnation)
            if found is None or not 1 <= position <= found[1].position:
                raise RefusedError("no such entry", code="not_found")
            where = f"{partition}/{found[1].incarnation.hex()}"
            return make_receipt(connection, pid=found[0], position=position, where=where)

    def consistency_proof(self, old_size: int, new_size: int) -> list[bytes]:
        """The proof that the log at `new_size` starts with the log at `old_size`."""
        with self._connections.borrow() as connection:
            if not 0 <= old_size <= new_size <= _size(connection):
                raise RefusedError("the log has no such sizes", code="out_of_range")
            return merkle.consistency_proof(old_size, new_size, TileNodes(connection))

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()
        if self._owns_secrets and self._secrets is not None:
            self._secrets.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def _keys(self) -> Keys | None:
        return None if self._secrets is None else self._secrets.key

    def _walk(
        self, partition: str, from_position: int, incarnation: bytes | None, through_index: int | None
    ) -> Iterator[tuple[Chain, Stored, slice]]:
        """The appends of an incarnation, each with the chain it must fit and the part of it that was asked for."""
        with self._connections.borrow() as connection:
            found = _find(connection, partition, incarnation)
            if found is None or not _holds(found[1], from_position):
                return
            pid, head = found
            walk = self._chain_of(connection, pid, head, position=from_position)
            bound = head.last_index + 1 if through_index is None else min(through_index, head.last_index) + 1
            chunk = _rows_of(connection, pid, walk.position, bound)
        for stored in self._appends(pid, chunk, bound):
            yield walk, stored, slice(max(from_position - stored.position, 0), bound - stored.index)
        if bound == head.last_index + 1:
            _check_end(walk, head)

    def _walk_log(self, from_index: int, to_index: int | None) -> Iterator[tuple[Chain, Stored, slice]]:
        """The appends of a range of the log, as `_walk` gives them."""
        chains: dict[int, Chain] = {}
        for pid, head, stored, part in self._log(from_index, to_index):
            if pid not in chains:
                if len(chains) > PARTITIONS_CACHED_MAX:
                    chains.clear()
                with self._connections.borrow() as connection:
                    chains[pid] = self._chain_of(connection, pid, head, position=stored.position)
            yield chains[pid], stored, part

    def _appends(self, pid: int, chunk: list[Any], bound: int) -> Iterator[Stored]:
        """The appends of an incarnation from this chunk of them on, as far as they begin below an index.

        Whoever opens an append finds a false count, so one that says it reaches the bound is the last: no statement
        is spent on finding nothing, which a replay of many short conversations would do for each.
        """
        while chunk:
            for columns in chunk:
                yield Stored(*columns)
            index, position, count = chunk[-1][:3]
            if index + count >= bound:
                return
            with self._connections.borrow() as connection:
                chunk = _rows_of(connection, pid, position, bound)

    def _log(self, from_index: int, to_index: int | None) -> Iterator[tuple[int, PartitionHead, Stored, slice]]:
        """The appends of a range of the log without a gap, and the part of each that lies in the range."""
        with self._connections.borrow() as connection:
            bound = _size(connection) if to_index is None else min(to_index, _size(connection))
            first = row(connection, "SELECT max(idx) FROM append WHERE idx <= ?", (from_index,))[0]
        at = first or 0
        while from_index < bound and at < bound:
            with self._connections.borrow() as connection:
                chunk = _chunk(connection, _ALL, (at, bound, READ_CHUNK_ROWS_MAX))
            if not chunk:
                raise CorruptError("entry is missing", place=f"index {at}", kind="gap")
            for name, incarnation, pid, *columns in chunk:
                stored = Stored(*columns)
                if stored.index != at or stored.count < 1:
                    raise CorruptError("entry is missing", place=f"index {at}", kind="gap")
                part = slice(max(from_index - at, 0), bound - at)
                yield pid, PartitionHead(name, incarnation, 0, b"", 0, 0), stored, part
                at += stored.count

    def _chain_of(self, connection: apsw.Connection, pid: int, head: PartitionHead, *, position: int) -> Chain:
        """The chain up to the append that holds this position: it stands at the last entry before that append."""
        if position > 1:
            found = rows(connection, _UP_TO, (pid, position))
            where = f"{head.partition}/{head.incarnation.hex()}"
            if not found:
                raise CorruptError("entry is missing", place=f"{where}@{position}", kind="gap")
            if len(found) > 1:
                run = Stored(*found[1]).open(where)
                place = f"{where}@{run.positions[-1]}"
                header = decode_header(run.headers[-1], place=place)
                if (header.partition, header.incarnation) != (head.partition, head.incarnation):
                    raise CorruptError("the entry belongs to another partition", place=place, kind="foreign")
                return Chain(
                    head.partition,
                    head.incarnation,
                    position=header.position,
                    leaf=leaf_hash(run.headers[-1]),
                    index=run.index + len(run.headers) - 1,
                    keys=self._keys,
                )
        return Chain.at_genesis(self.origin, head.partition, head.incarnation, keys=self._keys)


def _secrets_beside(path: Path) -> Secrets | None:
    """The payload keys of an encrypting deployment, when they are here."""
    file = path.with_name(FILE)
    return Secrets(file) if file.exists() else None


def _size(connection: apsw.Connection) -> int:
    row = connection.execute("SELECT max(size) FROM checkpoint").fetchone()
    return int(row[0] or 0) if row else 0


def _rows_of(connection: apsw.Connection, pid: int, after: int, bound: int) -> list[Any]:
    """Rows of an incarnation's appends that begin behind a position and below an index, up to a chunk's size."""
    return _chunk(connection, _ROWS, (pid, after, bound, READ_CHUNK_ROWS_MAX))


def _chunk(connection: apsw.Connection, query: str, bindings: tuple[int, ...]) -> list[Any]:
    """Rows of appends, up to a chunk's size in bytes."""
    chunk: list[Any] = []
    size_bytes = 0
    cursor = connection.execute(query, bindings)
    for found in cursor:
        chunk.append(found)
        size_bytes += len(found[-1]) if isinstance(found[-1], bytes) else 0  # who opens it names what is no body
        if size_bytes > READ_CHUNK_BYTES_MAX:
            break
    cursor.close()
    return chunk


def _find(connection: apsw.Connection, partition: str, incarnation: bytes | None) -> tuple[int, PartitionHead] | None:
    columns = "SELECT pid, name, incarnation, next - 1, leaf, first_idx, last_idx FROM part WHERE name = ?"
    row = (
        connection.execute(f"{columns} AND current = 1", (partition,))
        if incarnation is None
        else connection.execute(f"{columns} AND incarnation = ?", (partition, incarnation))
    ).fetchone()
    return None if row is None else (row[0], PartitionHead(*row[1:]))


def _holds(head: PartitionHead, position: int) -> bool:
    """Whether there is something from this position on; RefusedError when a reader can never have come so far."""
    if position < 1:
        raise RefusedError("positions start at 1", code="out_of_range")
    if position > head.position + 1:
        raise RefusedError(f"the partition ends at position {head.position}", code="out_of_range")
    return position <= head.position


def _check_end(walk: Chain, head: PartitionHead) -> None:
    """The walk ends where the partition's head stands."""
    if walk.position != head.position:
        raise CorruptError(
            f"the partition's head is at position {head.position}",
            place=walk.place(walk.position + 1),
            kind="gap",
        )
    if walk.leaf != head.leaf:
        raise CorruptError("the head's leaf is not the last entry's", place=walk.place(head.position), kind="head")
