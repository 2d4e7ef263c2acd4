"""The edge's side of the admitters: processes that hold the trusted reader, each asked one question at a time.

The edge pins generations itself (a lease outlives whatever happens to an admitter) and asks the rest. An admitter that
ends, speaks nonsense or works longer than its query may live is killed and another one is started: that is one failed
query and nobody else's. A caller that leaves in the middle of a question does not kill it; the answer is dropped.
"""

import asyncio
import contextlib
import os
import select
import signal
import socket
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from artifacts.newest import Newest, Pins
from polyc.errors import UnavailableError
from polyc.grants import ByReference, Grant
from polyc.limits import ADMISSION_SIZE_BYTES_MAX, QUERY_DEADLINE_S, SCOPES_REMEMBERED_MAX
from query_plane import admission_wire as wire
from query_plane.admission import Snapshot, snapshot_of
from query_plane.pool import WorkerPool
from query_plane.trusted import Admitted, Pinned, pinned_of
from query_plane.wire import DESCRIPTORS_MAX, FORK_ADMITTER, LENGTH

T = TypeVar("T")

_OPEN_DEADLINE_S: Final = 20.0  # its imports, on a loaded machine
_DONE_DEADLINE_S: Final = 2.0  # to let go of a statement's scans; else it is killed
_RECEIVE_SIZE_BYTES: Final = 1 << 18


class AdmitterLostError(Exception):
    """The admitter ended or spoke nonsense before it answered."""


