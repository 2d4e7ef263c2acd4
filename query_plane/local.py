"""`polyc query` and `polyc sql` without a running edge: the same core, in this process, with sealed workers.

The worker's process is started first and imports while this one opens the artifacts: nothing waits for the other.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from polyc.appending import JournalPort
from polyc.clock import Clock
from polyc.dataroot import DataRoot
from polyc.ids import IdSource
from polyc.limits import QUERY_DEADLINE_S
from query_plane.answer import Answer, Catalog, gather
from query_plane.pool import WorkerPool
from query_plane.seal import Sandbox
from query_plane.wire import Want

if TYPE_CHECKING:
    from query_plane.core import QueryCore


def run_local(
    root: DataRoot,
    token: str,
    sql: str,
    *,
    port: JournalPort,
    clock: Clock,
    ids: IdSource,
    row_limit: int | None = None,
    parameters: Mapping[str, object] | None = None,
    timeout_s: float | None = None,
    want: Want = "json",
    sandbox: Sandbox = "auto",
) -> Answer:
    """Run one statement under the token's grant; the audit goes through the port."""

    async def run() -> Answer:
        async with _core(root, port=port, clock=clock, ids=ids, sandbox=sandbox) as core:
            return await _answer(
                core, token, sql, row_limit=row_limit, parameters=parameters, timeout_s=timeout_s, want=want
            )

    return asyncio.run(run())


class LocalSession:
    """A core that stays for a conversation: `polyc sql` asks one statement after the other without starting anew.

    Ctrl-C cancels the statement that runs, records that, and leaves the session as it is.
    """

    def __init__(self, root: DataRoot, *, port: JournalPort, clock: Clock, ids: IdSource) -> None:
        self._runner = asyncio.Runner()
        self._context = _core(root, port=port, clock=clock, ids=ids, sandbox="auto", once=False)

    def __enter__(self) -> Self:
        self._core = self._runner.run(self._context.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._context.__aexit__(None, None, None))
        self._runner.close()

    def run(self, token: str, sql: str) -> Answer:
        """Run one statement under the token's grant."""
        return self._runner.run(_answer(self._core, token, sql))

    def catalog(self, token: str) -> Catalog:
        """What the token's realm may name."""
        return self._core.catalog(bearer_header(token))


def explain_local(root: DataRoot, token: str, sql: str, *, port: JournalPort, clock: Clock, ids: IdSource) -> str:
    """The engine's plan of a statement; admin grants only."""
    answer = run_local(root, token, f"EXPLAIN {sql}", port=port, clock=clock, ids=ids)
    return plan_text(answer)


def plan_text(answer: Answer) -> str:
    """The plan in an answer to EXPLAIN."""
    return "\n".join(str(row[-1]) for row in answer.rows)


def bearer_header(token: str) -> list[tuple[bytes, bytes]]:
    """The one header pair a core reads."""
    return [(b"authorization", b"Bearer " + token.encode("utf-8", "replace"))]


async def _answer(
    core: "QueryCore",
    token: str,
    sql: str,
    *,
    row_limit: int | None = None,
    parameters: Mapping[str, object] | None = None,
    timeout_s: float | None = None,
    want: Want = "json",
) -> Answer:
    from query_plane.core import Request  # noqa: PLC0415 the worker's process is already on its way

    request = Request(
        sql=sql,
        parameters=dict(parameters or {}),
        row_limit=row_limit,
        want=want,
        deadline_s=QUERY_DEADLINE_S if timeout_s is None else timeout_s,
    )

    async def read() -> Request:
        return request

    async with aclosing(core.execute(bearer_header(token), read)) as frames:
        return gather([frame async for frame in frames], want=want)


@asynccontextmanager
async def _core(
    root: DataRoot, *, port: JournalPort, clock: Clock, ids: IdSource, sandbox: Sandbox, once: bool = True
) -> AsyncIterator["QueryCore"]:
    pool = WorkerPool(spares=1, sandbox=sandbox, once=once)
    try:
        pool.start()
        await asyncio.sleep(0)  # the request for a worker leaves before this thread is busy with imports
        from query_plane.runtime import Settings, open_core  # noqa: PLC0415 see the module's docstring

        settings = Settings(sandbox=sandbox, spares=0, admitters=1)
        async with open_core(root, journal=port, clock=clock, ids=ids, settings=settings, pool=pool) as opened:
            yield opened.core
    finally:
        await pool.close()
