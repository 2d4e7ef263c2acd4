"""The door, second half, and the seal: one transaction per batch, ending in a signed checkpoint.

Every append is judged against the log as it will stand when the appends before it are sealed. All state in memory
(heads, tree, keys) is changed on the side and taken over only when COMMIT succeeded; a failed COMMIT leaves it as it
was. Answers, refusals too, are given after the COMMIT: until then nothing that happened is a fact.
"""

from collections.abc import Callable, Sequence

import apsw

from journal.batch import Batch, Part
from journal.body import COLUMNS, Run, Stored
from journal.committer import Pending
from journal.database import row, rows
from journal.door import Inspected
from journal.erasure import NOTICES_PARTITION, Erased, erasures_of
from journal.keyevents import KeyEvents
from journal.pace import Pace
from journal.secrets import Secrets
from journal.tree import Tree
from polyc import note
from polyc.appending import Ack, Head
from polyc.entry import FLAG_ENCRYPTED, NO_FENCE, genesis, payload_digest
from polyc.errors import ConflictError, CorruptError, IdempotencyConflictError, PolycError, RefusedError
from polyc.keyring import KEYS_PARTITION
from polyc.limits import PARTITIONS_CACHED_MAX
from polyc.signing import Signer
from polyc.vocabulary import KEPT_PREFIXES, may_author


