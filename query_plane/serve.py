"""The Query edge as a process: HTTP/1.1 on TCP, gRPC on the private socket.

HTTP/2 is not offered on TCP: the servers at hand buffer without bound there for a reader that stalls (query-plane.md).
"""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final

import uvicorn

from polyc.appending import JournalPort
from polyc.clock import Clock
from polyc.dataroot import DataRoot
from polyc.errors import UnavailableError
from polyc.ids import IdSource
from query_plane import grpc_door
from query_plane.asgi import App
from query_plane.core import QueryCore
from query_plane.edge import create_app
from query_plane.http1 import BoundedProtocol
from query_plane.pool import WorkerPool
from query_plane.runtime import Settings, open_core
from query_plane.searching import SearchCore, engine_of
from query_plane.selftest import self_test

_GRACE_S: Final = 5  # answers that stream when the process is told to end


def serve(
    root: DataRoot,
    *,
    port: int,
    journal: JournalPort,
    clock: Clock,
    ids: IdSource,
    host: str = "127.0.0.1",
    settings: Settings | None = None,
    origins: Collection[str] = (),
    ready: Callable[[int], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Serve until `stop` is set or the process is told to end; `ready` is called with the port once it listens."""
    listener = _listen(host, port)
    asyncio.run(
        _serve(
            root,
            listener,
            journal=journal,
            clock=clock,
            ids=ids,
            settings=settings or Settings(),
            origins=origins,
            ready=ready,
            stop=stop or threading.Event(),
        )
    )


async def _serve(
    root: DataRoot,
    listener: socket.socket,
    *,
    journal: JournalPort,
    clock: Clock,
    ids: IdSource,
    settings: Settings,
    origins: Collection[str],
    ready: Callable[[int], None] | None,
    stop: threading.Event,
) -> None:
    pool = WorkerPool(spares=settings.spares, sandbox=settings.sandbox)
    try:
        async with open_core(root, journal=journal, clock=clock, ids=ids, settings=settings, pool=pool) as opened:
            await pool.prefork()
            await opened.admitter.start()
            await self_test(pool, keys=root.keys, folder=root.path / "edge", sandbox=settings.sandbox)
            search = SearchCore(
                trust=opened.trust,
                admitter=opened.admitter,
                audit=opened.audit,
                slots=opened.slots,
                clock=clock,
                engine=engine_of(root),
            )
            app = create_app(opened.core, search=search, origins=origins)
            try:
                async with (
                    grpc_door.serving(opened.core, root.socket("query"), search=search),
                    _flight(opened.core, settings),
                ):
                    await _listen_and_serve(app, listener, ready=ready, stop=stop)
            finally:
                await search.close()
    finally:
        await pool.close()


@asynccontextmanager
async def _flight(core: QueryCore, settings: Settings) -> AsyncIterator[None]:
    """The Flight SQL door, where one was asked for."""
    if settings.flight_port is None:
        yield
        return
    from query_plane import flight  # noqa: PLC0415 an optional door brings its own weight

    door = flight.start(core, port=settings.flight_port)
    try:
        yield
    finally:
        await asyncio.to_thread(door.shutdown)


class _Server(uvicorn.Server):
    """uvicorn, telling when it listens."""

    def __init__(self, config: uvicorn.Config, *, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()


async def _listen_and_serve(
    app: App,
    listener: socket.socket,
    *,
    ready: Callable[[int], None] | None,
    stop: threading.Event,
) -> None:
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nobody here asks where a caller is, so nobody is told by a header
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_S,
    )
    port: int = listener.getsockname()[1]
    server = _Server(config, ready=lambda: ready(port) if ready is not None else None)

    def end_when_told() -> None:
        stop.wait()
        server.should_exit = True

    # A daemon: a server that ends by a signal does not wait for an event that never comes.
    threading.Thread(target=end_when_told, name="stop", daemon=True).start()
    await server.serve(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio switches off the delay of small segments; without it an answer takes 40 ms more.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UnavailableError(f"port {port} cannot be bound", hint="choose another with --port") from error
    listener.listen(128)
    return listener
