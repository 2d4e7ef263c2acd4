"""Approvals: a call waits until somebody who participates decides, or its time is over, or its turn ends.

A request has one outcome, and the outcome is on record before anybody acts on it: the harness's call goes on only
after `approval_decided` is sealed. Requests wait in this process; when it dies, their turn is fenced and they are
moot. Runs on the event loop; appends run off it.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from starlette.concurrency import run_in_threadpool

from control import conversations
from control.context import ControlContext
from control.dispatches import LiveDispatch
from control.edges import append_edge
from facts.events import ApprovalDecided, ApprovalRequested
from polyc.errors import PolycError, RefusedError
from polyc.limits import APPROVALS_WAITING_MAX, JOURNAL_RETRY_S

Outcome = Literal["approved", "denied", "expired", "cancelled"]


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """A request that waits, or has its outcome. `approval_id` names it to approvers."""

    approval_id: str
    request_id: str
    dispatch: LiveDispatch
    tool_name: str
    arguments: str | None
    requested_at_ms: int
    expires_at_ms: int
    outcome: Outcome | None = None
    decided_by: str | None = None
    reason: str | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    decided: asyncio.Event = field(default_factory=asyncio.Event)


class ApprovalDesk:
    """The requests of this process's dispatches."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._requests: dict[str, Request] = {}
        self._clocks: dict[str, asyncio.Task[None]] = {}

    async def request(
        self, dispatch: LiveDispatch, *, request_id: str, tool_name: str, arguments: str | None, wait_s: float
    ) -> Request:
        """Record the request and let it wait; the same request asked again is the same one."""
        known = self._find(dispatch, request_id)
        if known is not None:
            return known
        if sum(item.outcome is None for item in self._requests.values()) >= APPROVALS_WAITING_MAX:
            raise RefusedError("too many approvals are waiting", code="resource_exhausted")
        now_ms = self._context.clock.now_us() // 1000
        call = dispatch.calls.get(request_id)
        request = Request(
            approval_id=self._context.new_id(),
            request_id=request_id,
            dispatch=dispatch,
            tool_name=tool_name,
            arguments=arguments if call is None else call.arguments,
            requested_at_ms=now_ms,
            expires_at_ms=now_ms + round(wait_s * 1000),
        )
        self._requests[request.approval_id] = request
        event = ApprovalRequested(
            id=request.approval_id,
            occurred_at=_instant(now_ms),
            dispatch_id=dispatch.dispatch_id,
            request_id=request_id,
            tool_name=tool_name,
            expires_at=_instant(request.expires_at_ms),
        )
        try:
            await run_in_threadpool(append_edge, self._context, dispatch, [event])
        except BaseException:
            del self._requests[request.approval_id]
            raise
        self._clocks[request.approval_id] = asyncio.create_task(self._expire(request, wait_s))
        return request

    async def decide(
        self, approval_id: str, *, persona_id: str, outcome: Literal["approved", "denied"], reason: str | None
    ) -> Request:
        """Record a participant's decision; RefusedError when the request is not theirs or has its outcome."""
        request = self._requests.get(approval_id)
        if request is None:
            raise RefusedError("no such approval", code="not_found")
        await run_in_threadpool(conversations.check_participant, self._context, request.dispatch.partition, persona_id)
        if not await self._settle(request, outcome, decided_by=persona_id, reason=reason):
            raise RefusedError(f"the request was {request.outcome} before", code="failed_precondition")
        return request

    async def waiting_for(self, persona_id: str) -> list[Request]:
        """The requests this persona may decide, oldest first."""

        def mine() -> set[str]:
            with self._context.index.view() as state:
                return set(state.personas.scope_of(persona_id))

        partitions = await run_in_threadpool(mine)
        return [
            item for item in self._requests.values() if item.outcome is None and item.dispatch.partition in partitions
        ]

    async def cancel_all(self, dispatch: LiveDispatch) -> None:
        """The turn ends: what still waits is cancelled, on record, and everything of it is forgotten."""
        for request in [item for item in self._requests.values() if item.dispatch is dispatch]:
            try:
                await self._settle(request, "cancelled", decided_by=None, reason="turn_ended")
            finally:
                request.outcome = request.outcome or "cancelled"
                request.decided.set()
                self._requests.pop(request.approval_id, None)
                clock = self._clocks.pop(request.approval_id, None)
                if clock is not None:
                    clock.cancel()

    async def _expire(self, request: Request, wait_s: float) -> None:
        try:
            await asyncio.wait_for(request.decided.wait(), wait_s)
        except TimeoutError:
            while request.outcome is None:
                try:
                    await self._settle(request, "expired", decided_by=None, reason="no_decision")
                except RefusedError:
                    request.outcome = "expired"  # the fence is closed: the turn is over and nobody acts on it
                    request.decided.set()
                except PolycError:
                    await asyncio.sleep(JOURNAL_RETRY_S)

    async def _settle(self, request: Request, outcome: Outcome, *, decided_by: str | None, reason: str | None) -> bool:
        """Record the outcome unless there is one; False when there was, or when a person decides too late.

        The request's own time is what counts, not when its timer gets to run: a decision that comes at the expiry or
        after it expires the request, as the fold would judge it (`facts.approvals`).
        """
        async with request.lock:
            if request.outcome is not None:
                return False
            now_ms = self._context.clock.now_us() // 1000
            in_time = decided_by is None or now_ms < request.expires_at_ms
            if not in_time:
                outcome, decided_by, reason = "expired", None, "no_decision"
            event = ApprovalDecided(
                id=self._context.new_id(),
                occurred_at=_instant(now_ms),
                dispatch_id=request.dispatch.dispatch_id,
                request_id=request.request_id,
                outcome=outcome,
                decided_by=decided_by,
                reason=reason,
            )
            await run_in_threadpool(append_edge, self._context, request.dispatch, [event])
            request.outcome, request.decided_by, request.reason = outcome, decided_by, reason
            request.decided.set()
            return in_time

    def _find(self, dispatch: LiveDispatch, request_id: str) -> Request | None:
        return next(
            (item for item in self._requests.values() if item.dispatch is dispatch and item.request_id == request_id),
            None,
        )


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
