"""Verifies the log's tree: tiles, every checkpoint's root, the log's signatures, cosignatures and pins.

The leaves are taken from the tiles (partition_check holds every entry against them); what a checkpoint, a witness or
a pin remembers of a size is compared with the root of that size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from journal.database import open_reader, row, rows
from journal.findings import Fault, Level, Pin
from journal.tree import TileNodes, Tree
from polyc import note
from polyc.errors import CorruptError
from polyc.merkle import HASH_SIZE_BYTES, TILE_WIDTH, Frontier


@dataclass(slots=True, kw_only=True)
class TreeOutcome:
    """What was found; `anchors` are the sources outside this data root that agree, `anchored_size` their largest."""

    root: str = ""
    checkpoints: int = 0
    signatures: int = 0
    anchored_size: int = 0
    anchors: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def check_tree(
    path: Path,
    *,
    origin: str,
    size: int,
    level: Level,
    logs: Callable[[int], Sequence[note.Verifier]],
    witnesses: Sequence[note.Verifier],
    pins: Sequence[Pin],
) -> TreeOutcome:
    """Walk the tree of the first `size` entries once; what is wrong is in the outcome's faults."""
    outcome = TreeOutcome()
    connection = open_reader(path)
    try:
        _TreeCheck(
            connection, origin=origin, size=size, logs=logs, witnesses=witnesses, pins=pins, outcome=outcome
        ).run(every_signature=level == "V2")
    except CorruptError as fault:
        outcome.faults.append(Fault(kind=fault.kind, place=fault.place, detail=fault.message))
    except apsw.Error as error:
        outcome.faults.append(Fault(kind="database", place="tree", detail=type(error).__name__))
    finally:
        connection.close()
    return outcome


