"""Routines: a prompt that runs in a conversation on a schedule, on behalf of a persona, as an ordinary turn.

Each run is on record before it begins and after it ended, with its steps; its turn has its own intent, fence and end.
A run whose persona may no longer act, or no longer participates, fails and says so. Runs that a crash left without an
end are ended as failed at the next start.
"""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Final, Literal

from starlette.concurrency import run_in_threadpool

from control import conversations, personas
from control.context import ControlContext
from control.conversations import redacted, redaction_of
from control.routine_book import Routine
from control.schedule import next_run_s
from control.turn_runner import TurnRunner
from facts import codec
from facts.events import AnyEvent, RoutineRecorded, RoutineRun, RoutineStep
from polyc.errors import PolycError, RefusedError
from polyc.limits import ROUTINE_TICK_S

ROUTINES_PARTITION: Final = "routines"
_log = logging.getLogger(__name__)


def record_routine(
    context: ControlContext,
    persona_id: str,
    *,
    routine: str,
    conversation: str,
    schedule: str,
    prompt: str,
    state: Literal["active", "paused", "deleted"],
) -> None:
    """Define or change a routine of a conversation the persona participates in; the last record counts."""
    conversations.check_participant(context, conversation, persona_id)
    conversations.check_live(context, conversation)
    next_run_s(schedule, after_s=0)
    with context.index.view() as current:
        known = current.routines.routines.get(routine)
    if known is not None and known.persona_id != persona_id:
        raise RefusedError("this routine is somebody else's", code="permission_denied")
    event = RoutineRecorded(
        id=context.new_id(),
        routine=routine,
        conversation_id=conversation,
        schedule=schedule,
        prompt=prompt,
        persona_id=persona_id,
        state=state,
    )
    _append(context, event)


def find_routine(context: ControlContext, routine: str, persona_id: str) -> Routine:
    """The persona's routine, or RefusedError."""
    with context.index.view() as state:
        known = state.routines.routines.get(routine)
    if known is None or known.persona_id != persona_id or known.state == "deleted":
        raise RefusedError("no such routine of yours", code="not_found")
    return known


class RoutineRunner:
    """Starts routines when they are due, or when asked to."""

    def __init__(self, context: ControlContext, runner: TurnRunner) -> None:
        self._context = context
        self._runner = runner
        self._busy: set[str] = set()
        self._tasks: set[asyncio.Task[str]] = set()

    async def tick_forever(self) -> None:
        """Look every second for what is due, until cancelled."""
        while True:
            try:
                for routine in await run_in_threadpool(self.due):
                    task = asyncio.create_task(self.run(routine, trigger="schedule"))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            except PolycError:
                _log.warning("routines could not be looked at; trying again")
            await asyncio.sleep(ROUTINE_TICK_S)

    def due(self) -> list[Routine]:
        """The active routines whose time has come and that are not running here."""
        now_s = self._context.now_s()
        with self._context.index.view() as state:
            return [
                item
                for item in state.routines.routines.values()
                if item.state == "active"
                and item.routine not in self._busy
                and next_run_s(item.schedule, after_s=item.since_us // 1_000_000) <= now_s
            ]

    def end_abandoned(self) -> int:
        """Runs that have no end and that nobody runs: ended as failed. At the start, before anything ticks."""
        with self._context.index.view() as state:
            left = dict(state.routines.running)
        for run_id, routine in left.items():
            now = self._now()
            _append(
                self._context,
                RoutineStep(
                    id=self._context.new_id(),
                    run_id=run_id,
                    step=99,
                    action="recover",
                    status="failed",
                    detail="abandoned",
                ),
                RoutineRun(
                    id=self._context.new_id(),
                    run_id=run_id,
                    routine=routine,
                    trigger="recovery",
                    status="failed",
                    ended_at=now,
                ),
            )
        return len(left)

    async def run(self, routine: Routine, *, trigger: str) -> str:
        """One run, from its start on record to its end on record; returns how it ended.

        1. The run is on record. 2. The persona may act and participates. 3. The turn, as any other. 4. The end.
        """
        self._busy.add(routine.routine)
        run_id = self._context.new_id()
        try:
            # 1
            await run_in_threadpool(self._started, routine, run_id, trigger)
            # 2, 3
            status = await self._turn(routine, run_id)
            # 4
            await run_in_threadpool(self._ended, routine, run_id, trigger, status)
        finally:
            self._busy.discard(routine.routine)
        return status

    async def _turn(self, routine: Routine, run_id: str) -> Literal["completed", "failed", "cancelled"]:
        try:
            harness = await run_in_threadpool(self._check, routine)
            running = await self._runner.start(
                partition=routine.conversation,
                persona_id=routine.persona_id or "",
                harness=harness,
                prompt=routine.prompt,
                author=f"routine:{routine.routine}",
            )
        except PolycError as error:
            await run_in_threadpool(self._step, run_id, 1, "dispatch", "refused", error.code)
            return "failed"
        await run_in_threadpool(self._step, run_id, 1, "dispatch", "ok", running.dispatch.dispatch_id)
        end = await running.task
        await run_in_threadpool(self._step, run_id, 2, "turn", end.status, end.failure_code)
        return end.status

    def _check(self, routine: Routine) -> str:
        """The harness to use: the one that ran the conversation's last turn."""
        personas.active_persona(self._context, routine.persona_id or "")
        conversations.check_participant(self._context, routine.conversation, routine.persona_id or "")
        with self._context.index.view() as state:
            harness = state.turns.harnesses.get(routine.conversation)
        if harness is None:
            raise RefusedError("no harness has run this conversation yet", code="failed_precondition")
        return harness

    def _started(self, routine: Routine, run_id: str, trigger: str) -> None:
        _append(
            self._context,
            RoutineRun(
                id=self._context.new_id(),
                run_id=run_id,
                routine=routine.routine,
                trigger=trigger,
                status="started",
                started_at=self._now(),
            ),
        )

    def _ended(
        self, routine: Routine, run_id: str, trigger: str, status: Literal["completed", "failed", "cancelled"]
    ) -> None:
        _append(
            self._context,
            RoutineRun(
                id=self._context.new_id(),
                run_id=run_id,
                routine=routine.routine,
                trigger=trigger,
                status=status,
                ended_at=self._now(),
            ),
        )

    def _step(self, run_id: str, step: int, action: str, status: str, detail: str | None) -> None:
        _append(
            self._context,
            RoutineStep(
                id=self._context.new_id(), run_id=run_id, step=step, action=action, status=status, detail=detail
            ),
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._context.clock.now_us() / 1_000_000, UTC)


def _append(context: ControlContext, *events: AnyEvent) -> None:
    policy = redaction_of(context)
    context.control.append(ROUTINES_PARTITION, [redacted(policy, codec.encode(event)) for event in events])
