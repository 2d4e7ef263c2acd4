"""Runs a turn: intent first, then the harness, then the end; what the harness says is recorded as it says it.

The turn is its own task: it goes on when whoever started it goes away. Runs on the event loop; appends run off it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool

from control import turns
from control.approvals import ApprovalDesk
from control.context import ControlContext
from control.dispatches import LiveDispatch
from control.harness.config import ChatConfig, HttpConfig, SubprocessConfig, find_harness
from control.harness.run import run_harness
from control.harness.wire import Done, HarnessSaid, TurnRequest, read_line
from control.history import history_of
from control.turns import TurnEnd
from facts.events import AnyEvent, Message
from polyc.errors import PolycError, RefusedError, UnavailableError
from polyc.ids import uuid7_bytes
from polyc.limits import (
    FOLLOWER_LINES_MAX,
    HARNESS_BATCH_BYTES_MAX,
    HARNESS_BATCH_MAX,
    HARNESS_EVENTS_MAX,
    HARNESS_QUEUE_LINES,
    JOURNAL_RETRIES_MAX,
    JOURNAL_RETRY_S,
)

_log = logging.getLogger(__name__)
_EARLY: Final = RefusedError("the harness ended without saying that it is done", code="aborted")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunningTurn:
    """A turn that was begun. `lines` tells what is recorded, then None; `task` ends with how the turn ended."""

    dispatch: LiveDispatch
    lines: "asyncio.Queue[dict[str, Any] | None]"
    task: "asyncio.Task[TurnEnd]"


class TurnRunner:
    """Starts turns and keeps their tasks."""

    def __init__(self, context: ControlContext, approvals: ApprovalDesk, *, control_url: str) -> None:
        self._context = context
        self._approvals = approvals
        self._control_url = control_url
        self._tasks: set[asyncio.Task[TurnEnd]] = set()

    async def start(
        self,
        *,
        partition: str,
        persona_id: str,
        harness: str,
        prompt: str,
        turn_id: str | None = None,
        author: str | None = None,
    ) -> RunningTurn:
        """The turn, its intent recorded and its harness about to be called. The caller has checked who may."""
        config = await run_in_threadpool(find_harness, self._context.root, harness)
        history = (
            await run_in_threadpool(history_of, self._context, partition) if isinstance(config, ChatConfig) else ()
        )
        dispatch, credential = await run_in_threadpool(
            lambda: turns.begin(
                self._context,
                partition=partition,
                persona_id=persona_id,
                harness=harness,
                prompt=prompt,
                turn_id=turn_id,
                author=author,
            )
        )
        request = TurnRequest(
            conversation_id=partition,
            turn_id=dispatch.turn_id,
            dispatch_id=dispatch.dispatch_id,
            persona_id=persona_id,
            prompt=prompt,
            history=history,
            control_url=self._control_url,
            credential=credential,
        )
        lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(maxsize=FOLLOWER_LINES_MAX)
        task = asyncio.create_task(self._run(dispatch, config, request, lines))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return RunningTurn(dispatch=dispatch, lines=lines, task=task)

    def cancel(self, dispatch: LiveDispatch, *, by: str) -> None:
        """Ask a turn to end as cancelled."""
        dispatch.cancelled_by = by
        dispatch.cancel.set()

    async def stop(self) -> None:
        """Control stops: running turns end as cancelled, on record."""
        for dispatch in self._context.dispatches.running():
            self.cancel(dispatch, by="control_stopped")
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(
        self,
        dispatch: LiveDispatch,
        config: SubprocessConfig | HttpConfig | ChatConfig,
        request: TurnRequest,
        lines: "asyncio.Queue[dict[str, Any] | None]",
    ) -> TurnEnd:
        """1. The harness, under deadline and cancellation. 2. Nothing waits any more. 3. The end on record.

        4. The credential ends, whether or not the end could be recorded.
        """
        started_s = self._context.clock.monotonic_s()
        # 1
        end = await self._call(dispatch, config, request, lines)
        elapsed_ms = round((self._context.clock.monotonic_s() - started_s) * 1000)
        end = TurnEnd(
            status=end.status,
            failure_code=end.failure_code,
            failure_message=end.failure_message,
            duration_ms=elapsed_ms,
        )
        try:
            # 2
            await self._cancel_approvals(dispatch)
            # 3
            recorded = await self._finish(dispatch, end)
        finally:
            # 4
            self._context.dispatches.end(dispatch)
        _tell(lines, {"type": "end", "recorded": recorded, **_told(end)})
        _tell(lines, None)
        return end

    async def _call(
        self,
        dispatch: LiveDispatch,
        config: SubprocessConfig | HttpConfig | ChatConfig,
        request: TurnRequest,
        lines: "asyncio.Queue[dict[str, Any] | None]",
    ) -> TurnEnd:
        work = asyncio.create_task(self._pump(dispatch, run_harness(config, request), lines))
        cancelled = asyncio.create_task(dispatch.cancel.wait())
        try:
            done, _ = await asyncio.wait(
                {work, cancelled}, timeout=config.deadline_s, return_when=asyncio.FIRST_COMPLETED
            )
            if work in done:
                return _end_of(work)
            if cancelled in done:
                return TurnEnd(status="cancelled", failure_code=f"cancelled_by_{_who(dispatch)}")
            return TurnEnd(status="failed", failure_code="deadline_exceeded")
        finally:
            work.cancel()
            cancelled.cancel()
            await asyncio.wait({work, cancelled})

    async def _pump(
        self,
        dispatch: LiveDispatch,
        harness: AsyncGenerator[bytes],
        lines: "asyncio.Queue[dict[str, Any] | None]",
    ) -> TurnEnd:
        """Read and record side by side: what has come while an append was on its way goes with the next."""
        queue: asyncio.Queue[HarnessSaid | Done | Exception] = asyncio.Queue(maxsize=HARNESS_QUEUE_LINES)
        reader = asyncio.create_task(self._read(dispatch, harness, queue))
        try:
            while True:
                batch, last = await _next_batch(queue)
                if batch:
                    for position, event in await self._record(dispatch, batch):
                        _tell(lines, _event_line(event, position=position))
                if isinstance(last, Done):
                    return TurnEnd(
                        status=last.status, failure_code=last.failure_code, failure_message=last.failure_message
                    )
                if last is not None:
                    raise last
        finally:
            reader.cancel()
            await asyncio.wait({reader})

    async def _record(self, dispatch: LiveDispatch, batch: list[HarnessSaid]) -> list[tuple[int, AnyEvent]]:
        """Append what was said; while the journal is away, the same append again: it counts once."""
        append_id = uuid7_bytes(self._context.clock, self._context.ids)
        for attempt in range(JOURNAL_RETRIES_MAX):
            try:
                return await run_in_threadpool(
                    lambda: turns.record(self._context, dispatch, batch, append_id=append_id)
                )
            except UnavailableError:
                if attempt == JOURNAL_RETRIES_MAX - 1:
                    raise
                await asyncio.sleep(JOURNAL_RETRY_S)
        raise AssertionError("the loop returns or raises")

    async def _read(
        self,
        dispatch: LiveDispatch,
        harness: AsyncGenerator[bytes],
        queue: "asyncio.Queue[HarnessSaid | Done | Exception]",
    ) -> None:
        """Every line of the harness, parsed; the end is what it said last, or why there is no more.

        `done` counts once the stream is over: a harness that fails after it has failed.
        """
        last: Done | None = None
        count = 0
        try:
            async with aclosing(harness):
                async for line in harness:
                    count += 1
                    if last is not None or count > HARNESS_EVENTS_MAX:
                        raise RefusedError("the harness said more than it may", code="resource_exhausted")
                    said = read_line(line, turn_id=dispatch.turn_id, new_id=self._context.new_id())
                    if isinstance(said, Done):
                        last = said
                    else:
                        await queue.put(said)
        except Exception as error:
            await queue.put(error)
        else:
            await queue.put(_EARLY if last is None else last)

    async def _cancel_approvals(self, dispatch: LiveDispatch) -> None:
        try:
            await self._approvals.cancel_all(dispatch)
        except PolycError:
            _log.warning("approvals of dispatch %s could not be cancelled on record", dispatch.dispatch_id)

    async def _finish(self, dispatch: LiveDispatch, end: TurnEnd) -> bool:
        """Record the end; while the journal is away, again. False: the turn stays unfinished, a restart fences it."""
        append_id = uuid7_bytes(self._context.clock, self._context.ids)
        for _ in range(JOURNAL_RETRIES_MAX):
            try:
                await run_in_threadpool(lambda: turns.finish(self._context, dispatch, end, append_id=append_id))
            except UnavailableError:
                await asyncio.sleep(JOURNAL_RETRY_S)
            except PolycError as error:
                _log.warning("the end of dispatch %s was refused: %s", dispatch.dispatch_id, error.code)
                return False
            else:
                return True
        return False


async def _next_batch(
    queue: "asyncio.Queue[HarnessSaid | Done | Exception]",
) -> tuple[list[HarnessSaid], Done | Exception | None]:
    """What waits now, at least one item: events up to the bounds of an append, and the end if it came."""
    batch: list[HarnessSaid] = []
    size_bytes = 0
    item = await queue.get()
    while isinstance(item, HarnessSaid):
        batch.append(item)
        size_bytes += len(item.draft.payload)
        if queue.empty() or len(batch) >= HARNESS_BATCH_MAX or size_bytes >= HARNESS_BATCH_BYTES_MAX:
            return batch, None
        item = queue.get_nowait()
    return batch, item


def _end_of(work: "asyncio.Task[TurnEnd]") -> TurnEnd:
    error = work.exception()
    if error is None:
        return work.result()
    if isinstance(error, PolycError):
        return TurnEnd(status="failed", failure_code=error.code, failure_message=error.message)
    _log.error("a turn failed here: %s", type(error).__name__)
    return TurnEnd(status="failed", failure_code="internal")


def _who(dispatch: LiveDispatch) -> str:
    return "control_stopped" if dispatch.cancelled_by == "control_stopped" else "participant"


def _event_line(event: AnyEvent, *, position: int) -> dict[str, Any]:
    """What a follower is told of a recorded event: its kind and place, and what an assistant says to people.

    Nothing of a withheld message but that it is there; thinking, tools and their results are for the tables.
    """
    line: dict[str, Any] = {"type": "event", "position": position, "kind": event.__struct_config__.tag}
    if isinstance(event, Message) and event.withheld is None and (event.kind, event.role) == ("text", "assistant"):
        line["message_id"] = event.message_id
        line["text"] = "".join(block.text or "" for block in event.blocks if block.type == "text")
    return line


def _told(end: TurnEnd) -> dict[str, Any]:
    return {"status": end.status, "failure_code": end.failure_code, "duration_ms": end.duration_ms}


def _tell(lines: "asyncio.Queue[dict[str, Any] | None]", line: dict[str, Any] | None) -> None:
    """Hand a line to the follower; one that reads too slowly loses lines, never the end: the tables have them."""
    if lines.full():
        lines.get_nowait()
    lines.put_nowait(line)


def encode_line(line: dict[str, Any]) -> bytes:
    """A line of the answer's stream."""
    return msgspec.json.encode(line) + b"\n"
