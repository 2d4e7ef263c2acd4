"""Reading the SQLite store: what every reader of the embedded journal shares (see journal/port.py for the laws).

Rows come in chunks, each in a read transaction of its own: a slow reader holds no lock and no WAL. Entries only ever
get appended, and the newest checkpoint is read first, so chunks of one walk fit together.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Self

import apsw

from journal.database import Readers, check_format
from journal.keyevents import load_keyring
from journal.port import PartitionHead, RawEntry
from journal.receipt import make_receipt
from journal.records import Chain, Keys, Row, place_of
from journal.secrets import FILE, Secrets
from journal.tree import TileNodes
from polyc import merkle
from polyc.entry import FLAG_LAST, Record, decode_header, leaf_hash
from polyc.errors import CorruptError, RefusedError
from polyc.keyring import KeyRing
from polyc.limits import PARTITIONS_CACHED_MAX, READ_CHUNK_BYTES_MAX, READ_CHUNK_ROWS_MAX

POLL_S: Final = 0.05  # a reader in another process looks this often; in the writer's process it is told

_CURRENT: Final = "SELECT name, incarnation, next - 1, leaf, first_idx, last_idx FROM part WHERE current = 1"
_ROWS: Final = (
    "SELECT position, idx, header, salt, payload FROM entry"
    " WHERE pid = ? AND position > ? AND idx < ? ORDER BY position LIMIT ?"
)
_ALL: Final = (
    "SELECT p.pid, p.name, p.incarnation, e.position, e.idx, e.header, e.salt, e.payload"
    " FROM entry e JOIN part p USING (pid) WHERE e.idx >= ? AND e.idx < ? ORDER BY e.idx LIMIT ?"
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
        query = f"{_CURRENT} AND last_idx >= ? ORDER BY name"
        with self._connections.borrow() as connection:
            return [PartitionHead(*row) for row in connection.execute(query, (index,))]

    def partition_head(self, partition: str, *, incarnation: bytes | None = None) -> PartitionHead | None:
        """Where an incarnation (the current one) stands, or None when there is none."""
        with self._connections.borrow() as connection:
            found = _find(connection, partition, incarnation)
        return None if found is None else found[1]

    def read(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[Record]:
        """One incarnation in order, verified while reading."""
        with self._connections.borrow() as connection:
            found = _find(connection, partition, incarnation)
            if found is None:
                return
            pid, head = found
            chain = self._chain(connection, pid, head, from_position=from_position)
        bound = head.last_index + 1 if through_index is None else min(through_index, head.last_index) + 1
        while rows := self._rows(pid, chain.position, bound):
            yield from chain.records(rows)
        if bound == head.last_index + 1 and from_position <= head.position:
            _check_end(chain, head)

    def read_all(self, *, from_index: int, to_index: int | None = None) -> Iterator[Record]:
        """The log in its order; each partition's chain is checked against its last entry seen here or before."""
        for chain, rows in self._walk_log(from_index, to_index):
            yield from chain.records(rows)

    def read_all_raw(self, *, from_index: int, to_index: int | None = None) -> Iterator[RawEntry]:
        """The log in its order as stored, verified like `read_all`; without signatures."""
        for chain, rows in self._walk_log(from_index, to_index):
            chain.walk(rows)
            _position, index, header, salt, payload = rows[0]
            yield RawEntry(index, header, salt, payload)

    def read_raw(
        self,
        partition: str,
        *,
        incarnation: bytes | None = None,
        from_position: int = 1,
        through_index: int | None = None,
        signatures: bool = True,
    ) -> Iterator[RawEntry]:
        """One incarnation as stored, verified, with the signature at the last entry of each append."""
        with self._connections.borrow() as connection:
            found = _find(connection, partition, incarnation)
            if found is None:
                return
            pid, head = found
            chain = self._chain(connection, pid, head, from_position=from_position)
        bound = head.last_index + 1 if through_index is None else min(through_index, head.last_index) + 1
        while rows := self._rows(pid, chain.position, bound):
            chain.walk(rows)
            known = self._signatures(pid, rows) if signatures else {}
            for position, index, header, salt, payload in rows:
                last = signatures and header[5] & FLAG_LAST
                signature = known.get(position, b"") if last else b""
                if last and not signature:
                    raise CorruptError("append has no signature", place=chain.place(position), kind="signature_missing")
                yield RawEntry(index, header, salt, payload, signature)

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

    def signature_at(self, index: int) -> bytes:
        """The author's signature of the append that ends at this global index."""
        query = "SELECT sig FROM append a JOIN entry e ON a.pid = e.pid AND a.append_id = substr(e.header, 57, 16)"
        with self._connections.borrow() as connection:
            found = connection.execute(f"{query} WHERE e.idx = ?", (index,)).fetchone()
        if found is None:
            raise CorruptError("append has no signature", place=f"index {index}", kind="signature_missing")
        return bytes(found[0])

    def receipt(self, partition: str, position: int, *, incarnation: bytes | None = None) -> str:
        """The receipt of one entry, under the newest cosigned checkpoint that covers it, else the latest."""
        with self._connections.borrow() as connection:
            found = _find(connection, partition, incarnation)
            if found is None or not 1 <= position <= found[1].position:
                raise RefusedError("no such entry", code="not_found")
            return make_receipt(connection, pid=found[0], position=position, place=str(self.path))

    def consistency_proof(self, old_size: int, new_size: int) -> list[bytes]:
        """The proof that the log at `new_size` starts with the log at `old_size`."""
        with self._connections.borrow() as connection:
            if not 0 <= old_size <= new_size <= _size(connection):
                raise RefusedError("the log has no such sizes", code="out_of_range")
            return merkle.consistency_proof(old_size, new_size, TileNodes(connection, place=str(self.path)))

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

    def _walk_log(self, from_index: int, to_index: int | None) -> Iterator[tuple[Chain, tuple[Row]]]:
        """Each entry of the range with the chain it must fit."""
        size = self.size()
        bound = size if to_index is None else min(to_index, size)
        chains: dict[int, Chain] = {}
        at = from_index
        while at < bound:
            if len(chains) > PARTITIONS_CACHED_MAX:
                chains.clear()
            with self._connections.borrow() as connection:
                rows = _bounded(connection.execute(_ALL, (at, bound, READ_CHUNK_ROWS_MAX)), payload_at=7)
                for row in rows:
                    if row[0] not in chains:
                        head = PartitionHead(row[1], row[2], row[3], b"", 0, 0)
                        chains[row[0]] = self._chain(connection, row[0], head, from_position=row[3])
            if not rows:
                raise CorruptError("entry is missing", place=f"index {at}", kind="gap")
            for row in rows:
                if row[4] != at:
                    raise CorruptError("entry is missing", place=f"index {at}", kind="gap")
                yield chains[row[0]], (row[3:],)
                at += 1

    def _rows(self, pid: int, after_position: int, bound: int) -> list[Row]:
        with self._connections.borrow() as connection:
            cursor = connection.execute(_ROWS, (pid, after_position, bound, READ_CHUNK_ROWS_MAX))
            return _bounded(cursor, payload_at=4)

    def _signatures(self, pid: int, rows: list[Row]) -> dict[int, bytes]:
        ids = {header[56:72] for _position, _index, header, _salt, _payload in rows if header[5] & FLAG_LAST}
        query = "SELECT position + n - 1, sig FROM append WHERE pid = ? AND append_id = ?"
        with self._connections.borrow() as connection:
            return dict(row for append_id in ids for row in connection.execute(query, (pid, append_id)))

    def _chain(self, connection: apsw.Connection, pid: int, head: PartitionHead, *, from_position: int) -> Chain:
        if from_position < 1:
            raise RefusedError("positions start at 1", code="out_of_range")
        if from_position == 1:
            return Chain.at_genesis(self.origin, head.partition, head.incarnation, keys=self._keys)
        query = "SELECT header, idx FROM entry WHERE pid = ? AND position = ?"
        row = connection.execute(query, (pid, from_position - 1)).fetchone()
        place = place_of(head.partition, head.incarnation, from_position - 1)
        if row is None and from_position > head.position + 1:
            raise RefusedError(f"the partition ends at position {head.position}", code="out_of_range")
        if row is None:
            raise CorruptError("entry is missing", place=place, kind="gap")
        header = decode_header(row[0], place=place)
        if (header.partition, header.incarnation) != (head.partition, head.incarnation):
            raise CorruptError("the entry belongs to another partition", place=place, kind="foreign")
        return Chain(
            head.partition,
            head.incarnation,
            position=from_position - 1,
            leaf=leaf_hash(row[0]),
            index=row[1],
            keys=self._keys,
        )


