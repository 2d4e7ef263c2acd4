"""Realm and scope become rows: what a grant admits of the pinned generation (query-plane.md, steps 2 and 6).

A restricted scope gets the exact rows of its partitions, counted against the index, as sealed memory files; the engine
that runs the person's statement sees no file. The whole fleet gets views over the generation's files. Only the tables
that the statement names are touched, and of a restricted scope only the columns it could mean.

The trusted reader belongs to one thread of its own and is only ever asked fixed questions, never a person's text.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, ParamSpec, TypeVar

import pyarrow as pa

from artifacts.reader import Generation, Reader
from polyc.errors import RefusedError, UnavailableError
from polyc.grants import ByReference, Everything, Grant, Inline, scope_digest
from query_plane.names import PARTICIPATION, spec, view_of
from query_plane.wire import Source

P = ParamSpec("P")
T = TypeVar("T")

_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The pinned generation and the partitions a grant admits of it (None = all of them)."""

    generation: Generation
    partitions: tuple[str, ...] | None

    @property
    def as_of(self) -> int:
        """The journal size the generation was built through."""
        return int(self.generation.frontier.size)


@dataclass(slots=True, kw_only=True)
class Admitted:
    """The sources of one statement; close it when the worker has them."""

    sources: list[Source] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def close(self) -> None:
        """Give the memory files back; the worker keeps its own descriptors."""
        while self.descriptors:
            os.close(self.descriptors.pop())

    def add_rows(self, name: str, table: pa.Table) -> None:
        """Add a relation's rows as a sealed memory file."""
        self.descriptors.append(_memory_file(table))
        self.sources.append(Source(name=name, descriptor=len(self.descriptors) - 1))

    def add_view(self, name: str, select: str) -> None:
        """Add a relation as a view of ours."""
        self.sources.append(Source(name=name, view=select))


class Admitter:
    """Asks the trusted reader, one question at a time, off the event loop."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="admitter")

    async def snapshot(self, grant: Grant) -> Snapshot:
        """The newest generation, pinned, and the grant's partitions in it."""
        return await self._ask(self._snapshot, grant)

    async def admit(self, snapshot: Snapshot, relations: Mapping[str, list[str] | None]) -> Admitted:
        """The sources of the relations a checked statement reads."""
        return await self._ask(self._admit, snapshot, relations)

    async def close(self) -> None:
        """Give back the lease and stop the thread."""
        with contextlib.suppress(RuntimeError):
            await self._ask(self._reader.release)
        self._thread.shutdown(wait=True)

    async def _ask(self, question: Callable[P, T], *arguments: P.args, **_named: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, question, *arguments)

    def _snapshot(self, grant: Grant) -> Snapshot:
        with self._reader.pin() as pin:
            generation = pin.generation
        match grant.scope:
            case Everything():
                return Snapshot(generation=generation, partitions=None)
            case Inline(partitions=partitions):
                return Snapshot(generation=generation, partitions=partitions)
            case ByReference() as reference:
                return Snapshot(generation=generation, partitions=_participation(generation, reference))

    def _admit(self, snapshot: Snapshot, relations: Mapping[str, list[str] | None]) -> Admitted:
        admitted = Admitted()
        try:
            for table, columns in sorted(_tables_of(relations).items()):
                if snapshot.partitions is None:
                    _add_files(admitted, snapshot.generation, table)
                else:
                    rows = snapshot.generation.admit(spec(table), partitions=snapshot.partitions, columns=columns)
                    admitted.add_rows(table, rows)
            for name in sorted(relations):
                view = view_of(name)
                if view is not None:
                    admitted.add_view(name, view.sql)
        except BaseException:
            admitted.close()
            raise
        return admitted


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


def _participation(generation: Generation, reference: ByReference) -> tuple[str, ...]:
    """The partitions of a grant by reference, as the pinned participation artifact has them (ruling 29).

    1. The generation reaches the participation record the grant is bound to. 2. The set it has now is the grant's.
    """
    # 1
    if generation.frontier.size <= reference.index:
        raise UnavailableError("the artifacts do not reach this grant yet", hint="try again in a second")
    # 2
    columns = ["partition", "left_at"]
    rows = generation.lookup(spec(PARTICIPATION), column="persona_id", value=reference.persona_id, columns=columns)
    left = rows.column("left_at").to_pylist()
    current = sorted({name for name, at in zip(rows.column("partition").to_pylist(), left, strict=True) if at is None})
    if len(current) != reference.count or scope_digest(current) != reference.digest:
        raise RefusedError(
            "participation has changed since this grant was minted", code="failed_precondition", hint="mint again"
        )
    return tuple(current)


def _memory_file(table: pa.Table) -> int:
    """The table as an Arrow IPC stream in a memory file that nobody can change any more."""
    descriptor = os.memfd_create("rows", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return descriptor
