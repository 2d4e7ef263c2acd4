"""Realm and scope become rows: what a grant admits of the pinned generation (query-plane.md, steps 2 and 6).

The edge pins a generation; the trusted reader (`query_plane.trusted`) answers fixed questions about it, in a process of
its own (`query_plane.admitter_pool`). A process that asks one question in its life, as `polyc query` does, has it in a
thread: `Admitter` here is that one. Both say the same.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, Protocol, TypeVar

from artifacts.reader import Reader
from polyc.grants import ByReference, Everything, Grant, Inline
from query_plane.trusted import Admitted, Pinned, TrustedReader

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The pinned generation and the partitions a grant admits of it (None = all of them)."""

    generation: Pinned
    partitions: tuple[str, ...] | None

    @property
    def as_of(self) -> int:
        """The journal size the generation was built through."""
        return self.generation.frontier_size


async def snapshot_of(
    grant: Grant, generation: Pinned, *, meant: Callable[[ByReference], Awaitable[tuple[str, ...]]]
) -> Snapshot:
    """What a grant admits of a pinned generation: the one place that knows the kinds of scope.

    `meant` asks the trusted reader which partitions a grant by reference means.
    """
    partitions: tuple[str, ...] | None
    match grant.scope:
        case Everything():
            partitions = None
        case Inline(partitions=partitions):
            pass
        case ByReference() as reference:
            partitions = await meant(reference)
    return Snapshot(generation=generation, partitions=partitions)


class Admission(Protocol):
    """Who admits: asked by every query, twice."""

    async def start(self) -> None:
        """Be ready before the first query."""
        ...

    async def snapshot(self, grant: Grant) -> Snapshot:
        """The newest generation, pinned, and the grant's partitions in it."""
        ...

    async def admit(
        self, snapshot: Snapshot, relations: Mapping[str, list[str] | None], *, deadline_s: float
    ) -> Admitted:
        """The sources of the relations a checked statement reads; UnavailableError after so many seconds."""
        ...

    async def close(self) -> None:
        """Give back the lease; end what was started."""
        ...


class Admitter:
    """The trusted reader in a thread of this process, one question at a time, off the event loop."""

    def __init__(self, reader: Reader) -> None:
        self._trusted = TrustedReader(reader)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="admitter")

    async def start(self) -> None:
        """Nothing: the thread starts with the first question."""

    async def snapshot(self, grant: Grant) -> Snapshot:
        """The newest generation, pinned, and the grant's partitions in it."""
        generation = await self._ask(self._trusted.pin)
        return await snapshot_of(
            grant, generation, meant=lambda it: self._ask(self._trusted.partitions, generation, it)
        )

    async def admit(
        self, snapshot: Snapshot, relations: Mapping[str, list[str] | None], *, deadline_s: float
    ) -> Admitted:
        """The sources of the relations a checked statement reads; the one caller waits as long as it takes."""
        del deadline_s
        return await self._ask(self._trusted.admit, snapshot.generation, snapshot.partitions, relations)

    async def close(self) -> None:
        """Give back the lease and stop the thread."""
        with contextlib.suppress(RuntimeError):
            await self._ask(self._trusted.release)
        self._thread.shutdown(wait=True)

    async def _ask(self, question: Callable[P, T], *arguments: P.args, **_named: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, question, *arguments)
