"""Recomputes a generation from the journal and names the first difference: `polyc verify --artifacts`.

Any machine with the journal can run it: the manifest's signature and every hash are checked, each partition is folded
through the position its index names, and the rows in the files are compared with the fold's, value by value.
"""

from collections.abc import Iterator
from itertools import chain, islice

import msgspec
import pyarrow as pa

from artifacts.index import IndexRow
from artifacts.layout import Family, TableSpec
from artifacts.reader import Generation, Reader
from artifacts.schema import arrow_schema, rows_to_arrow
from artifacts.store import Store
from journal.port import JournalReader
from polyc.clock import Clock
from polyc.errors import CorruptError
from polyc.ids import IdSource
from projector.content import ContentDigests
from projector.meaning import Meaning, meaning_of_facts
from projector.merging import PackSlices, merge
from projector.rebuild import Progress


class Difference(msgspec.Struct, frozen=True):
    """The first thing that is not as the journal says: where, and what kind; never a value."""

    partition: str
    table: str
    detail: str


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was compared; `difference` is None when everything was equal."""

    generation: int
    partitions: int
    rows: int
    difference: Difference | None


def verify_artifacts(
    journal: JournalReader,
    store: Store,
    *,
    clock: Clock,
    ids: IdSource,
    meaning: Meaning | None = None,
    progress: Progress | None = None,
) -> Verified:
    """Compare the newest generation with the journal; UnavailableError when there is none."""
    meaning = meaning or meaning_of_facts()
    generation = Reader(store, keys=journal.keyring, clock=clock, ids=ids, origin=journal.origin).latest()
    verifier = _Verifier(journal, generation, meaning)
    difference = verifier.missing()
    names, rows = generation.partitions(), 0
    for done, partition in enumerate(_by_pack(generation)):
        if difference is not None:
            break
        try:
            rows += verifier.compare(partition)
        except CorruptError as error:
            difference = Difference(partition, "", f"{error.kind}: {error.message}")
        difference = difference or verifier.difference
        if progress is not None:
            progress(done + 1, len(names))
    return Verified(generation=generation.number, partitions=len(names), rows=rows, difference=difference)


class _Verifier:
    """Compares partition by partition; `difference` is the first one met."""

    def __init__(self, journal: JournalReader, generation: Generation, meaning: Meaning) -> None:
        self._journal = journal
        self._generation = generation
        self._meaning = meaning
        self._trust = meaning.trust_of(journal.keyring())
        self._slices = PackSlices(generation.files, meaning.tables)
        self._digests = ContentDigests(meaning.tables)
        self.difference: Difference | None = None

    def missing(self) -> Difference | None:
        """A partition of the journal that the generation should know and does not."""
        body, frontier = self._generation.manifest.body, self._generation.frontier.size
        if self._journal.size() < frontier:
            return Difference("", "", f"the journal has fewer entries than the frontier {frontier}")
        excused = {fault.partition for fault in body.faults} | {item.partition for item in body.behind}
        for head in self._journal.partitions():
            if head.last_index < frontier and head.partition not in excused:
                row = self._generation.layers.newest(head.partition)
                if row is None:
                    return Difference(head.partition, "", "the generation does not know this partition")
                if (row.incarnation, row.to_position) != (head.incarnation.hex(), head.position):
                    return Difference(head.partition, "", "the generation stands at another position")
                if row.head != head.leaf:
                    return Difference(head.partition, "", "the generation was built on another chain")
        return None

    def compare(self, partition: str) -> int:
        """Fold the partition and compare every table; returns how many rows were equal."""
        layers, specs = self._generation.layers, self._meaning.tables
        row = layers.newest(partition)
        assert row is not None, "the partition is one of the generation's"
        base = layers.base.place.get(partition)
        self._slices.drop(
            keep=[pack_id for pack_id, _ in layers.deltas] + ([layers.base.packs[base[0]][0]] if base else [])
        )
        folded = self._fold(row)
        (held,) = merge(layers, self._slices, [partition], specs)
        for spec in specs:
            want = rows_to_arrow(folded.get(spec.name, []), arrow_schema(spec))
            have = held.parts.get(spec.name, arrow_schema(spec).empty_table())
            assert isinstance(have, pa.Table), "merging gives Arrow"
            if not have.equals(want):
                self.difference = Difference(partition, spec.name, _first_difference(have, want, spec))
                return 0
        digests: tuple[tuple[Family, bytes], ...] = (("row", row.content), ("state", row.state))
        for family, digest in digests:
            if self._digests.of(folded, family=family) != digest:
                self.difference = Difference(partition, "", f"content digest of the {family} tables")
                return 0
        return sum(row.counts.values())

    def _fold(self, row: IndexRow) -> dict[str, list[tuple[object, ...]]]:
        fold = self._meaning.open_fold(row.partition, self._trust)
        records = self._journal.read(row.partition, incarnation=bytes.fromhex(row.incarnation))
        fold.apply_all(islice(records, row.to_position))
        return fold.rows()


def _by_pack(generation: Generation) -> Iterator[str]:
    """Every partition, those of one base pack together: a pack's tables are read once."""
    layers = generation.layers
    only_in_deltas = sorted(
        {name for _, index in layers.deltas for name in index.partitions} - layers.base.place.keys()
    )
    return chain((name for _, index in layers.base.packs for name in index.partitions), only_in_deltas)


def _first_difference(have: pa.Table, want: pa.Table, spec: TableSpec) -> str:
    if have.num_rows != want.num_rows:
        return f"{have.num_rows} rows, the journal says {want.num_rows}"
    for name in spec.column_names:
        left, right = have.column(name).combine_chunks(), want.column(name).combine_chunks()
        for number, (a, b) in enumerate(zip(left, right, strict=True)):
            if not a.equals(b):
                return f"row {number}, column {name}"
    return "types"
