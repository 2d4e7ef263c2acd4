"""The edge's side of the workers: forked ahead of need, used once, killed without asking (query-plane.md, "Worker").

`WorkerPool.acquire` gives a fresh worker at once when a spare is ready. A `Worker` speaks `query_plane.wire`; whatever
it says is bounded and decoded, never trusted. `close` kills it by its pidfd, so that a reused pid is never hit.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

import msgspec

from polyc.errors import UnavailableError
from polyc.limits import PARSE_DEADLINE_S
from query_plane import wire
from query_plane.seal import Sandbox
from query_plane.wire import FORK, PID

_RECEIVE_SIZE_BYTES: Final = 1 << 18
_FORK_DEADLINE_S: Final = 20.0  # the zygote's first fork waits for its imports on a loaded machine
_PROBE_DEADLINE_S: Final = 60.0
_NICE_AFTER_S: Final = 0.5  # a statement that runs longer yields to the short ones
_NICE: Final = 15
_REFILL_LATER_S: Final = 0.02  # a new spare is made when the answer that took the old one is out


class WorkerLostError(Exception):
    """The worker ended or spoke nonsense before its answer was complete."""


class Worker:
    """One worker and the one conversation with it."""

    def __init__(
        self, connection: socket.socket, *, pid: int, pidfd: int, on_close: Callable[[], None] | None = None
    ) -> None:
        connection.setblocking(False)
        self._on_close = on_close
        self._socket = connection
        self._buffer = bytearray()
        self._pidfd = pidfd
        self.pid = pid
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._aging: asyncio.TimerHandle | None = None

    async def check(self, message: wire.Check) -> wire.Checked | wire.Refused:
        """The first parser's verdict; WorkerLostError when it takes too long."""
        try:
            async with asyncio.timeout(PARSE_DEADLINE_S):
                await self._loop.sock_sendall(self._socket, wire.framed(message))
                answer = await self._receive()
        except TimeoutError:
            raise WorkerLostError("parsing took too long") from None
        except OSError:
            raise WorkerLostError("the worker is gone") from None
        if not isinstance(answer, wire.Checked | wire.Refused):
            raise WorkerLostError("the worker answered out of turn")
        return answer

    async def probe(self, message: wire.Probe, descriptors: Sequence[int]) -> wire.Passed:
        """What of the probe passed."""
        try:
            async with asyncio.timeout(_PROBE_DEADLINE_S):
                rest = wire.send_with_descriptors(self._socket, message, descriptors)
                await self._loop.sock_sendall(self._socket, rest)
                answer = await self._receive()
        except (OSError, TimeoutError):
            raise WorkerLostError("the worker is gone") from None
        if not isinstance(answer, wire.Passed):
            raise WorkerLostError("the worker answered out of turn")
        return answer

    async def run(
        self, message: wire.Run, descriptors: Sequence[int]
    ) -> AsyncGenerator[wire.Started | wire.Rows | wire.Finished | wire.Refused, None]:
        """Start the job and yield what the worker says, to the end of its answer."""
        try:
            rest = wire.send_with_descriptors(self._socket, message, descriptors)
            await self._loop.sock_sendall(self._socket, rest)
            self._aging = self._loop.call_later(_NICE_AFTER_S, self._age)
            while True:
                answer = await self._receive()
                if isinstance(answer, wire.Checked | wire.Passed):
                    raise WorkerLostError("the worker answered out of turn")
                yield answer
                if isinstance(answer, wire.Finished | wire.Refused):
                    return
        except OSError:
            raise WorkerLostError("the worker is gone") from None

    def kill(self) -> None:
        """End the worker, whatever it does; who listens to it sees the end of its stream."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Kill the worker and let go of it; idempotent."""
        if self._pidfd < 0:
            return
        if self._aging is not None:
            self._aging.cancel()
        self.kill()
        os.close(self._pidfd)
        self._pidfd = -1
        self._socket.close()
        if self._on_close is not None:
            self._on_close()

    def _age(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, self.pid, _NICE)

    async def _receive(self) -> wire.FromWorker:
        head = await self._exactly(wire.LENGTH.size)
        try:
            body = await self._exactly(wire.check_length(head))
            return wire.decode_from_worker(body)
        except (ValueError, msgspec.DecodeError):
            raise WorkerLostError("the worker spoke nonsense") from None

    async def _exactly(self, size_bytes: int) -> bytes:
        while len(self._buffer) < size_bytes:
            chunk = await self._loop.sock_recv(self._socket, _RECEIVE_SIZE_BYTES)
            if not chunk:
                raise WorkerLostError("the worker ended")
            self._buffer += chunk
        data = bytes(memoryview(self._buffer)[:size_bytes])
        del self._buffer[:size_bytes]
        return data


