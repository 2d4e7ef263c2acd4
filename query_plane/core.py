"""The path of a query: one statement, under one grant, over pinned artifacts, on record before and after.

Every door (Connect, plain JSON, gRPC, Flight SQL, the command line) comes through `QueryCore.execute`; there is no
other way to a worker. It holds no key that can mint a grant and no state that outlives a query.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from polyc.clock import Clock
from polyc.errors import Code, PolycError, RefusedError, UnavailableError
from polyc.grants import Grant, GrantRefusedError, bearer_of
from polyc.limits import (
    KILL_AFTER_DEADLINE_S,
    QUERY_DEADLINE_S,
    RESULT_SIZE_BYTES_MAX,
    ROW_LIMIT_DEFAULT,
    ROW_LIMIT_MAX,
)
from polyc.published import EdgeTrust
from query_plane import wire
from query_plane.admission import Admission, Snapshot
from query_plane.answer import BatchFrame, Catalog, Column, Frame, SchemaFrame, Trailer, TrailerFrame
from query_plane.audit import AuditLog, Intent, Outcome, Status
from query_plane.lexing import check_bounds
from query_plane.metrics import Metrics, span
from query_plane.names import catalog_of, relations_of
from query_plane.pool import Worker, WorkerLostError, WorkerPool
from query_plane.slots import Slots
from query_plane.trusted import Admitted

Headers = Iterable[tuple[bytes, bytes]]

_REVOCATION_CHECK_S: Final = 1.0  # how long a running answer may outlive its grant's revocation, between frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a caller asks: the text, its parameters, how much of the answer, in which form."""

    sql: str
    parameters: dict[str, Any] = field(default_factory=dict)
    row_limit: int | None = None
    want: wire.Want = "json"
    deadline_s: float = QUERY_DEADLINE_S