class _TreeCheck:
    """One walk along the tree."""

    def __init__(
        self,
        connection: apsw.Connection,
        *,
        origin: str,
        size: int,
        logs: Callable[[int], Sequence[note.Verifier]],
        witnesses: Sequence[note.Verifier],
        pins: Sequence[Pin],
        outcome: TreeOutcome,
    ) -> None:
        self._connection = connection
        self._origin = origin
        self._size = size
        self._logs = logs
        self._witnesses = {(verifier.name, verifier.key_id): verifier for verifier in witnesses}
        self._pins = pins
        self._cosignatures: dict[int, list[str]] = {}
        self._outcome = outcome

    def run(self, *, every_signature: bool) -> None:
        """Check all that hangs on the tree.

        1. Nothing is checkpointed or pinned beyond the log's end. 2. Leaves give the stored tiles. 3. Each
        checkpoint's root is the tree's at its size. 4. The log signed it (the latest, or every one). 5. Known
        witnesses' cosignatures verify. 6. Pins agree.
        """
        # 1.
        self._check_ends()
        walk = _TreeWalk(self._connection, outcome=self._outcome)
        query = "SELECT size, note FROM checkpoint WHERE size <= ?"
        notes = dict(rows(self._connection, query, (self._size,)))
        for size, line in rows(self._connection, "SELECT size, line FROM cosignature"):
            self._cosignatures.setdefault(size, []).append(line)
        for stop in sorted({*notes, *(pin.size for pin in self._pins if pin.size <= self._size), self._size}):
            # 2.
            walk.advance(stop)
            root = walk.tree.frontier.root()
            if stop in notes:
                # 3. to 5.
                self._check_checkpoint(stop, notes[stop], root, signed=every_signature or stop == self._size)
            # 6.
            for pin in self._pins:
                if pin.size == stop:
                    self._check_pin(pin, root)
        self._outcome.root = walk.tree.frontier.root().hex()

    def _check_ends(self) -> None:
        size = self._size
        last = row(self._connection, "SELECT idx + n FROM append WHERE idx < ? ORDER BY idx DESC LIMIT 1", (size,))
        end = 0 if last is None else last[0]
        if end != size:
            detail = f"the journal's entries end at {end}, its checkpoint says {size}"
            self._fault("rollback", f"checkpoint {size}", detail)
        for pin in self._pins:
            if pin.size > size:
                detail = f"the journal ends at {size}, {pin.source} has seen {pin.size}"
                self._fault("rollback", f"checkpoint {pin.size}", detail)

    def _check_checkpoint(self, size: int, text: str, root: bytes, *, signed: bool) -> None:
        place = f"checkpoint {size}"
        self._outcome.checkpoints += 1
        expected = str(note.Checkpoint(origin=self._origin, size=size, root=root))
        as_expected = text.startswith(f"{expected}\n{note.DASH}")
        if as_expected and not signed and size not in self._cosignatures:
            return  # most of them: the body is what the entries give, and the signature is not asked for
        try:
            if as_expected:
                lines = note.parse_signatures(text[len(expected) + 1 :], place=place)
                self._check_signatures(note.Note(text=expected, signatures=lines), size, signed=signed)
                return
            parsed = note.parse_note(text, place=place)
            checkpoint = note.decode_checkpoint(parsed.text, place=place)
            if (checkpoint.origin, checkpoint.size) != (self._origin, size):
                raise CorruptError("its note is for another log or size", place=place, kind="checkpoint")
            if checkpoint.root != root:
                raise CorruptError("the entries do not give its root", place=place, kind="root")
            self._check_signatures(parsed, size, signed=signed)
        except CorruptError as fault:
            self._fault(fault.kind, fault.place, fault.message)

    def _check_signatures(self, parsed: note.Note, size: int, *, signed: bool) -> None:
        place = f"checkpoint {size}"
        if signed:
            note.verify_note(parsed, self._logs(size), place=place)
            self._outcome.signatures += 1
        self._check_cosignatures(parsed.text, size, place=place)

    def _check_cosignatures(self, text: str, size: int, *, place: str) -> None:
        """An unknown witness says nothing to us; a known one's line must verify."""
        for line in self._cosignatures.get(size, ()):
            for signature in note.parse_signatures(line, place=place):
                verifier = self._witnesses.get((signature.name, signature.key_id))
                if verifier is None:
                    continue
                if not verifier.verifies(signature, text):
                    raise CorruptError("a known witness did not sign this", place=place, kind="cosignature")
                self._outcome.signatures += 1
                self._anchor(f"cosignature of {verifier.name} at {size}", size)

    def _check_pin(self, pin: Pin, root: bytes) -> None:
        if pin.root != root:
            detail = f"the log forked: {pin.source} remembers another root"
            self._fault("fork", f"checkpoint {pin.size}", detail)
        elif pin.anchored:
            self._anchor(f"{pin.source} at {pin.size}", pin.size)

    def _anchor(self, source: str, size: int) -> None:
        self._outcome.anchors.append(source)
        self._outcome.anchored_size = max(self._outcome.anchored_size, size)

    def _fault(self, kind: str, place: str, detail: str) -> None:
        self._outcome.faults.append(Fault(kind=kind, place=place, detail=detail))


class _TreeWalk:
    """Grows the tree from the stored leaves and compares each tile that fills with the stored one."""

    def __init__(self, connection: apsw.Connection, *, outcome: TreeOutcome) -> None:
        self.tree = Tree(Frontier(), [b""] * 8)
        self._connection = connection
        self._nodes = TileNodes(connection)
        self._outcome = outcome

    def advance(self, to_size: int) -> None:
        frontier = self.tree.frontier
        while frontier.size < to_size:
            tile_n, start = divmod(frontier.size, TILE_WIDTH)
            end = min(TILE_WIDTH, to_size - tile_n * TILE_WIDTH)
            tile = self._nodes.tile(0, tile_n)
            if len(tile) < end * HASH_SIZE_BYTES:
                at = tile_n * TILE_WIDTH + len(tile) // HASH_SIZE_BYTES
                raise CorruptError("leaf is missing", place=f"index {at}", kind="gap")
            leaves = [tile[i * HASH_SIZE_BYTES : (i + 1) * HASH_SIZE_BYTES] for i in range(start, end)]
            for level, n, hashes in self.tree.extend(leaves):
                stored = row(self._connection, "SELECT hashes FROM tile WHERE level = ? AND n = ?", (level, n))
                if stored is None or stored[0] != hashes:
                    kind, detail = ("tile_missing", "is missing") if stored is None else ("tile", "was changed")
                    self._outcome.faults.append(Fault(kind=kind, place=f"tile {level}/{n}", detail=detail))
