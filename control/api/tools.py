"""The conversation tools over HTTP, for harnesses: the credential says which conversation."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from control.api.operation import Call, Operation, Wire
from control.tools import CONVERSATION_LIST_TOOL_CALLS, CONVERSATION_RECENT_TURNS, Tool, run_tool


class ToolBody(Wire):
    """How many rows and how much of them; there is nothing else to say."""

    count: int | None = Field(default=None, ge=1, le=1000)
    detail: Literal["brief", "full"] = "brief"


class RowsAnswer(Wire):
    """The rows, newest first."""

    rows: list[dict[str, Any]]


def recent_turns(call: Call) -> BaseModel:
    """Committed turns."""
    return _run(call, CONVERSATION_RECENT_TURNS)


def list_tool_calls(call: Call) -> BaseModel:
    """Recorded tool calls."""
    return _run(call, CONVERSATION_LIST_TOOL_CALLS)


def _run(call: Call, tool: Tool) -> RowsAnswer:
    body: ToolBody = call.body
    return RowsAnswer(rows=run_tool(call.context, call.dispatch, tool, count=body.count, detail=body.detail))


OPERATIONS = [
    Operation(
        name=tool.name,
        method="POST",
        path=f"/api/tools/{tool.name}",
        access="dispatch",
        summary=tool.description,
        body=ToolBody,
        answer=RowsAnswer,
        handle=handle,
    )
    for tool, handle in (
        (CONVERSATION_RECENT_TURNS, recent_turns),
        (CONVERSATION_LIST_TOOL_CALLS, list_tool_calls),
    )
]
