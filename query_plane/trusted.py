"""The trusted reader's fixed questions: which partitions a grant means, and the rows of the tables a statement names.

It is never given a person's text. A restricted scope gets the exact rows of its partitions, counted against the index:
as a sealed memory file, or, when they are too many to hand over at once, as a door that can be scanned
(`query_plane.scanning`). The whole fleet gets views over the generation's files. Only the tables that the statement
names are touched, and of a restricted scope only the columns it could mean.
"""

import fcntl
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import pyarrow as pa

from artifacts.admit import Admission
from artifacts.manifest import SignedManifest
from artifacts.reader import Generation, Reader
from polyc.errors import CorruptError, RefusedError, UnavailableError
from polyc.grants import ByReference, scope_digest
from polyc.limits import ADMISSION_SIZE_BYTES_MAX
from query_plane.names import PARTICIPATION, spec, view_of
from query_plane.scanning import Doors
from query_plane.wire import Source

_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_GENERATIONS_KEPT: Final = 4  # a query that began before the newest one still names its own


class Pinned(msgspec.Struct, frozen=True, kw_only=True):
    """A generation by its names: what travels between processes instead of the generation itself."""

    number: int
    sha256: str
    generation_id: str
    frontier_size: int
    frontier_root: str
    created_at_us: int
    search_packs: tuple[str, ...]


def pinned_of(manifest: SignedManifest) -> Pinned:
    """The names of a verified manifest's generation."""
    body = manifest.body
    return Pinned(
        number=body.generation,
        sha256=manifest.sha256,
        generation_id=manifest.generation_id,
        frontier_size=body.frontier.size,
        frontier_root=str(body.frontier.root),
        created_at_us=body.created_at_us,
        search_packs=tuple(body.search),
    )


@dataclass(slots=True, kw_only=True)
class Admitted:
    """The sources of one statement; close it when the worker has them."""

    sources: list[Source] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    on_end: Callable[[], None] | None = None  # set when somebody serves scans of it

    def close(self) -> None:
        """Give the memory files and the doors' far ends back; the worker keeps its own descriptors."""
        while self.descriptors:
            os.close(self.descriptors.pop())

    def end(self) -> None:
        """The statement is over: close what is left, and serve no more scans."""
        self.close()
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()

    def add_rows(self, name: str, table: pa.Table) -> None:
        """Add a relation's rows as a sealed memory file."""
        self.descriptors.append(_memory_file(table))
        self.sources.append(Source(name=name, descriptor=len(self.descriptors) - 1))

    def add_door(self, name: str, admission: Admission, doors: Doors) -> None:
        """Add a relation whose rows are read anew by every scan."""
        self.descriptors.append(doors.open(admission))
        self.on_end = doors.close
        schema = admission.schema.serialize().to_pybytes()
        self.sources.append(Source(name=name, descriptor=len(self.descriptors) - 1, schema=schema))

    def add_view(self, name: str, select: str) -> None:
        """Add a relation as a view of ours."""
        self.sources.append(Source(name=name, view=select))


class TrustedReader:
    """Answers the fixed questions over a few generations at a time; one per process or thread."""

    def __init__(self, reader: Reader, *, eager_size_bytes_max: int = ADMISSION_SIZE_BYTES_MAX) -> None:
        self._reader = reader
        self._eager_size_bytes_max = eager_size_bytes_max
        self._generations: OrderedDict[str, Generation] = OrderedDict()

    def pin(self) -> Pinned:
        """The newest generation, held by this reader's own lease."""
        with self._reader.pin() as pin:
            return pinned_of(self._keep(pin.generation).manifest)

    def release(self) -> None:
        """Give back the lease and the engine."""
        self._reader.release()

    def partitions(self, pinned: Pinned, reference: ByReference) -> tuple[str, ...]:
        """The partitions of a grant by reference, as the pinned participation artifact has them (ruling 29).

        1. The generation reaches the participation record the grant is bound to. 2. The set it has now is the grant's.
        """
        # 1
        if pinned.frontier_size <= reference.index:
            raise UnavailableError("the artifacts do not reach this grant yet", hint="try again in a second")
        # 2
        columns = ["partition", "left_at"]
        rows = self._generation(pinned).lookup(
            spec(PARTICIPATION), column="persona_id", value=reference.persona_id, columns=columns
        )
        left = rows.column("left_at").to_pylist()
        names = rows.column("partition").to_pylist()
        current = sorted({name for name, at in zip(names, left, strict=True) if at is None})
        if len(current) != reference.count or scope_digest(current) != reference.digest:
            raise RefusedError(
                "participation has changed since this grant was minted", code="failed_precondition", hint="mint again"
            )
        return tuple(current)

    def admit(
        self, pinned: Pinned, partitions: Sequence[str] | None, relations: Mapping[str, list[str] | None]
    ) -> Admitted:
        """The sources of the relations that a checked statement reads."""
        generation, admitted, doors = self._generation(pinned), Admitted(), Doors()
        try:
            for table, columns in sorted(_tables_of(relations).items()):
                if partitions is None:
                    _add_files(admitted, generation, table)
                else:
                    admission = generation.admission(spec(table), partitions=partitions, columns=columns)
                    self._add_rows(admitted, table, admission, doors)
            for name in sorted(relations):
                view = view_of(name)
                if view is not None:
                    admitted.add_view(name, view.sql)
        except BaseException:
            admitted.end()
            raise
        return admitted

    def _add_rows(self, admitted: Admitted, table: str, admission: Admission, doors: Doors) -> None:
        if admission.size_bytes <= self._eager_size_bytes_max:
            try:
                admitted.add_rows(table, admission.table(budget_bytes=self._eager_size_bytes_max))
            except RefusedError:
                pass  # longer texts than the files' average: the scope is a large one after all
            else:
                return
        admitted.add_door(table, admission, doors)

    def _generation(self, pinned: Pinned) -> Generation:
        known = self._generations.get(pinned.sha256)
        if known is not None:
            return known
        found = self._reader.at(pinned.number)
        if found.manifest.sha256 != pinned.sha256:
            raise CorruptError("two manifests of one number", place=f"generation {pinned.number}", kind="fork")
        return self._keep(found)

    def _keep(self, generation: Generation) -> Generation:
        self._generations[generation.manifest.sha256] = generation
        self._generations.move_to_end(generation.manifest.sha256)
        if len(self._generations) > _GENERATIONS_KEPT:
            self._generations.popitem(last=False)
            packs = {pack_id for kept in self._generations.values() for pack_id, _ in kept.layers.packs()}
            self._reader.files.forget(packs)
        return generation


def _tables_of(relations: Mapping[str, list[str] | None]) -> dict[str, list[str] | None]:
    """The tables to admit with their columns: a view brings its tables whole."""
    tables = {name: columns for name, columns in relations.items() if view_of(name) is None}
    for name in relations:
        view = view_of(name)
        tables |= dict.fromkeys(view.tables) if view is not None else {}
    return tables


def _add_files(admitted: Admitted, generation: Generation, table: str) -> None:
    source = generation.fleet_sources(spec(table))
    if source.dead_name is not None:
        admitted.add_rows(source.dead_name, source.dead)
    admitted.add_view(table, source.view_sql())
    admitted.paths += source.paths


def _memory_file(table: pa.Table) -> int:
    """The table as an Arrow IPC stream in a memory file that nobody can change any more."""
    descriptor = os.memfd_create("rows", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return descriptor
