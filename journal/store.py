"""The embedded store: a JournalPort and a JournalReader over one SQLite file.

Opening to write takes the lock, looks at the WAL before SQLite does, verifies the log's own tail and its keys, and
refuses to go on when one of them lies. An acknowledged append is durable and under a signed checkpoint.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import apsw

from journal import cosigning, opening
from journal.body import Stored
from journal.committer import Committer, Pending
from journal.database import explain, explained, open_writer
from journal.door import Inspected, inspect
from journal.erasure import announced
from journal.keyevents import KeyEvents
from journal.lock import WriterLock
from journal.pace import Pace
from journal.port import Opened, PartitionHead, RawEntry, SignedRecords
from journal.reading import SqliteReader
from journal.sealing import Sealer
from journal.secrets import FILE, Secrets
from polyc.appending import Ack, Head, SignedAppend
from polyc.clock import Clock
from polyc.entry import Record
from polyc.errors import PolycError, RefusedError, UnavailableError
from polyc.ids import IdSource, check_partition
from polyc.keyring import KeyRing
from polyc.limits import APPEND_QUEUE_MAX, PARTITIONS_OPENED_BURST, PARTITIONS_OPENED_PER_S
from polyc.payloads import ENCRYPTED_PREFIX, PayloadKey
from polyc.signing import Signer


class SqliteJournal:
    """The journal's only writer; reads through its own read-only connections."""

    def __init__(
        self, path: Path, *, origin: str, clock: Clock, lock: WriterLock | None, connection: apsw.Connection
    ) -> None:
        """Not to be called: use `open`."""
        self.path = path
        self.origin = origin
        self.torn_bytes = 0  # what opening cut: a commit that never ended, acknowledged to nobody
        self._clock = clock
        self._lock = lock
        self._connection = connection
        self._secrets: Secrets | None = None
        self._failure: UnavailableError | None = None
        self._grew = threading.Condition()
        self._size = self._opened_size = 0
        self._reader: SqliteReader
        self._sealer: Sealer
        self._committer: Committer

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        origin: str,
        root_public_key: bytes,
        log_signer: Signer,
        reload_log_signer: Callable[[], Signer] | None = None,
        clock: Clock,
        ids: IdSource,
        lock: bool = True,
        socket: str = "",
        encrypts: bool = False,
        queue_max: int = APPEND_QUEUE_MAX,
        opens_per_s: float = PARTITIONS_OPENED_PER_S,
        vfs: str | None = None,
        synchronous: str = "FULL",
    ) -> Self:
        """Open the journal to write; creates it when missing.

        `vfs` and `synchronous` are for the power-loss simulator: it shows that FULL keeps what NORMAL loses.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = WriterLock(path.with_name("journal.lock"), socket=socket) if lock else None
        connection = journal = None
        try:
            torn_bytes = opening.check_wal(path).torn_bytes
            connection = open_writer(path, origin=origin, vfs=vfs, synchronous=synchronous)
            journal = cls(path, origin=origin, clock=clock, lock=held, connection=connection)
            journal.torn_bytes = torn_bytes
            if encrypts:
                journal._secrets = Secrets(path.with_name(FILE), ids=ids)
            opens = Pace(clock, per_s=opens_per_s, burst=PARTITIONS_OPENED_BURST)
            journal._start(root_public_key, log_signer, reload_log_signer, queue_max=queue_max, opens=opens, vfs=vfs)
        except BaseException:
            if connection is not None:
                connection.close(True)
            if held is not None:
                held.release()
            raise
        return journal

    @staticmethod
    def open_read_only(path: Path, *, origin: str, root_public_key: bytes, log_public_key: bytes) -> SqliteReader:
        """A reader in its own right; refuses a journal whose latest checkpoint the log's keys did not sign."""
        reader = SqliteReader(path, origin=origin, root_public_key=root_public_key)
        try:
            opening.check_latest(reader, log_public_key=log_public_key)
        except BaseException:
            reader.close()
            raise
        return reader

    def _start(
        self,
        root_public_key: bytes,
        log_signer: Signer,
        reload_log_signer: Callable[[], Signer] | None,
        *,
        queue_max: int,
        opens: Pace,
        vfs: str | None,
    ) -> None:
        self._reader = SqliteReader(
            self.path,
            origin=self.origin,
            root_public_key=root_public_key,
            wait=self._await_growth,
            secrets=self._secrets,
            vfs=vfs,
        )
        try:
            keys = KeyEvents.load(self._reader, root_public_key=root_public_key)
            with explained(place=str(self.path)):
                tail = opening.verify_tail(
                    self._connection, origin=self.origin, keys=keys.ring, log_key=log_signer.public_key
                )
                self._sealer = Sealer(
                    self._connection,
                    origin=self.origin,
                    log_signer=log_signer,
                    reload_log_signer=reload_log_signer,
                    tree=tail.tree,
                    keys=keys,
                    latest=tail.note,
                    secrets=self._secrets,
                    opens=opens,
                )
            self._complete_erasures(keys.ring)
        except BaseException:
            self._reader.close()
            raise
        self._size = self._opened_size = tail.tree.frontier.size
        self._committer = Committer(self._inspect, self._seal, queue_max=queue_max, failed=self._explain)

    # -- the port

    def head(self, partition: str) -> Head | None:
        """The partition's sealed head."""
        found = self._reader.partition_head(partition)
        return None if found is None else Head(partition, found.incarnation, found.position, found.leaf)

    def append(self, signed: SignedAppend) -> Ack:
        """Make one append durable and sealed."""
        return self.append_many((signed,))[0]

    def append_many(self, appends: Sequence[SignedAppend]) -> list[Ack]:
        """Make several appends durable in one go, in this order; raises the first error among them."""
        return [pending.result() for pending in self.submit(appends)]

    def submit(self, appends: Sequence[SignedAppend]) -> list[Pending]:
        """Queue the appends; each `result()` waits for its own answer."""
        if self._failure is not None:
            raise self._failure
        return self._committer.submit(appends)

    def _inspect(self, signed: SignedAppend) -> Inspected:
        key = self._sealer.keys.ring.get(signed.key_id)
        encrypts = self._secrets is not None and signed.partition.startswith(ENCRYPTED_PREFIX)
        return inspect(
            signed,
            origin=self.origin,
            public_key=None if key is None else key.public_key,
            now_us=self._clock.now_us(),
            encrypted=encrypts,
        )

    def payload_key(self, partition: str, incarnation: bytes) -> PayloadKey | None:
        """The key that authors encrypt an incarnation's payloads with, when this deployment encrypts."""
        if self._secrets is None or not partition.startswith(ENCRYPTED_PREFIX):
            return None
        return self._secrets.make(check_partition(partition), incarnation)

    def reading_key(self, partition: str, incarnation: bytes) -> PayloadKey | None:
        """The key to read with; None when it was destroyed."""
        if self._secrets is None:
            raise RefusedError("payloads are not encrypted here", code="failed_precondition")
        return self._secrets.key(partition, incarnation)

    def add_cosignatures(self, size: int, lines: Sequence[str]) -> None:
        """Keep what witnesses signed of a checkpoint; RefusedError when there is no such checkpoint."""
        self._exclusively(lambda connection: cosigning.store(connection, size, lines))

    def _exclusively(self, work: Callable[[apsw.Connection], None]) -> None:
        """Do something with the writing connection, between two commits."""
        if self._failure is not None:
            raise self._failure

        with self._committer.alone(), explained(place=str(self.path)):
            work(self._connection)

    # -- the reader

    def size(self) -> int:
        """The size of the latest checkpoint."""
        return self._size

    def opened(self) -> Opened:
        """What this writer found when it opened the file."""
        return Opened(self._opened_size, self.torn_bytes)

    def checkpoint(self) -> str:
        """The latest checkpoint."""
        return self._reader.checkpoint()

    def partitions(self) -> list[PartitionHead]:
        """The current incarnation of every partition."""
        return self._reader.partitions()

    def incarnations(self) -> list[PartitionHead]:
        """Every incarnation of every partition, in the order of the log."""
        return self._reader.incarnations()

    def partition_head(self, partition: str, *, incarnation: bytes | None = None) -> PartitionHead | None:
        """Where an incarnation (the current one) stands."""
        return self._reader.partition_head(partition, incarnation=incarnation)

    def changed_since(self, index: int) -> list[PartitionHead]:
        """The partitions that got entries at `index` or later."""
        return self._reader.changed_since(index)

    def read(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[Record]:
        """One incarnation in order, verified."""
        return self._reader.read(
            partition, from_position=from_position, incarnation=incarnation, through_index=through_index
        )

    def opening(self, head: PartitionHead) -> tuple[int, bytes | None]:
        """When the first entry was recorded, and its payload; not verified."""
        return self._reader.opening(head)

    def read_batches(
        self,
        partition: str,
        *,
        from_position: int = 1,
        incarnation: bytes | None = None,
        through_index: int | None = None,
    ) -> Iterator[list[Record]]:
        """The same in lists, each verified before it is handed out."""
        return self._reader.read_batches(
            partition, from_position=from_position, incarnation=incarnation, through_index=through_index
        )

    def read_all(self, *, from_index: int, to_index: int | None = None) -> Iterator[Record]:
        """The log in its order, verified."""
        return self._reader.read_all(from_index=from_index, to_index=to_index)

    def read_all_raw(self, *, from_index: int, to_index: int | None = None) -> Iterator[RawEntry]:
        """The log in its order as stored, verified."""
        return self._reader.read_all_raw(from_index=from_index, to_index=to_index)

    def read_raw(
        self,
        partition: str,
        *,
        incarnation: bytes | None = None,
        from_position: int = 1,
        through_index: int | None = None,
    ) -> Iterator[RawEntry]:
        """One incarnation as stored, verified."""
        return self._reader.read_raw(
            partition,
            incarnation=incarnation,
            from_position=from_position,
            through_index=through_index,
        )

    def read_signed(self, partition: str, *, from_position: int = 1) -> Iterator[SignedRecords]:
        """The current incarnation append by append, each with its author's signature, which is not verified."""
        return self._reader.read_signed(partition, from_position=from_position)

    def read_stored(
        self, partition: str, *, from_position: int = 1, incarnation: bytes | None = None, through_index: int
    ) -> Iterator[Stored]:
        """Whole appends as they are stored, not verified."""
        return self._reader.read_stored(
            partition, from_position=from_position, incarnation=incarnation, through_index=through_index
        )

    def read_all_stored(self, *, from_index: int, to_index: int | None = None) -> Iterator[Stored]:
        """The same for the log in its order."""
        return self._reader.read_all_stored(from_index=from_index, to_index=to_index)

    def receipt(self, partition: str, position: int, *, incarnation: bytes | None = None) -> str:
        """The receipt of one entry."""
        return self._reader.receipt(partition, position, incarnation=incarnation)

    def consistency_proof(self, old_size: int, new_size: int) -> list[bytes]:
        """The proof that the log at `new_size` starts with the log at `old_size`."""
        return self._reader.consistency_proof(old_size, new_size)

    def wait_beyond(self, size: int, timeout_s: float) -> int:
        """Block until more than `size` entries are sealed or the time is over."""
        return self._reader.wait_beyond(size, timeout_s)

    def keyring(self) -> KeyRing:
        """The keys the log names so far."""
        return self._sealer.keys.ring

    # -- its lifetime

    def close(self) -> None:
        """Seal what was queued, checkpoint the WAL, give the lock up."""
        self._committer.close()
        self._reader.close()
        self._connection.close()
        if self._secrets is not None:
            self._secrets.close()
        if self._lock is not None:
            self._lock.release()
        with self._grew:
            self._grew.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    # -- the leader's side

    def _seal(self, batch: Sequence[Pending]) -> None:
        if self._failure is not None:
            for pending in batch:
                pending.resolve(self._failure)
            return
        answers = self._sealer.seal(batch)
        size = self._sealer.tree.frontier.size
        if size != self._size:
            with self._grew:
                self._size = size
                self._grew.notify_all()
        self._committer.answer(answers)

    def _complete_erasures(self, keys: KeyRing) -> None:
        """What a crash may have cut short behind an `erased` event: the key of a conversation, the cut of the WAL."""
        orders = announced(self._reader, keys)
        self._sealer.sweep_due = bool(orders)
        for partition, incarnation, position in orders:
            if self._secrets is not None and position is None:
                self._secrets.destroy(partition, incarnation)

    def _explain(self, error: BaseException) -> PolycError:
        """What callers of a failed commit hear. After a failed write or fsync nothing more is appended here.

        The state of the disk is then unknown (an fsync that failed once may succeed without having written);
        only opening anew, which verifies, may go on. A full disk is known to have written nothing.
        """
        if isinstance(error, PolycError):
            return error
        if isinstance(error, apsw.FullError | apsw.BusyError):
            return explain(error, place=str(self.path))
        if isinstance(error, apsw.Error):
            self._failure = UnavailableError(
                f"the journal stopped after a storage fault ({type(error).__name__})",
                hint="restart it: it verifies its tail before it goes on",
            )
            return self._failure
        self._failure = UnavailableError("the journal stopped after a fault of its own", code="internal")
        return self._failure

    def _await_growth(self, size: int, timeout_s: float) -> None:
        with self._grew:
            self._grew.wait_for(lambda: self._size > size, timeout_s)