class AdmitterProcess:
    """One admitter and the one conversation with it."""

    def __init__(self, connection: socket.socket, *, pid: int, pidfd: int) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._pidfd = pidfd
        self._loop = asyncio.get_running_loop()
        self.pid = pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._pidfd >= 0 and not select.select([self._pidfd], [], [], 0)[0]

    async def ask(self, question: wire.ToAdmitter) -> tuple[wire.FromAdmitter, list[int]]:
        """The answer and its descriptors; AdmitterLostError when there will be none."""
        descriptors: list[int] = []
        try:
            await self._loop.sock_sendall(self._socket, wire.framed(question))
            head = await self._head(descriptors)
            (length,) = LENGTH.unpack(head)
            body = bytearray()
            while len(body) < length:
                chunk = await self._loop.sock_recv(self._socket, min(length - len(body), _RECEIVE_SIZE_BYTES))
                if not chunk:
                    raise AdmitterLostError
                body += chunk
            return wire.decode_answer(body), descriptors
        except (OSError, msgspec.DecodeError):
            _close_all(descriptors)
            raise AdmitterLostError from None
        except BaseException:
            _close_all(descriptors)
            raise

    def close(self) -> None:
        """Kill it and let go of it; idempotent."""
        if self._pidfd < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        os.close(self._pidfd)
        self._pidfd = -1
        self._socket.close()

    async def _head(self, descriptors: list[int]) -> bytes:
        """The length of the answer, with the descriptors that ride on it."""
        head = b""
        while len(head) < LENGTH.size:
            await self._readable()
            with contextlib.suppress(BlockingIOError):
                data, found, _flags, _address = socket.recv_fds(self._socket, LENGTH.size - len(head), DESCRIPTORS_MAX)
                descriptors += found
                if not data:
                    raise AdmitterLostError
                head += data
        return head

    async def _readable(self) -> None:
        ready = self._loop.create_future()
        self._loop.add_reader(self._socket, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
        finally:
            self._loop.remove_reader(self._socket)


class AdmitterPool:
    """Some admitters, replaced as they are lost; belongs to one event loop."""

    def __init__(
        self,
        workers: WorkerPool,
        *,
        root: Path,
        newest: Newest,
        pins: Pins,
        count: int,
        eager_size_bytes_max: int = ADMISSION_SIZE_BYTES_MAX,
    ) -> None:
        self._workers = workers
        self._open = wire.Open(root=str(root.absolute()), eager_size_bytes_max=eager_size_bytes_max)
        self._newest = newest
        self._pins = pins
        self._count = count
        self._turns = asyncio.Semaphore(count)
        self._idle: list[AdmitterProcess] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pins")
        self._pinning = 0  # looks that are under way in the thread
        self._generation: Pinned | None = None  # what the last look pinned
        self._resolved: OrderedDict[tuple[str, ByReference], tuple[str, ...]] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def start(self) -> None:
        """Have them ready."""
        while len(self._idle) < self._count:
            self._idle.append(await self._started())

    async def snapshot(self, grant: Grant) -> Snapshot:
        """The newest generation, pinned, and the grant's partitions in it."""
        generation = self._unchanged() or await self._pinned()
        return await snapshot_of(grant, generation, meant=lambda it: self._partitions(generation, it))

    async def admit(
        self, snapshot: Snapshot, relations: Mapping[str, list[str] | None], *, deadline_s: float
    ) -> Admitted:
        """The sources of the relations a checked statement reads; UnavailableError after so many seconds."""
        if not relations:
            return Admitted()
        question = wire.Admit(generation=snapshot.generation, partitions=snapshot.partitions, relations=dict(relations))
        answer, admitted = await self._ask(question, deadline_s=deadline_s)
        assert isinstance(answer, wire.Handed), "an admitter answers what it was asked"
        return admitted

    async def close(self) -> None:
        """Give back the lease; kill the admitters."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._idle:
            self._idle.pop().close()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._pins.release)
        self._thread.shutdown(wait=True)

    def _unchanged(self) -> Pinned | None:
        """What is pinned, when that is still the newest generation: a look at three names, not worth a thread."""
        if self._pinning or self._generation is None or not self._pins.is_newest(self._newest):
            return None
        return self._generation

    async def _pinned(self) -> Pinned:
        """The newest generation, pinned: a new one is verified and leased, which is not for the event loop."""
        self._pinning += 1
        try:
            pin = await asyncio.get_running_loop().run_in_executor(self._thread, self._pins.hold, self._newest)
        finally:
            self._pinning -= 1
        self._generation = pinned_of(pin.manifest)
        return self._generation

    async def _partitions(self, generation: Pinned, reference: ByReference) -> tuple[str, ...]:
        """The partitions of a grant by reference: both are values, so what was found is remembered."""
        known = self._resolved.get((generation.sha256, reference))
        if known is not None:
            return known
        question = wire.Partitions(
            generation=generation,
            persona_id=reference.persona_id,
            index=reference.index,
            digest=reference.digest,
            count=reference.count,
        )
        answer, _ = await self._ask(question, deadline_s=QUERY_DEADLINE_S)
        assert isinstance(answer, wire.Found), "an admitter answers what it was asked"
        self._resolved[generation.sha256, reference] = answer.partitions
        if len(self._resolved) > SCOPES_REMEMBERED_MAX:
            self._resolved.popitem(last=False)
        return answer.partitions

    async def _ask(self, question: wire.ToAdmitter, *, deadline_s: float) -> tuple[wire.FromAdmitter, Admitted]:
        """The answer; a caller that is cancelled leaves the question to itself."""
        asking = self._keep(self._asked(question, deadline_s=deadline_s))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(_end_unwanted)
            raise

    async def _asked(self, question: wire.ToAdmitter, *, deadline_s: float) -> tuple[wire.FromAdmitter, Admitted]:
        async with self._turns:
            admitter = await self._one()
            try:
                async with asyncio.timeout(deadline_s):
                    answer, descriptors = await admitter.ask(question)
            except BaseException as error:
                admitter.close()
                self._replace()
                if isinstance(error, TimeoutError):
                    raise UnavailableError(
                        "the rows of the scope took longer to read than a statement may take",
                        code="deadline_exceeded",
                        hint="name fewer columns or conversations",
                    ) from None
                if isinstance(error, AdmitterLostError):
                    raise UnavailableError("the admitter ended before its answer", hint="try again") from None
                raise
        if isinstance(answer, wire.Handed):
            admitted = Admitted(sources=answer.sources, paths=answer.paths, descriptors=descriptors)
            if answer.doors:
                admitted.on_end = lambda: self._give_back(admitter)
                return answer, admitted
            self._take_in(admitter)
            return answer, admitted
        self._take_in(admitter)
        if isinstance(answer, wire.Failed):
            raise wire.error_of(answer)
        return answer, Admitted()

    async def _one(self) -> AdmitterProcess:
        """An idle admitter that lives, else a new one."""
        while self._idle:
            admitter = self._idle.pop()
            if admitter.is_alive:
                return admitter
            admitter.close()
        return await self._started()

    async def _started(self) -> AdmitterProcess:
        connection, pid, pidfd = await self._workers.fork(FORK_ADMITTER)
        admitter = AdmitterProcess(connection, pid=pid, pidfd=pidfd)
        try:
            async with asyncio.timeout(_OPEN_DEADLINE_S):
                answer, _ = await admitter.ask(self._open)
            if isinstance(answer, wire.Failed):
                raise wire.error_of(answer)
        except (AdmitterLostError, TimeoutError):
            admitter.close()
            raise UnavailableError("no admitter can be started", hint="try again") from None
        except BaseException:
            admitter.close()
            raise
        return admitter

    def _take_in(self, admitter: AdmitterProcess) -> None:
        if self._closed or len(self._idle) >= self._count:
            admitter.close()
        else:
            self._idle.append(admitter)

    def _replace(self) -> None:
        """Start another one ahead of need; who needs one before it is there starts one, too."""
        if not self._closed:
            self._keep(self._refilled())

    async def _refilled(self) -> None:
        with contextlib.suppress(UnavailableError):  # the next question tells its caller
            self._take_in(await self._started())

    def _give_back(self, admitter: AdmitterProcess) -> None:
        """Take back an admitter whose statement is over."""
        if self._closed:
            admitter.close()
        else:
            self._keep(self._done(admitter))

    async def _done(self, admitter: AdmitterProcess) -> None:
        try:
            async with asyncio.timeout(_DONE_DEADLINE_S):
                await admitter.ask(wire.Done())
        except (AdmitterLostError, TimeoutError):
            admitter.close()
        else:
            self._take_in(admitter)

    def _keep(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _end_unwanted(asking: "asyncio.Task[tuple[wire.FromAdmitter, Admitted]]") -> None:
    if not asking.cancelled() and asking.exception() is None:
        asking.result()[1].end()


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
