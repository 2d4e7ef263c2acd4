"""From stored entries to verified records (level V1): digest, leaf chain, position, incarnation, partition.

`Chain` walks one incarnation run by run and names the first lie with its place: `partition/incarnation@position`. A
run is compared column by column, which says only whether all is well; when it is not, a second look entry by entry
says what is not and where. An erased payload has neither salt nor payload; its header stays in the chain.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat

from journal.body import Run, Stored
from journal.port import RawEntry, SignedRecords
from polyc.entry import FLAG_ENCRYPTED, FLAGS_KNOWN, MAGIC, SALT_SIZE_BYTES, Record, decode_header, genesis
from polyc.errors import CorruptError, UnavailableError
from polyc.limits import READ_CHUNK_BYTES_MAX, READ_CHUNK_ROWS_MAX
from polyc.payloads import PayloadKey

Keys = Callable[[str, bytes], PayloadKey | None]  # of an incarnation; None when it was destroyed

_sha256 = hashlib.sha256


class Chain:
    """Where the walk along one incarnation stands: the position and leaf of the last verified entry."""

    __slots__ = ("_keys", "_name", "incarnation", "index", "leaf", "partition", "position", "where")

    def __init__(
        self,
        partition: str,
        incarnation: bytes,
        *,
        position: int,
        leaf: bytes,
        index: int = -1,
        keys: Keys | None = None,
    ) -> None:
        self.partition = partition
        self.incarnation = incarnation
        self.position = position
        self.leaf = leaf
        self.index = index
        self.where = f"{partition}/{incarnation.hex()}"
        self._keys = keys
        self._name = len(partition).to_bytes(1, "big") + partition.encode()  # as the header ends

    @classmethod
    def at_genesis(cls, origin: str, partition: str, incarnation: bytes, *, keys: Keys | None = None) -> "Chain":
        """The walk's start."""
        leaf = genesis(origin, partition, incarnation)
        return cls(partition, incarnation, position=0, leaf=leaf, keys=keys)

    @classmethod
    def before(cls, partition: str, incarnation: bytes, run: Run, *, keys: Keys | None = None) -> "Chain":
        """A walk that starts in the middle: the run's own word for the leaf before it."""
        return cls(partition, incarnation, position=run.positions[0] - 1, leaf=run.prevs[0], keys=keys)

    def place(self, position: int) -> str:
        """How a position of this incarnation is named in errors and reports."""
        return f"{self.where}@{position}"

    def walk(self, run: Run) -> list[bytes]:
        """Verify the run against what came before it; returns its leaves. CorruptError at the first lie.

        After a CorruptError `position` is the last verified one.
        """
        count, first = len(run.headers), self.position + 1
        leaves = [_sha256(b"\x00" + header).digest() for header in run.headers]
        sound = (
            run.prevs == (self.leaf, *leaves[:-1])
            and run.digests == tuple([_sha256(item).digest() if item is not None else None for item in run.salted])
            and run.positions == tuple(range(first, first + count))
            and run.names.count(self._name) == count
            and run.incarnations.count(self.incarnation) == count
            and run.magics.count(MAGIC) == count
            and max(run.flags) <= FLAGS_KNOWN
            and run.index > self.index
        )
        if not sound:
            return self._walk_singly(run)
        self.leaf, self.position, self.index = leaves[-1], first + count - 1, run.index + count - 1
        return leaves

    def take(self, stored: Stored) -> Run:
        """Open the next stored append and verify it."""
        run = stored.open(self.where)
        self.walk(run)
        return run

    def records(self, run: Run, part: slice = slice(None)) -> list[Record]:
        """The records of a verified run, or of a part of it."""
        payloads = [None if item is None else item[SALT_SIZE_BYTES:] for item in run.salted[part]]
        if run.flags[0] & FLAG_ENCRYPTED:  # the reader's record holds what was said
            payloads = list(map(self._decrypt, payloads, run.positions[part]))
        return list(
            map(
                Record,
                repeat(self.partition),
                repeat(self.incarnation),
                run.positions[part],
                range(run.index, run.index + len(run.headers))[part],
                run.recorded_at_us[part],
                run.key_ids[part],
                run.event_types[part],
                run.fences[part],
                payloads,
            )
        )

    def signed(self, stored: Stored, part: slice = slice(None)) -> SignedRecords:
        """Open the next stored append and verify it; the records of a part of it, with its author's signature."""
        run = self.take(stored)
        return SignedRecords(self.records(run, part), self.leaf, stored.signature)

    def _walk_singly(self, run: Run) -> list[bytes]:
        """Entry by entry: what an erased entry needs, and what names a lie at its own position."""
        leaves: list[bytes] = []
        for number, header in enumerate(run.headers):
            position, place = run.positions[number], self.place(self.position + 1)
            if position != self.position + 1:
                kind = "duplicate" if position <= self.position else "gap"
                raise self._header_error(
                    header,
                    CorruptError(f"position {self.position + 1} expected, got {position}", place=place, kind=kind),
                )
            if (
                run.names[number] != self._name
                or run.incarnations[number] != self.incarnation
                or run.magics[number] != MAGIC
                or run.flags[number] > FLAGS_KNOWN
            ):
                raise self._header_error(header, CorruptError("not a header of ours", place=place, kind="header"))
            if run.prevs[number] != self.leaf:
                raise CorruptError("prev is not the leaf before it", place=place, kind="chain")
            if run.index + number <= self.index:
                raise CorruptError("global indexes do not grow", place=place, kind="index_order")
            salted = run.salted[number]
            if salted is not None and _sha256(salted).digest() != run.digests[number]:
                raise CorruptError("payload is not what the header commits to", place=place, kind="digest")
            self.leaf = _sha256(b"\x00" + header).digest()
            self.position, self.index = position, run.index + number
            leaves.append(self.leaf)
        return leaves

    def _decrypt(self, payload: bytes | None, position: int) -> bytes | None:
        """The payload in clear; None when its key was destroyed, which is an erasure."""
        if payload is None:
            return None
        if self._keys is None:
            raise UnavailableError(f"the payload keys of {self.partition} are not here")
        key = self._keys(self.partition, self.incarnation)
        return None if key is None else key.decrypt(payload, position=position, place=self.place(position))

    def _header_error(self, header: bytes, otherwise: CorruptError) -> CorruptError:
        """The error of a header that does not belong here; `otherwise` when it is of this incarnation."""
        place = self.place(self.position + 1)
        decoded = decode_header(header, place=place)
        if decoded.partition != self.partition or decoded.incarnation != self.incarnation:
            return CorruptError("the entry belongs to another partition or incarnation", place=place, kind="foreign")
        return otherwise