def _secrets_beside(path: Path) -> Secrets | None:
    """The payload keys of an encrypting deployment, when they are here."""
    file = path.with_name(FILE)
    return Secrets(file) if file.exists() else None


def _size(connection: apsw.Connection) -> int:
    row = connection.execute("SELECT max(size) FROM checkpoint").fetchone()
    return int(row[0] or 0) if row else 0


def _find(connection: apsw.Connection, partition: str, incarnation: bytes | None) -> tuple[int, PartitionHead] | None:
    columns = "SELECT pid, name, incarnation, next - 1, leaf, first_idx, last_idx FROM part WHERE name = ?"
    row = (
        connection.execute(f"{columns} AND current = 1", (partition,))
        if incarnation is None
        else connection.execute(f"{columns} AND incarnation = ?", (partition, incarnation))
    ).fetchone()
    return None if row is None else (row[0], PartitionHead(*row[1:]))


def _bounded(cursor: apsw.Cursor, *, payload_at: int) -> list[Any]:
    """The cursor's rows up to the chunk's size in bytes."""
    rows: list[Any] = []
    size_bytes = 0
    for row in cursor:
        rows.append(row)
        payload: Any = row[payload_at]
        if payload is not None:
            size_bytes += len(payload)
            if size_bytes > READ_CHUNK_BYTES_MAX:
                break
    cursor.close()
    return rows


def _check_end(chain: Chain, head: PartitionHead) -> None:
    """The walk ends where the partition's head stands."""
    if chain.position != head.position:
        raise CorruptError(
            f"the partition's head is at position {head.position}",
            place=chain.place(chain.position + 1),
            kind="gap",
        )
    if chain.leaf != head.leaf:
        raise CorruptError("the head's leaf is not the last entry's", place=chain.place(head.position), kind="head")
