"""A core in the test's own event loop, over the real deployment; its journal can be taken away at each audit write."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from polyc.appending import Ack, Head, JournalPort, SignedAppend
from polyc.errors import UnavailableError
from query_plane.core import QueryCore, Request
from query_plane.local import bearer_header
from query_plane.pool import WorkerPool
from query_plane.runtime import Settings, open_core
from query_plane.seal import Sandbox
from tests.query_plane.deployment import Deployment


class Journal:
    """The deployment's journal as a port that remembers the audit and fails when told: `before` or `after` the write."""

    def __init__(self, real: JournalPort) -> None:
        self._real = real
        self.origin = real.origin
        self.events: list[dict] = []
        self.fails: dict[str, str] = {}

    def head(self, partition: str) -> Head | None:
        return self._real.head(partition)

    def append(self, signed: SignedAppend) -> Ack:
        event = json.loads(signed.entries[0].payload)
        failing = self.fails.get(event["type"])
        if failing == "before":
            raise UnavailableError("the journal is away")
        ack = self._real.append(signed)
        if not ack.repeated:
            self.events.append(event)
        if failing == "after":
            raise UnavailableError("the journal is away, and nobody knows what it did")
        return ack

    def intents(self) -> list[dict]:
        return [event for event in self.events if event["type"] == "query_intent"]

    def outcomes(self) -> list[tuple]:
        return [(e["status"], e.get("error_code")) for e in self.events if e["type"] == "query_outcome"]


@asynccontextmanager
async def core_of(
    deployment: Deployment, journal: Journal, *, sandbox: Sandbox = "require", **settings
) -> AsyncIterator[QueryCore]:
    pool = WorkerPool(spares=2, sandbox=sandbox)
    try:
        async with open_core(
            deployment.root,
            journal=journal,
            clock=deployment.clock,
            ids=deployment.ids,
            settings=Settings(**settings),
            pool=pool,
        ) as opened:
            yield opened.core
    finally:
        await pool.close()


async def ask(core: QueryCore, token: str, sql: str, **options) -> list:
    """All frames of a statement."""
    async with aclosing(core.execute(bearer_header(token), reading(sql, **options))) as frames:
        return [frame async for frame in frames]


def reading(sql: str, **options):
    async def read() -> Request:
        return Request(sql=sql, **options)

    return read


async def drain(stream) -> None:
    async for _ in stream:
        pass


async def until(predicate) -> None:
    """Wait for something that another thread does; the test's own timeout bounds it."""
    async with asyncio.timeout(20):
        while not predicate():  # noqa: ASYNC110 a plain object changes, there is no event to wait for
            await asyncio.sleep(0.005)


def run(coroutine):
    return asyncio.run(coroutine)


class Loop:
    """An event loop in a thread of its own, with one core in it: starting workers' processes once is enough."""

    def __init__(self, deployment: Deployment) -> None:
        self.journal = Journal(deployment.journal)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._context = core_of(deployment, self.journal)
        self.core = self.run(self._context.__aenter__())

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def close(self) -> None:
        self.run(self._context.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
