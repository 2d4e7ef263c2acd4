"""Verifies the log's tree: tiles, every checkpoint's root, the log's signatures, cosignatures and pins.

The leaves are taken from the tiles (partition_check holds every entry against them); what a checkpoint, a witness or
a pin remembers of a size is compared with the root of that size.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from journal.database import open_reader, row, rows
from journal.findings import Fault, Pin
from journal.opening import log_keys
from journal.tree import LEVELS_MAX, TileNodes
from polyc import merkle, note
from polyc.errors import CorruptError
from polyc.keyring import KEYS_PARTITION, KeyRing
from polyc.merkle import TILE_HEIGHT, TILE_WIDTH, Frontier
from polyc.signing import verify


@dataclass(slots=True, kw_only=True)
class TreeOutcome:
    """What was found; `anchors` are the sources outside this data root that agree, `anchored_size` their largest."""

    root: str = ""
    checkpoints: int = 0
    signatures: int = 0
    anchored_size: int = 0
    anchors: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeTask:
    """What to hold the tree of the first `size` entries against; can be sent to another process."""

    path: str
    origin: str
    size: int
    root_public_key: bytes
    first_log_key: bytes
    key_events: tuple[bytes, ...]
    witnesses: tuple[note.Verifier, ...] = ()
    pins: tuple[Pin, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesTask:
    """Checkpoints whose log signatures to verify (level V2): those with from_size <= size < to_size."""

    tree: TreeTask
    from_size: int
    to_size: int


def check_tree(task: TreeTask) -> TreeOutcome:
    """Walk the tree once; what is wrong is in the outcome's faults."""
    outcome = TreeOutcome()
    connection = open_reader(Path(task.path))
    try:
        _TreeCheck(connection, task, outcome=outcome).run()
    except CorruptError as fault:
        outcome.faults.append(Fault(kind=fault.kind, place=fault.place, detail=fault.message))
    except apsw.Error as error:
        outcome.faults.append(Fault(kind="database", place="tree", detail=type(error).__name__))
    finally:
        connection.close()
    return outcome


def check_notes(task: NotesTask) -> TreeOutcome:
    """Verify the log's signature on each checkpoint of the range but the latest, which `check_tree` looks at."""
    outcome, tree = TreeOutcome(), task.tree
    logs = _Logs(tree)
    query = "SELECT size, note FROM checkpoint WHERE size >= ? AND size < ? AND size <> ? ORDER BY size"
    connection = open_reader(Path(tree.path))
    try:
        for size, text in connection.execute(query, (task.from_size, task.to_size, tree.size)):
            try:
                logs.check(text, size)
                outcome.signatures += 1
            except CorruptError as fault:
                outcome.faults.append(Fault(kind=fault.kind, place=fault.place, detail=fault.message))
    except apsw.Error as error:
        outcome.faults.append(Fault(kind="database", place="checkpoint", detail=type(error).__name__))
    finally:
        connection.close()
    return outcome


class _Logs:
    """The log's keys, by the size of the checkpoint that they may sign."""

    def __init__(self, task: TreeTask) -> None:
        self._origin = task.origin
        self._first_log_key = task.first_log_key
        keys = KeyRing(task.root_public_key)
        for payload in task.key_events:
            keys.apply(payload, place=KEYS_PARTITION)
        self._keys = [key for key in keys.all() if key.role == "log"]
        self._known: dict[tuple[bytes, ...], list[tuple[note.Verifier, bytes]]] = {}

    def check(self, text: str, size: int) -> None:
        """CorruptError unless one of the keys signed this checkpoint, and none of them badly."""
        body, _blank, line = text.rpartition("\n\n")
        prefix = f"{note.DASH}{self._origin} "
        verifiers = self._at(size)
        if line.startswith(prefix) and line.endswith("\n"):  # as the journal writes it; else the general way
            encoded = line[len(prefix) : -1]
            for verifier, key_id in verifiers:
                raw = note.decode64(encoded, place=f"checkpoint {size}")
                if raw[:4] == key_id and verify(verifier.public_key, raw[4:], f"{body}\n".encode()):
                    return
        place = f"checkpoint {size}"
        note.verify_note(note.parse_note(text, place=place), [verifier for verifier, _id in verifiers], place=place)

    def _at(self, size: int) -> list[tuple[note.Verifier, bytes]]:
        publics = log_keys(self._keys, size=size, first_log_key=self._first_log_key)
        found = self._known.get(publics)
        if found is None:
            verifiers = [note.Verifier(name=self._origin, kind=note.ED25519, public_key=public) for public in publics]
            found = self._known[publics] = [(verifier, verifier.key_id) for verifier in verifiers]
        return found


