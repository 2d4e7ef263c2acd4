"""Verifies whole incarnations: each entry (V1), and the signatures and roles of their appends (V1h, V2).

Every entry is held against the tree's leaf at its index, so that a changed header is named at its own position and
not at the next. The check goes on after a fault with the next incarnation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import apsw

from journal.database import explain, open_reader, rows
from journal.findings import Fault, Level
from journal.records import Chain, Row, place_of
from journal.tree import TileNodes
from polyc import entry
from polyc.entry import FLAG_LAST
from polyc.errors import CorruptError
from polyc.keyring import KeyRing
from polyc.limits import EVENTS_PER_APPEND_MAX, READ_CHUNK_ROWS_MAX
from polyc.merkle import HASH_SIZE_BYTES, TILE_HEIGHT, TILE_WIDTH
from polyc.signing import verify
from polyc.vocabulary import BY_KIND, may_author

# Level V1h verifies the own signatures of these: what turns, money, access and keys hang on.
HIGH_VALUE: Final = frozenset(
    BY_KIND[kind].code
    for kind in (
        "conversation_opened", "turn_start", "turn_complete", "dispatch_intent", "approval_requested",
        "approval_decided", "payment_receipt", "participant_joined", "participant_left", "key_added", "key_revoked",
        "credential", "erased",
    )
)  # fmt: skip

_ROWS: Final = (
    "SELECT position, idx, header, salt, payload FROM entry WHERE pid = ? AND position > ? AND idx < ?"
    " ORDER BY position LIMIT ?"
)


_APPENDS: Final = (
    "SELECT append_id, position, idx, n, sig FROM carray(?1) CROSS JOIN append WHERE pid = ?2 AND append_id = value"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """What the store says of an incarnation, to be shown."""

    pid: int
    partition: str
    incarnation: bytes
    position: int
    leaf: bytes
    last_index: int


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
    """What was found. `erased` are (partition, incarnation, position) without a payload."""

    entries: int = 0
    signatures: int = 0
    erased: list[tuple[str, bytes, int]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def check_incarnations(task: Task) -> Outcome:
    """Check each incarnation of the task; runs in a process of its own when there is much to do."""
    outcome = Outcome()
    connection = open_reader(Path(task.path))
    keys = KeyRing(task.root_public_key)
    try:
        for payload in task.key_events:
            keys.apply(payload, place="sys-keys")
        nodes = TileNodes(connection, place="tree")
        for incarnation in task.incarnations:
            check = _Check(connection, task, incarnation, nodes=nodes, keys=keys, outcome=outcome)
            try:
                check.run()
            except CorruptError as fault:
                outcome.faults.append(Fault(kind=fault.kind, place=fault.place, detail=fault.message))
            except apsw.Error as error:
                place = place_of(incarnation.partition, incarnation.incarnation, check.chain.position + 1)
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
        self.chain = Chain.at_genesis(task.origin, incarnation.partition, incarnation.incarnation)
        self._connection = connection
        self._task = task
        self._incarnation = incarnation
        self._nodes = nodes
        self._keys = keys
        self._outcome = outcome
        self._appends: dict[Any, tuple[Any, ...]] = {}  # of the chunk: position, index, count, signature
        self._open_append: list[tuple[int, int, bytes]] = []  # (position, index, header) since the last end

    def run(self) -> None:
        """Check the incarnation; CorruptError at the first lie.

        1. Every entry chains and commits to its payload. 2. It is the tree's leaf. 3. The head is the last one.
        4. Above V1: every append is whole, signed, and by a role that may write it.
        """
        incarnation, chain, outcome = self._incarnation, self.chain, self._outcome
        place = f"{incarnation.partition}/{incarnation.incarnation.hex()}"
        while True:
            bindings = (incarnation.pid, chain.position, self._task.size, READ_CHUNK_ROWS_MAX)
            chunk = rows(self._connection, _ROWS, bindings)
            if not chunk:
                break
            # 1.
            try:
                leaves = chain.walk(chunk)
            except CorruptError as fault:
                if fault.kind == "chain":
                    self._check_leaves(chunk, None)
                    self._blame_before(chain.position)
                raise
            # 2.
            self._check_leaves(chunk, leaves)
            outcome.entries += len(chunk)
            for position, _index, _header, _salt, payload in chunk:
                if payload is None:
                    outcome.erased.append((incarnation.partition, incarnation.incarnation, position))
            # 4.
            if self._task.level != "V1":
                self._check_appends(chunk)
        # 3.
        if chain.position > incarnation.position:
            raise CorruptError(
                f"entries after the head at {incarnation.position}", place=f"{place}@{chain.position}", kind="head"
            )
        if incarnation.last_index < self._task.size and (chain.position, chain.leaf) != (
            incarnation.position,
            incarnation.leaf,
        ):
            raise CorruptError(
                f"the head is at position {incarnation.position}, the last entry at {chain.position}",
                place=f"{place}@{chain.position + 1}",
                kind="gap" if chain.position < incarnation.position else "head",
            )

    def _check_leaves(self, chunk: Sequence[Row], leaves: list[bytes] | None) -> None:
        """Each entry's leaf is the tree's at its index. `leaves` are the known hashes, or None to hash again.

        Entries that follow each other in the log are compared at once, tile by tile.
        """
        known = [entry.leaf_hash(row[2]) for row in chunk] if leaves is None else leaves
        start, count = 0, len(chunk)
        while start < count:
            index = first = chunk[start][1]
            tile_end = (first | (TILE_WIDTH - 1)) + 1
            end = start + 1
            while end < count and chunk[end][1] == index + 1 < tile_end:
                index += 1
                end += 1
            tile = self._nodes.tile(0, first >> TILE_HEIGHT)
            at = (first & (TILE_WIDTH - 1)) * HASH_SIZE_BYTES
            stored = tile[at : at + (end - start) * HASH_SIZE_BYTES]
            if stored != b"".join(known[start:end]):
                wrong = next(
                    i
                    for i in range(end - start)
                    if stored[i * HASH_SIZE_BYTES : (i + 1) * HASH_SIZE_BYTES] != known[start + i]
                )
                raise CorruptError(
                    "the entry is not the tree's leaf at its index",
                    place=self.chain.place(chunk[start + wrong][0]),
                    kind="leaf",
                )
            start = end

    def _blame_before(self, position: int) -> None:
        """A broken chain has two ends: when its later end is truly signed, the entry at `position` was changed."""
        query = "SELECT header FROM entry WHERE pid = ? AND position > ? ORDER BY position LIMIT ?"
        headers: list[bytes] = []
        for (header,) in rows(self._connection, query, (self._incarnation.pid, position, EVENTS_PER_APPEND_MAX)):
            if headers and header[80:112] != entry.leaf_hash(headers[-1]):
                return
            headers.append(header)
            if header[5] & FLAG_LAST:
                break
        found = self._append_row(headers[0][56:72])
        key = self._keys.get(headers[0][72:80])
        preimage = entry.append_preimage(self._task.origin, entry.leaf_hash(headers[-1]))
        if position and found is not None and key is not None and verify(key.public_key, found[3], preimage):
            place = self.chain.place(position)
            raise CorruptError("the entry is not what its successor's author saw", place=place, kind="chain")

    def _check_appends(self, chunk: Sequence[Row]) -> None:
        ids = tuple({header[56:72] for _position, _index, header, _salt, _payload in chunk if header[5] & FLAG_LAST})
        if ids:
            found = self._connection.execute(_APPENDS, (apsw.carray(ids), self._incarnation.pid))
            self._appends = {append_id: tuple(rest) for append_id, *rest in found}
        for position, index, header, _salt, _payload in chunk:
            self._open_append.append((position, index, header))
            if header[5] & FLAG_LAST:
                self._check_append(self._open_append)
                self._open_append = []

    def _check_append(self, entries: list[tuple[int, int, bytes]]) -> None:
        first_position, first_index, first = entries[0]
        last_position, last_index, last = entries[-1]
        place = self.chain.place(first_position)
        codes = {int.from_bytes(header[22:24], "big") for _position, _index, header in entries}
        if self._task.level == "V1h" and not codes & HIGH_VALUE:
            return
        if any(header[56:80] != first[56:80] for _position, _index, header in entries):
            raise CorruptError("an append has one id and one author", place=place, kind="append")
        found = self._appends.get(first[56:72])
        if found is None:
            raise CorruptError("append has no signature", place=place, kind="signature_missing")
        if found[:3] != (first_position, first_index, len(entries)) or last_index - first_index != len(entries) - 1:
            raise CorruptError("append does not stand where it was made", place=place, kind="append")
        key_id = first[72:80]
        key, role = self._keys.get(key_id), self._keys.role_at(key_id, first_index)
        if key is None or role is None or self._keys.role_at(key_id, last_index) != role:
            raise CorruptError("the author's key held no role at this index", place=place, kind="key")
        if not all(may_author(role, code=code, partition=self.chain.partition) for code in codes):
            raise CorruptError(f"role {role} may not write this", place=place, kind="role")
        self._outcome.signatures += 1
        if not verify(key.public_key, found[3], entry.append_preimage(self._task.origin, entry.leaf_hash(last))):
            place = self.chain.place(last_position)
            raise CorruptError("the author did not sign this append", place=place, kind="signature")

    def _append_row(self, append_id: bytes) -> Any:
        query = "SELECT position, idx, n, sig FROM append WHERE pid = ? AND append_id = ?"
        return self._connection.execute(query, (self._incarnation.pid, append_id)).fetchone()