class Sealer:
    """Owns the writing connection; used by one thread at a time, the caller that leads."""

    def __init__(
        self,
        connection: apsw.Connection,
        *,
        origin: str,
        log_signer: Signer,
        reload_log_signer: Callable[[], Signer] | None = None,
        tree: Tree,
        keys: KeyEvents,
        latest: str,
        secrets: Secrets | None = None,
        opens: Pace,
    ) -> None:
        self.tree = tree
        self.keys = keys
        self.latest = latest
        self._connection = connection
        self._origin = origin
        self._log_signer = note.LogSigner(origin, log_signer)
        self._reload_log_signer = reload_log_signer
        self._secrets = secrets
        self._opens = opens
        self.sweep_due = False  # whether erased bytes may still stand in the write-ahead log
        self._parts: dict[str, Part | None] = {}
        self._next_pid = 1 + (connection.execute("SELECT max(pid) FROM part").get or 0)

    def seal(self, batch: Sequence[Pending]) -> list[tuple[Pending, Ack | PolycError]]:
        """Judge, write and seal every append of the batch; returns what to answer."""
        if len(self._parts) > PARTITIONS_CACHED_MAX:
            self._parts.clear()
        try:
            work, answers, latest = self._commit(batch, look_first=False)
        except apsw.ConstraintError:  # somebody repeats an append that stands, at the partition's head
            work, answers, latest = self._commit(batch, look_first=True)
        self.tree, self.keys, self.latest = work.tree, work.keys, latest
        if work.orders:
            self.sweep_due = True
            self._destroy_keys([order for order, _index in work.orders])
        if self.sweep_due:
            self._sweep()
        return [
            (pending, answer if isinstance(answer, PolycError) else answer.ack(latest)) for pending, answer in answers
        ]

    def _commit(self, batch: Sequence[Pending], *, look_first: bool) -> "tuple[Batch, _Answers, str]":
        """One transaction, and what to answer after it; nothing is changed when it fails.

        Whether an append id was used is asked beforehand only of appends that do not go on at their partition's head,
        as a repeat does not, and of what is refused. For the rest the unique index answers: a repeat at the head fails
        there, and then everything is judged again with each id looked up first.
        """
        work = Batch(self.tree, self.keys)
        answers: _Answers = []
        connection, next_pid = self._connection, self._next_pid
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._look_up(batch, work, everything=look_first)
            for pending in batch:
                answers.append((pending, self._answer(pending.inspected, work)))
            latest = self._write_seal(work) if work.leaves else self.latest
            connection.execute("COMMIT")
        except BaseException:
            self._parts.clear()
            self._next_pid = next_pid
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return work, answers, latest

    def head(self, partition: str) -> Part | None:
        """The partition's head: remembered, or read from the file."""
        if partition not in self._parts:
            found = row(
                self._connection,
                "SELECT pid, incarnation, next - 1, leaf, opener FROM part WHERE name = ? AND current = 1",
                (partition,),
            )
            self._parts[partition] = found and Part(
                found[0], partition, found[1], position=found[2], leaf=found[3], opener=found[4]
            )
        return self._parts[partition]

    def _answer(self, append: Inspected, work: Batch) -> "_Admitted | PolycError":
        """Admit an append, or say why not; what is refused may be a repeat that nobody had reason to look up."""
        try:
            try:
                return self._admit(append, work)
            except RefusedError:
                part = self.head(append.signed.partition)
                if part is None or part.pid == 0:
                    raise
                work.look_up(self._connection, [(part.pid, append.signed.append_id)])
                repeated = self._repeat(append, part, work)
                if repeated is None:
                    raise
                return repeated
        except RefusedError as error:
            return error

    def _look_up(self, batch: Sequence[Pending], work: Batch, *, everything: bool) -> None:
        """Find the repeats among the batch's appends in one question."""
        wanted = []
        for pending in batch:
            append = pending.inspected
            part = self.head(append.signed.partition)
            if part is not None and (everything or append.prev != part.leaf):
                wanted.append((part.pid, append.signed.append_id))
        work.look_up(self._connection, wanted)

    def _admit(self, append: Inspected, work: Batch) -> "_Admitted":
        """Judge one append, then write its rows; nothing is written of one that is refused.

        1. A repeat of a sealed append is answered as that one was. 2. The author's role allows it, at its index.
        3. It goes on where the partition stands, or starts its next incarnation rightly. 4. Its fence is open.
        5. Key events do not contradict the keys known so far. 6. What Control announces as erased is erased.
        """
        name = append.signed.partition
        part = self.head(name)
        # 1. repeats
        if part is not None:
            repeated = self._repeat(append, part, work)
            if repeated is not None:
                return repeated
        # 2. roles
        index, count = work.next_index, len(append.leaves)
        role = _role_of(append, work.keys, index)
        # 3. the place
        if part is None or append.incarnation != part.incarnation:
            part = self._open(append, part, role=role, keys=work.keys)
        elif append.first_position != part.position + 1 or append.prev != part.leaf:
            raise ConflictError("the partition moved on", actual=part.position)
        # 4. fences
        if append.fence != NO_FENCE:
            self._check_fence(append, part, work, role=role)
        # 5. keys
        if name == KEYS_PARTITION:
            work.keys = work.keys.grown([item.payload for item in append.signed.entries])
        # 6. erasures
        if name == NOTICES_PARTITION:
            work.orders += [(self._erasable(order), index) for order in erasures_of(append)]
        if part.pid == 0:
            part.pid, self._next_pid = self._next_pid, self._next_pid + 1
            self._parts[name] = part
        work.admit(part, append)
        return _Admitted(part, part.position - count + 1, index, count, repeated=False)

    def _erasable(self, order: Erased) -> Erased:
        """The order, when there is what it names; RefusedError when there is no such thing."""
        if order.partition.startswith(KEPT_PREFIXES):
            raise RefusedError("keys, notices, budgets and reservations cannot be erased", code="failed_precondition")
        part, incarnation = self.head(order.partition), bytes.fromhex(order.incarnation)
        position = part.position if part is not None and part.incarnation == incarnation else None
        if position is None:
            query = "SELECT next - 1 FROM part WHERE name = ? AND incarnation = ?"
            found = row(self._connection, query, (order.partition, incarnation))
            position = 0 if found is None else found[0]
        if position == 0 or (order.position is not None and not 1 <= order.position <= position):
            raise RefusedError("there is no such entry to erase", code="not_found")
        return order

    def _erase(self, order: Erased, *, before: int) -> None:
        """Write the appends below an index, the order's own, that hold what it names anew, without it."""
        query = "SELECT pid FROM part WHERE name = ? AND incarnation = ?"
        pid = row(self._connection, query, (order.partition, bytes.fromhex(order.incarnation)))[0]
        where = "pid = ? AND idx < ?"
        bindings: tuple[int, ...] = (pid, before)
        if order.position is not None:
            where, bindings = "pid = ? AND position <= ? ORDER BY position DESC LIMIT 1", (pid, order.position)
        positions = None if order.position is None else (order.position,)
        for (index,) in rows(self._connection, f"SELECT idx FROM append WHERE {where}", bindings):
            stored = Stored(*row(self._connection, f"SELECT {COLUMNS} FROM append WHERE idx = ?", (index,)))
            form, body = stored.without(positions, where=f"{order.partition}/{order.incarnation}")
            self._connection.execute("UPDATE append SET form = ?, body = ? WHERE idx = ?", (form, body, index))

    def _destroy_keys(self, erased: Sequence[Erased]) -> None:
        for event in erased:
            if self._secrets is not None and event.position is None:
                self._secrets.destroy(event.partition, bytes.fromhex(event.incarnation))

    def _sweep(self) -> None:
        """Move the WAL's content into the database and cut the WAL: no older copy of erased bytes stays in it."""
        busy, _frames, _moved = row(self._connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        self.sweep_due = bool(busy)  # a reader held it: the next commit tries again

    def _repeat(self, append: Inspected, part: Part, work: Batch) -> "_Admitted | None":
        key = (part.pid, append.signed.append_id)
        if key in work.appends:  # sealed by this very commit
            first, position, index = work.appends[key]
            stored = Stored(index, position, len(first.leaves), key[1], first.signed.signature, first.form, first.body)
        elif key in work.stored:
            columns = row(self._connection, f"SELECT {COLUMNS} FROM append WHERE idx = ?", (work.stored[key],))
            stored = Stored(*columns)
        else:
            return None
        if not self._says_the_same(append, stored.open(f"{part.name}/{part.incarnation.hex()}")):
            raise IdempotencyConflictError("the append id was used for other events")
        return _Admitted(part, stored.position, stored.index, stored.count, repeated=True)

    def _says_the_same(self, append: Inspected, run: Run) -> bool:
        """Whether the stored entries have the types, sizes and, where they were not erased, payloads of the append."""
        sizes = [len(item.payload) for item in append.signed.entries]
        if run.event_types != append.event_types or list(run.sizes) != sizes:
            return False
        return all(self._same_payload(append, run, number) for number in range(len(sizes)))

    def _same_payload(self, append: Inspected, run: Run, number: int) -> bool:
        """Whether a stored payload, when it still is, says the same; encrypted ones are compared in clear."""
        item, salt, payload = append.signed.entries[number], run.salt(number), run.payload(number)
        if salt is None or payload is None:
            return True
        if not run.flags[number] & FLAG_ENCRYPTED:
            return payload_digest(salt, item.payload) == run.digests[number]
        key = None if self._secrets is None else self._secrets.key(append.signed.partition, run.incarnations[number])
        if key is None:
            return True  # destroyed: erased
        try:
            position = int.from_bytes(item.header[24:32], "big")
            said = key.decrypt(item.payload, position=position, place="append")
        except CorruptError:
            return False  # encrypted under another incarnation's key
        return said == key.decrypt(payload, position=run.positions[number], place="stored")

    def _open(self, append: Inspected, part: Part | None, *, role: str, keys: KeyEvents) -> Part:
        """Start the partition, or its next incarnation: by the role that opened it (ruling 14), from genesis."""
        name = append.signed.partition
        if append.signed.replaces != (b"" if part is None else part.incarnation):
            raise ConflictError("the partition was started by another", actual=part.position if part else 0)
        if append.first_position != 1 or append.prev != genesis(self._origin, name, append.incarnation):
            raise ConflictError("the partition stands elsewhere", actual=part.position if part else 0)
        if part is not None:
            opener = keys.ring.get(part.opener)
            if name.startswith(KEPT_PREFIXES) or opener is None or opener.role != role:
                raise RefusedError(
                    "only the role that opened a partition may start it afresh", code="permission_denied"
                )
            used = "SELECT 1 FROM part WHERE name = ? AND incarnation = ?"
            if self._connection.execute(used, (name, append.incarnation)).fetchone():
                raise RefusedError("the incarnation was used before", code="already_exists")
        if not self._opens.take():
            raise RefusedError(
                "too many partitions are being opened", code="resource_exhausted", hint="try again in a moment"
            )
        replaced = None if part is None else part.pid
        opener_id = append.signed.key_id
        return Part(0, name, append.incarnation, position=0, leaf=append.prev, opener=opener_id, replaces=replaced)

    def _check_fence(self, append: Inspected, part: Part, work: Batch, *, role: str) -> None:
        key = (part.pid, append.fence)
        query = "SELECT 1 FROM fence WHERE pid = ? AND fence = ?"
        if key in work.fences or row(self._connection, query, key) is not None:
            raise RefusedError("the fence is closed", code="failed_precondition", hint="append it as late")
        if append.closes_fence and role != "control":
            raise RefusedError("only control closes a fence", code="permission_denied")

    def _write_seal(self, work: Batch) -> str:
        """Write the batch's rows, erase what it orders, and seal all with a checkpoint; returns its note."""
        work.write(self._connection)
        for order, index in work.orders:
            self._erase(order, before=index)
        frontier = work.tree.frontier
        latest = self._signer_at(frontier.size - 1, work.keys).checkpoint(frontier.size, frontier.root())
        self._connection.execute(
            "INSERT INTO checkpoint (size, note, nodes) VALUES (?, ?, ?)",
            (frontier.size, latest, b"".join(frontier.nodes)),
        )
        return latest

    def _signer_at(self, index: int, keys: KeyEvents) -> note.LogSigner:
        """The log's key that is valid for a checkpoint whose last entry has this index."""
        if keys.ring.role_at(self._log_signer.key_id, index) != "log" and self._reload_log_signer is not None:
            self._log_signer = note.LogSigner(self._origin, self._reload_log_signer())
        if keys.ring.role_at(self._log_signer.key_id, index) != "log":
            raise LogKeyError("the log's key is not valid at this index", hint="polyc keys rotate log")
        return self._log_signer


_Answers = list[tuple[Pending, "_Admitted | PolycError"]]


class LogKeyError(RefusedError):
    """No commit can be sealed: the log has no valid key."""

    default_code = "failed_precondition"


class _Admitted:
    """Where an admitted append stands; becomes an Ack when its checkpoint is known."""

    __slots__ = ("_count", "_head", "_index", "_position", "_repeated")

    def __init__(self, part: Part, position: int, index: int, count: int, *, repeated: bool) -> None:
        self._head = Head(part.name, part.incarnation, part.position, part.leaf)
        self._position = position
        self._index = index
        self._count = count
        self._repeated = repeated

    def ack(self, checkpoint: str) -> Ack:
        return Ack(
            first_index=self._index,
            first_position=self._position,
            last_position=self._position + self._count - 1,
            head=self._head,
            checkpoint=checkpoint,
            repeated=self._repeated,
        )


def _role_of(append: Inspected, keys: KeyEvents, index: int) -> str:
    """The author's role over the whole append; RefusedError when there is none or it may not write these types."""
    key_id = append.signed.key_id
    role = keys.ring.role_at(key_id, index)
    count = len(append.event_types)
    if role is None or (count > 1 and keys.ring.role_at(key_id, index + count - 1) != role):
        raise RefusedError("the author's key is not valid at this index", code="unauthenticated")
    for code in set(append.event_types):
        if not may_author(role, code=code, partition=append.signed.partition):
            raise RefusedError(
                f"role {role} may not write event type {code} to this partition", code="permission_denied"
            )
    return role