class QueryCore:
    """The Query plane without its doors."""

    def __init__(
        self,
        *,
        trust: EdgeTrust,
        admitter: Admission,
        pool: WorkerPool,
        audit: AuditLog,
        slots: Slots,
        clock: Clock,
        fleet_threads: int = 1,
    ) -> None:
        self._trust = trust
        self._admitter = admitter
        self._pool = pool
        self._audit = audit
        self._slots = slots
        self._clock = clock
        self._fleet_threads = fleet_threads
        self.metrics = Metrics()
        self._concluding: set[asyncio.Task[bool]] = set()

    @property
    def held(self) -> int:
        """How many queries run or wait now."""
        return self._slots.held

    def authenticate(self, headers: Headers) -> Grant:
        """Steps 1 and 2 without the scope; doors call it before they read a body."""
        try:
            return self._trust.grant_of(bearer_of(headers))
        except GrantRefusedError as error:
            self.metrics.unauthenticated[error.reason] += 1
            raise

    def catalog(self, headers: Headers) -> Catalog:
        """What the bearer's realm may name."""
        return catalog_of(self.authenticate(headers).realm)

    async def execute(self, headers: Headers, read: Callable[[], Awaitable[Request]]) -> AsyncGenerator[Frame, None]:
        """Run one statement; the frames of its answer, the trailer last.

        1. Authorization: exactly one bearer, before the body is read.  2. Grant: signature, times, revocation; realm
        and scope resolved in the newest generation, which is pinned.  3. Intent, durable; without it nothing runs.
        4. Bounds of the text, before any parser.  5. A worker, and the gate's first parser in it.
        6. Admission: the rows of the tables the statement names.  7. The worker takes them, 8. asks the engine's own
        parser before anything is bound, 9. executes, and the frames stream.  10. Outcome, exactly one, whatever
        happened; then the trailer.
        """
        started_s = self._clock.monotonic_s()
        # 1
        bearer = bearer_of(headers)
        # 2
        grant = self._trust.grant_of(bearer)
        snapshot = await self._admitter.snapshot(grant)
        request = await read()
        # 3
        size = None if snapshot.partitions is None else len(snapshot.partitions)
        with span("intent"):
            intent = await self._audit.intend(grant, request.sql, scope_size=size, as_of=snapshot.as_of)
        run = _Run(intent.query_id, grant=grant, snapshot=snapshot, request=request, started_s=started_s)
        try:
            # 4
            check_bounds(request.sql)
            async with self._slots.hold(grant.subject), aclosing(self._answer(run)) as frames:
                # 5 to 9
                async for frame in frames:
                    yield frame
            run.end("ok", None)
        except PolycError as error:
            run.end("refused" if isinstance(error, RefusedError) else "failed", error.code)
            raise
        except Exception as error:
            run.end("failed", "internal")
            raise QueryFailedError(intent.query_id) from error
        finally:
            # 10
            await self._conclude(intent, run)
        yield run.trailer()

    async def close(self) -> None:
        """Wait for outcomes in flight; then stop the workers, the admitter and the audit."""
        while self._concluding:
            await asyncio.gather(*self._concluding, return_exceptions=True)
        await self._pool.close()
        await self._admitter.close()
        await self._audit.close()

    async def _answer(self, run: "_Run") -> AsyncGenerator[Frame, None]:
        """Steps 5 to 9 in one worker, which is gone afterwards."""
        worker = await self._pool.acquire()
        try:
            # 5
            with span("gate"):
                checked = await worker.check(run.check())
            if isinstance(checked, wire.Refused):
                raise _raised(checked)
            run.reads = bool(checked.relations)
            # 6
            with span("admit"):
                left_s = run.started_s + run.deadline_s - self._clock.monotonic_s()
                admitted = await self._admitter.admit(run.snapshot, checked.relations, deadline_s=left_s)
            try:
                # 7, 8 and 9
                job = run.job(admitted, fleet_threads=self._fleet_threads)
                async with aclosing(self._frames(worker, job, admitted, run)) as frames:
                    async for frame in frames:
                        yield frame
            finally:
                admitted.end()
        except WorkerLostError:
            raise _lost(is_late=self._clock.monotonic_s() - run.started_s >= run.deadline_s) from None
        finally:
            worker.close()

    async def _frames(
        self, worker: Worker, job: wire.Run, admitted: Admitted, run: "_Run"
    ) -> AsyncGenerator[Frame, None]:
        """What the worker says, as frames; it is killed a second after its deadline."""
        kill = asyncio.get_running_loop().call_later(run.deadline_s + KILL_AFTER_DEADLINE_S, worker.kill)
        checked_s = self._clock.monotonic_s()
        try:
            async with aclosing(worker.run(job, admitted.descriptors)) as answers:
                async for answer in answers:
                    match answer:
                        case wire.Started():
                            columns = tuple(Column(name, type_) for name, type_ in answer.columns)
                            yield SchemaFrame(columns=columns, arrow=answer.arrow)
                        case wire.Rows():
                            run.outcome.row_count += answer.count
                            run.outcome.byte_count += answer.size_bytes
                            yield BatchFrame(count=answer.count, body=answer.body)
                        case wire.Refused():
                            raise _raised(answer)
                        case wire.Finished():
                            run.finished = answer
                            run.outcome.truncated = answer.truncated
                    if self._clock.monotonic_s() - checked_s >= _REVOCATION_CHECK_S:
                        checked_s = self._clock.monotonic_s()
                        self._check_revocation(run.grant)
        finally:
            kill.cancel()

    def _check_revocation(self, grant: Grant) -> None:
        """A running answer stops when its grant is revoked; it does not stop for a list that is merely late."""
        with suppress(UnavailableError):
            self._trust.revocations().check(grant)

    async def _conclude(self, intent: Intent, run: "_Run") -> None:
        """Record the outcome, also when this task is being cancelled."""
        seconds, outcome = self._clock.monotonic_s() - run.started_s, run.outcome
        outcome.elapsed_ms = int(1000 * seconds)
        self.metrics.ended(
            status=outcome.status,
            code=outcome.error_code,
            realm=run.grant.realm,
            rows=outcome.row_count,
            size_bytes=outcome.byte_count,
            seconds=seconds,
        )
        task = asyncio.get_running_loop().create_task(self._audit.conclude(intent, run.outcome))
        self._concluding.add(task)
        task.add_done_callback(self._concluding.discard)
        await asyncio.shield(task)


