"""Verifies whole incarnations: each entry (V1), and the signatures and roles of their appends (V1h, V2).

Every entry is held against the tree's leaf at its index, so that a changed header is named at its own position and
not at the next. The check goes on after a fault with the next incarnation.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import apsw

from journal.body import COLUMNS, Run, Stored
from journal.database import explain, open_reader, row, rows
from journal.findings import Fault, Level
from journal.port import PartitionHead
from journal.records import Chain, place_of
from journal.tree import TileNodes
from polyc import entry
from polyc.entry import FLAG_CLOSES_FENCE
from polyc.errors import CorruptError
from polyc.ids import PARTITION
from polyc.keyring import KeyRing
from polyc.merkle import HASH_SIZE_BYTES, TILE_HEIGHT, TILE_WIDTH
from polyc.signing import verify
from polyc.vocabulary import BY_KIND, may_author

# Level V1h verifies the own signatures of these: what turns, money, access and keys hang on.
HIGH_VALUE: Final = frozenset(
    BY_KIND[kind].code
    for kind in (
        "conversation_opened", "turn_start", "turn_complete", "dispatch_intent", "approval_requested",
        "approval_decided", "payment_required", "payment_receipt", "budget_set", "spend_reserved", "spend_released",
        "participant_joined", "participant_left", "key_added", "key_revoked", "credential", "erased",
    )
)  # fmt: skip

_ROWS: Final = f"SELECT {COLUMNS} FROM append WHERE pid = ? AND position > ? AND idx < ? ORDER BY position"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """What the store says of an incarnation, to be shown. `is_newest`: no other of its partition begins later."""

    pid: int
    head: PartitionHead
    opener: bytes
    is_current: int
    is_newest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to check: these incarnations of this file, up to this size."""

    path: str
    origin: str
    size: int
    level: Level
    root_public_key: bytes
    key_events: tuple[bytes, ...]
    incarnations: tuple[Incarnation, ...]


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What was found. `erased` are (partition, incarnation, position, index) without a payload."""

    entries: int = 0
    signatures: int = 0
    erased: list[tuple[str, bytes, int, int]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def check_incarnations(task: Task) -> Outcome:
    """Check each incarnation of the task; runs in a process of its own when there is much to do."""
    outcome = Outcome()
    connection = open_reader(Path(task.path))
    keys = KeyRing(task.root_public_key)
    try:
        for payload in task.key_events:
            keys.apply(payload, place="sys-keys")
        nodes = TileNodes(connection)
        for incarnation in task.incarnations:
            head = incarnation.head
            if not PARTITION.fullmatch(head.partition):
                place = place_of(ascii(head.partition), head.incarnation, 1)
                outcome.faults.append(Fault(kind="head", place=place, detail="not a partition's name"))
                continue
            check = _Check(connection, task, incarnation, nodes=nodes, keys=keys, outcome=outcome)
            try:
                check.run()
            except CorruptError as fault:
                outcome.faults.append(Fault(kind=fault.kind, place=fault.place, detail=fault.message))
            except apsw.Error as error:
                place = place_of(head.partition, head.incarnation, check.chain.position + 1)
                detail = explain(error, place=place).message
                outcome.faults.append(Fault(kind="database", place=place, detail=detail))
    finally:
        connection.close()
    return outcome


class _Check:
    """One incarnation's check."""

    def __init__(
        self,
        connection: apsw.Connection,
        task: Task,
        incarnation: Incarnation,
        *,
        nodes: TileNodes,
        keys: KeyRing,
        outcome: Outcome,
    ) -> None:
        self.chain = Chain.at_genesis(task.origin, incarnation.head.partition, incarnation.head.incarnation)
        self._connection = connection
        self._task = task
        self._incarnation = incarnation
        self._nodes = nodes
        self._keys = keys
        self._outcome = outcome
        self._closed: set[bytes] = set()
        self._first: tuple[int, bytes] | None = None
        self._preimage = entry.append_preimage(task.origin, b"")

    def run(self) -> None:
        """Check the incarnation; CorruptError at the first lie.

        1. Every entry chains and commits to its payload. 2. It is the tree's leaf. 3. What the file says of the
        incarnation beside its entries is so. 4. Above V1: every append is signed, by a role that may write it.
        """
        chain, outcome = self.chain, self._outcome
        above_v1 = self._task.level != "V1"
        for columns in self._connection.execute(_ROWS, (self._incarnation.pid, 0, self._task.size)):
            stored = Stored(*columns)
            # 1.
            run, leaves = self._walked(stored)
            # 2.
            self._check_leaves(run.index, leaves)
            outcome.entries += stored.count
            if None in run.salted:
                outcome.erased += [
                    (chain.partition, chain.incarnation, run.positions[number], run.index + number)
                    for number, salted in enumerate(run.salted)
                    if salted is None
                ]
            if run.flags[-1] & FLAG_CLOSES_FENCE:
                self._closed.add(run.fences[-1])
            if self._first is None:
                self._first = (run.index, run.key_ids[0])
            # 4.
            if above_v1:
                self._check_append(stored, run, leaves[-1])
        # 3.
        self._check_head()

    def _check_head(self) -> None:
        """The row beside the entries: where they end and begin, who opened, which is current, what is closed."""
        incarnation, chain, head = self._incarnation, self.chain, self._incarnation.head
        if chain.position > head.position:
            raise CorruptError(
                f"entries after the head at {head.position}", place=chain.place(chain.position), kind="head"
            )
        if (chain.position, chain.leaf) != (head.position, head.leaf):
            raise CorruptError(
                f"the head is at position {head.position}, the last entry at {chain.position}",
                place=chain.place(chain.position + 1),
                kind="gap" if chain.position < head.position else "head",
            )
        if self._first != (head.first_index, incarnation.opener) or chain.index != head.last_index:
            detail = "the file says that it begins or ends elsewhere, or was opened by another"
            raise CorruptError(detail, place=chain.place(1), kind="head")
        if incarnation.is_current != incarnation.is_newest:
            raise CorruptError(
                "the newest incarnation is the current one, and no other", place=chain.place(1), kind="head"
            )
        query = "SELECT fence FROM fence WHERE pid = ?"
        if {fence for (fence,) in rows(self._connection, query, (incarnation.pid,))} != self._closed:
            raise CorruptError("other fences are closed than its entries close", place=chain.place(1), kind="fence")

    def _walked(self, stored: Stored) -> tuple[Run, list[bytes]]:
        """The append and its leaves; what is wrong with it is named where it was changed."""
        chain = self.chain
        run = stored.open(chain.where)
        try:
            return run, chain.walk(run)
        except CorruptError as fault:
            if fault.kind == "chain":
                self._check_leaves(run.index, [entry.leaf_hash(header) for header in run.headers])
                self._blame_before(stored, run)
            raise

    def _check_leaves(self, index: int, leaves: list[bytes]) -> None:
        """Each of the leaves, from an index on, is the tree's; those in one tile are compared at once."""
        start, count = 0, len(leaves)
        while start < count:
            first = index + start
            end = min(count, (first | (TILE_WIDTH - 1)) + 1 - index)
            tile = self._nodes.tile(0, first >> TILE_HEIGHT)
            at = (first & (TILE_WIDTH - 1)) * HASH_SIZE_BYTES
            stored = tile[at : at + (end - start) * HASH_SIZE_BYTES]
            if len(stored) < (end - start) * HASH_SIZE_BYTES:  # made of entries: one before these is missing
                missing = (first & ~(TILE_WIDTH - 1)) + len(tile) // HASH_SIZE_BYTES
                raise CorruptError("entry is missing", place=f"index {missing}", kind="gap")
            if stored != b"".join(leaves[start:end]):
                wrong = next(
                    i
                    for i in range(end - start)
                    if stored[i * HASH_SIZE_BYTES : (i + 1) * HASH_SIZE_BYTES] != leaves[start + i]
                )
                raise CorruptError(
                    "the entry is not the tree's leaf at its index",
                    place=self.chain.place(self._position_of(index + start + wrong)),
                    kind="leaf",
                )
            start = end

    def _position_of(self, index: int) -> int:
        """The position at which the store has this index."""
        query = "SELECT position - idx FROM append WHERE idx <= ? ORDER BY idx DESC LIMIT 1"
        return index + int(row(self._connection, query, (index,))[0])

    def _blame_before(self, stored: Stored, run: Run) -> None:
        """A broken chain has two ends: when its later end is truly signed, the entry before it was changed."""
        position = self.chain.position
        headers = run.headers[position + 1 - run.positions[0] :]
        if any(after[80:112] != entry.leaf_hash(before) for before, after in pairwise(headers)):
            return
        key = self._keys.get(run.key_ids[-1])
        preimage = self._preimage + entry.leaf_hash(headers[-1])
        if position and key is not None and verify(key.public_key, stored.signature, preimage):
            place = self.chain.place(position)
            raise CorruptError("the entry is not what its successor's author saw", place=place, kind="chain")

    def _check_append(self, stored: Stored, run: Run, last_leaf: bytes) -> None:
        codes = set(run.event_types)
        if self._task.level == "V1h" and not codes & HIGH_VALUE:
            return
        place, key_id = f"{self.chain.where}@{stored.position}", run.key_ids[0]
        if run.key_ids.count(key_id) != stored.count:
            raise CorruptError("an append has one author", place=place, kind="append")
        key, role = self._keys.get(key_id), self._keys.role_at(key_id, run.index)
        if key is None or role is None or self._keys.role_at(key_id, run.index + stored.count - 1) != role:
            raise CorruptError("the author's key held no role at this index", place=place, kind="key")
        if not all(may_author(role, code=code, partition=self.chain.partition) for code in codes):
            raise CorruptError(f"role {role} may not write this", place=place, kind="role")
        self._outcome.signatures += 1
        if not verify(key.public_key, stored.signature, self._preimage + last_leaf):
            place = self.chain.place(run.positions[-1])
            raise CorruptError("the author did not sign this append", place=place, kind="signature")
