"""Routines over HTTP: define them, run one now."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from control import routines
from control.api.operation import Call, Nothing, Operation, Wire
from polyc.limits import PROMPT_SIZE_BYTES_MAX

RoutineName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class RoutineBody(Wire):
    """A routine: `every 15m` or `daily 07:30` (UTC). It uses the harness of the conversation's last turn."""

    routine: RoutineName
    conversation: Annotated[str, Field(max_length=128)]
    schedule: Annotated[str, Field(max_length=32)]
    prompt: Annotated[str, Field(min_length=1, max_length=PROMPT_SIZE_BYTES_MAX)]
    state: Literal["active", "paused", "deleted"] = "active"


class RunAnswer(Wire):
    """How the run ended."""

    status: Literal["completed", "failed", "cancelled"]


def record(call: Call) -> BaseModel:
    """Define or change one."""
    body: RoutineBody = call.body
    routines.record_routine(call.context, call.who.persona_id, **body.model_dump())
    return Nothing()


async def run(call: Call) -> BaseModel:
    """Run one now and wait for its end."""
    routine = await run_in_threadpool(routines.find_routine, call.context, call.path["routine"], call.who.persona_id)
    status = await call.service.routines.run(routine, trigger="manual")
    return RunAnswer.model_validate({"status": status})


OPERATIONS = [
    Operation(
        name="record_routine",
        method="POST",
        path="/api/routines",
        access="persona",
        summary="Define or change a routine of a conversation of yours.",
        body=RoutineBody,
        answer=Nothing,
        handle=record,
    ),
    Operation(
        name="run_routine",
        method="POST",
        path="/api/routines/{routine}/run",
        access="persona",
        summary="Run a routine of yours now; answers when it ended.",
        answer=RunAnswer,
        handle=run,
    ),
]