class _Run:
    """One query in flight: what was asked, what was sent, how it ended."""

    def __init__(self, query_id: str, *, grant: Grant, snapshot: Snapshot, request: Request, started_s: float) -> None:
        self.query_id = query_id
        self.grant = grant
        self.snapshot = snapshot
        self.request = request
        self.started_s = started_s
        self.deadline_s = max(0.001, min(request.deadline_s, QUERY_DEADLINE_S))
        self.reads = False
        self.finished: wire.Finished | None = None
        # Whatever ends the generator from outside (a closed connection, a cancelled task) leaves this in place.
        self.outcome = Outcome(status="cancelled", error_code="canceled", as_of=snapshot.as_of)

    def end(self, status: Status, code: Code | None) -> None:
        """How it ended from the inside."""
        self.outcome.status, self.outcome.error_code = status, code

    def check(self) -> wire.Check:
        """The question to the first parser."""
        return wire.Check(
            sql=self.request.sql,
            relations=relations_of(self.grant.realm),
            parameters=self.request.parameters,
            may_explain=self.grant.realm == "fleet" and self.grant.subject.startswith("admin:"),
        )

    def job(self, admitted: Admitted, *, fleet_threads: int) -> wire.Run:
        """The worker's job."""
        limit = ROW_LIMIT_DEFAULT if self.request.row_limit is None else self.request.row_limit
        return wire.Run(
            sources=admitted.sources,
            paths=admitted.paths,
            want=self.request.want,
            row_limit=min(limit, ROW_LIMIT_MAX),
            byte_limit=RESULT_SIZE_BYTES_MAX,
            deadline_ms=int(self.deadline_s * 1000),
            threads=1 if self.snapshot.partitions is not None else fleet_threads,
            trailer={
                "query_id": self.query_id,
                "generations": ",".join(self._generations()),
                "as_of": self._as_of(),
                "frontier": self._frontier(),
            },
        )

    def _generations(self) -> tuple[str, ...]:
        return (self.snapshot.generation.generation_id,) if self.reads else ()

    def _as_of(self) -> str:
        """The log's size, for fleet grants alone (ruling 33)."""
        return str(self.snapshot.as_of) if self.grant.realm == "fleet" else ""

    def _frontier(self) -> str:
        return self.snapshot.generation.frontier_root if self.grant.realm == "fleet" else ""

    def trailer(self) -> TrailerFrame:
        """The last frame."""
        assert self.finished is not None, "a complete answer ends with the worker's end"
        trailer = Trailer(
            query_id=self.query_id,
            row_count=self.outcome.row_count,
            truncated=self.finished.truncated,
            reason=self.finished.reason,
            generations=self._generations(),
            as_of=self._as_of(),
            frontier=self._frontier(),
            elapsed_ms=self.outcome.elapsed_ms,
        )
        return TrailerFrame(trailer=trailer, arrow=self.finished.arrow)


class QueryFailedError(UnavailableError):
    """Something of ours broke: the caller gets the query's id and nothing else."""

    def __init__(self, query_id: str) -> None:
        super().__init__("the query failed", code="internal", hint=f"its id is {query_id}")


def _raised(answer: wire.Refused) -> PolycError:
    family = RefusedError if answer.refused and answer.code != "internal" else UnavailableError
    return family(answer.message, code=answer.code, hint=answer.hint)


def _lost(*, is_late: bool) -> UnavailableError:
    if is_late:
        return UnavailableError(
            "the statement took longer than it may", code="deadline_exceeded", hint="filter or aggregate earlier"
        )
    return UnavailableError(
        "the statement's worker ended before its answer",
        code="resource_exhausted",
        hint="it needed more memory than it may use",
    )