class RecordBatch:
    """Records of verified appends as they gather, and the fault that ended the walk."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.fault: CorruptError | None = None
        self._size_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to hand the records out."""
        return len(self.records) >= READ_CHUNK_ROWS_MAX or self._size_bytes > READ_CHUNK_BYTES_MAX

    def take(self, walk: Chain, stored: Stored, part: slice, *, run: Run | None = None) -> None:
        """Add the records of an append (`run` when it was opened already), or those before the first lie in it."""
        before = walk.position
        try:
            run = run or stored.open(walk.where)
            walk.walk(run)
        except CorruptError as fault:
            self.fault = fault
            if run is not None:
                self.records += walk.records(run, slice(part.start, min(part.stop, walk.position - before)))
            return
        self.records += walk.records(run, part)
        self._size_bytes += sum(run.sizes)

    def emptied(self) -> list[Record]:
        """The records, and begin anew."""
        records, self.records, self._size_bytes = self.records, [], 0
        return records


def record_batches(walked: Iterable[tuple[Chain, Stored, slice]]) -> Iterator[list[Record]]:
    """The records of appends as they are walked, in lists; those before the first lie, then it is raised."""
    batch = RecordBatch()
    for walk, stored, part in walked:
        batch.take(walk, stored, part)
        if batch.is_full:
            yield batch.emptied()
        if batch.fault is not None:
            break
    if batch.records:
        yield batch.emptied()
    if batch.fault is not None:
        raise batch.fault


def raw_entries(stored: Stored, run: Run, part: slice) -> Iterator[RawEntry]:
    """The entries of a part of a verified append as stored, the signature at the last one of the append."""
    last = len(run.headers) - 1
    for number in range(len(run.headers))[part]:
        signature = stored.signature if number == last else b""
        yield RawEntry(run.index + number, run.headers[number], run.salt(number), run.payload(number), signature)


def place_of(partition: str, incarnation: bytes, position: int) -> str:
    """`partition/incarnation@position`.

    >>> place_of("conv-a", bytes(16), 7)
    'conv-a/00000000000000000000000000000000@7'
    """
    return f"{partition}/{incarnation.hex()}@{position}"