class WorkerPool:
    """A zygote and its spares; belongs to one event loop.

    `once` makes the spares one time only: a process that asks one question needs no second worker.
    """

    def __init__(self, *, spares: int, sandbox: Sandbox = "auto", once: bool = False) -> None:
        self._once = once
        self._spares_wanted = spares
        self._sandbox = sandbox
        self._spares: list[Worker] = []
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        self._zygote = subprocess.Popen(
            [sys.executable, "-E", "-P", "-s", "-m", "query_plane.zygote", str(theirs.fileno()), sandbox],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8", "TZ": "UTC", "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"},
            close_fds=True,
        )
        theirs.close()
        self._lock = asyncio.Lock()
        self._refilling: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_for_one_question(self) -> bool:
        """Whether its process asks once and ends."""
        return self._once

    async def acquire(self) -> Worker:
        """A fresh worker; UnavailableError when none can be made."""
        if self._once and self._refilling is not None:
            await self._refilling
        worker = self._spares.pop() if self._spares else await self._fork()
        if not self._spares:
            self._refill_unless_once()  # callers come at once; else the next spare is made when this query is over
        return worker

    def start(self) -> None:
        """Begin to make the spares, beside whatever the caller does next."""
        self._refill()

    async def prefork(self) -> None:
        """Have the spares ready."""
        self._refill()
        if self._refilling is not None:
            await self._refilling

    async def close(self) -> None:
        """Kill the spares and the zygote."""
        self._closed = True
        if self._refilling is not None:
            self._refilling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._refilling
        for worker in self._spares:
            worker.close()
        self._spares.clear()
        self._control.close()
        self._zygote.kill()
        self._zygote.wait()

    def _refill_unless_once(self) -> None:
        if not self._once:
            self._refill()

    def _refill_later(self) -> None:
        asyncio.get_running_loop().call_later(_REFILL_LATER_S, self._refill_unless_once)

    def _refill(self) -> None:
        if self._closed or (self._refilling is not None and not self._refilling.done()):
            return
        if len(self._spares) < self._spares_wanted:
            self._refilling = asyncio.get_running_loop().create_task(self._fill())

    async def _fill(self) -> None:
        while len(self._spares) < self._spares_wanted:
            try:
                self._spares.insert(0, await self._fork())
            except UnavailableError:
                return  # the next acquire tells its caller

    async def _fork(self) -> Worker:
        connection, pid, pidfd = await self.fork(FORK)
        return Worker(connection, pid=pid, pidfd=pidfd, on_close=self._refill_later)

    async def fork(self, kind: bytes) -> tuple[socket.socket, int, int]:
        """Ask the zygote for a process: its socket, pid and pidfd; answers come in the order of the questions."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            try:
                async with asyncio.timeout(_FORK_DEADLINE_S):
                    await loop.sock_sendall(self._control, kind)
                    data, descriptors = await self._answer(loop)
            except (OSError, TimeoutError):
                raise UnavailableError("no worker can be started", hint="try again") from None
        if len(data) != PID.size or len(descriptors) != 2:
            raise UnavailableError("no worker can be started", hint="the worker process ended; restart the edge")
        (pid,) = PID.unpack(data)
        return socket.socket(fileno=descriptors[0]), pid, descriptors[1]

    async def _answer(self, loop: asyncio.AbstractEventLoop) -> tuple[bytes, list[int]]:
        ready = loop.create_future()

        def readable() -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(self._control, readable)
        try:
            await ready
        finally:
            loop.remove_reader(self._control)
        data, descriptors, _flags, _address = socket.recv_fds(self._control, PID.size, 2)
        return data, descriptors