class _TreeCheck:
    """One walk along the tree."""

    def __init__(self, connection: apsw.Connection, task: TreeTask, *, outcome: TreeOutcome) -> None:
        self._connection = connection
        self._origin = task.origin
        self._size = task.size
        self._logs = _Logs(task)
        self._witnesses = {(verifier.name, verifier.key_id): verifier for verifier in task.witnesses}
        self._pins = task.pins
        self._cosignatures: dict[int, list[str]] = {}
        self._outcome = outcome

    def run(self) -> None:
        """Check all that hangs on the tree.

        1. Nothing is checkpointed, cosigned or pinned beyond the log's end. 2. Leaves give the stored tiles. 3. Each
        checkpoint's root is the tree's at its size. 4. The log signed the latest, and the nodes beside it are the
        tree's. 5. Known witnesses' cosignatures verify. 6. Pins agree.
        """
        query = "SELECT size, note FROM checkpoint WHERE size <= ?"
        notes = dict(rows(self._connection, query, (self._size,)))
        for size, line in rows(self._connection, "SELECT size, line FROM cosignature"):
            self._cosignatures.setdefault(size, []).append(line)
        # 1.
        end = self._check_ends(notes.keys())
        walk = _TreeWalk(self._connection, size=end, outcome=self._outcome)
        for stop in sorted({*notes, *(pin.size for pin in self._pins if pin.size <= self._size), end}):
            # 2.
            frontier = walk.frontier_at(max(stop, 0))  # a size below 0 is a lie that its note is held against
            root = frontier.root()
            if stop in notes:
                # 3. to 5.
                self._check_checkpoint(stop, notes[stop], frontier, root)
            # 6.
            for pin in self._pins:
                if pin.size == stop:
                    self._check_pin(pin, root)
        self._outcome.root = root.hex()

    def _check_ends(self, checkpointed: Container[int]) -> int:
        """Where the entries end: at the latest checkpoint's size, unless something was cut off."""
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
        for cosigned in sorted(self._cosignatures):
            if cosigned not in checkpointed:
                kind = "rollback" if cosigned > size else "checkpoint"
                self._fault(kind, f"checkpoint {cosigned}", "a witness cosigned it, and it is not here")
        return min(size, end)

    def _check_checkpoint(self, size: int, text: str, frontier: Frontier, root: bytes) -> None:
        place = f"checkpoint {size}"
        self._outcome.checkpoints += 1
        expected = str(note.Checkpoint(origin=self._origin, size=size, root=root))
        try:
            if not text.startswith(f"{expected}\n{note.DASH}"):
                checkpoint = note.decode_checkpoint(note.parse_note(text, place=place).text, place=place)
                if (checkpoint.origin, checkpoint.size) != (self._origin, size):
                    raise CorruptError("its note is for another log or size", place=place, kind="checkpoint")
                if checkpoint.root != root:
                    raise CorruptError("the entries do not give its root", place=place, kind="root")
            if size == self._size:
                self._logs.check(text, size)
                self._outcome.signatures += 1
                nodes = row(self._connection, "SELECT nodes FROM checkpoint WHERE size = ?", (size,))[0]
                if nodes != b"".join(frontier.nodes):
                    raise CorruptError("the nodes beside it are not the tree's", place=place, kind="checkpoint")
            if size in self._cosignatures:
                self._check_cosignatures(note.parse_note(text, place=place).text, size, place=place)
        except CorruptError as fault:
            self._fault(fault.kind, fault.place, fault.message)

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
    """Grows the tree from the leaves of the lowest tiles and compares what they give with the tiles above.

    Each lowest tile is hashed once and whole; the edge at a size between two tiles is put together from its subtrees.
    That the leaves are the entries' is each partition's check (journal/partition_check.py).
    """

    def __init__(self, connection: apsw.Connection, *, size: int, outcome: TreeOutcome) -> None:
        self._nodes = TileNodes(connection)
        self._outcome = outcome
        self._tiles = Frontier()  # its leaves are the roots of the lowest tiles
        self._subtrees: tuple[int, list[list[bytes]]] = (-1, [])  # of the tile under way, by height
        self._above: list[list[bytes]] = [[] for _ in range(LEVELS_MAX)]  # of the tile under way at each level
        self._stored = {(level, n) for level, n in rows(connection, "SELECT level, n FROM tile")}
        for n in range(size >> TILE_HEIGHT):
            self._check_is_there(0, n)
        for level, n in sorted(self._stored):
            covers = 0 <= level < LEVELS_MAX and 0 <= n < size >> (TILE_HEIGHT * (level + 1))
            if not covers:
                outcome.faults.append(Fault(kind="tile", place=f"tile {level}/{n}", detail="covers no entries"))

    def frontier_at(self, size: int) -> Frontier:
        """The right edge of the tree of the first `size` entries, which are no fewer than those of the last call."""
        n, width = divmod(size, TILE_WIDTH)
        while self._tiles.size < n:
            root = self._subtrees_of(self._tiles.size, TILE_WIDTH)[TILE_HEIGHT][0]
            completed = self._tiles.extend([root])
            self._take(1, root)
            for height, node in completed:
                self._take(1 + height // TILE_HEIGHT, node)
        nodes, at = list(self._tiles.nodes), 0
        subtrees = self._subtrees_of(n, width) if width else []
        for height in reversed(range(width.bit_length())):
            if width >> height & 1:
                nodes.append(subtrees[height][at >> height])
                at += 1 << height
        return Frontier(size, nodes)

    def _subtrees_of(self, n: int, width: int) -> list[list[bytes]]:
        """The complete subtrees of a lowest tile, by height; CorruptError when it has less than `width` leaves."""
        if self._subtrees[0] != n:
            self._subtrees = (n, merkle.subtrees(self._nodes.tile(0, n)))
        count = len(self._subtrees[1][0])
        if count < width:
            raise CorruptError("entry is missing", place=f"index {n * TILE_WIDTH + count}", kind="gap")
        return self._subtrees[1]

    def _take(self, level: int, node: bytes) -> None:
        """A subtree is complete whose hash stands in a tile of this level."""
        above = self._above[level]
        above.append(node)
        if len(above) == TILE_WIDTH:
            n = (self._tiles.size >> (TILE_HEIGHT * level)) - 1
            if self._check_is_there(level, n) and self._nodes.tile(level, n) != b"".join(above):
                self._outcome.faults.append(Fault(kind="tile", place=f"tile {level}/{n}", detail="was changed"))
            above.clear()

    def _check_is_there(self, level: int, n: int) -> bool:
        there = (level, n) in self._stored
        if not there:
            self._outcome.faults.append(Fault(kind="tile_missing", place=f"tile {level}/{n}", detail="is missing"))
        return there
