"""The two conversation tools: fixed statements, nothing of which an agent's arguments can change but a count.

Agents cannot submit SQL from within a conversation. The statements run at the Query edge on the fleet realm over the
one conversation of the trusted dispatch attribution, are audited like every query (surface `tool`), and show what
participants see: committed turns alone. The count travels as the row limit, so the statement's text is a constant.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from control.context import ControlContext
from control.dispatches import LiveDispatch
from control.statements import Answer
from polyc.errors import UnavailableError
from polyc.grants import Inline
from polyc.limits import (
    ARGUMENT_PREVIEW_CHARS,
    CALLS_LISTED_DEFAULT,
    CALLS_LISTED_MAX,
    TURNS_LISTED_DEFAULT,
    TURNS_LISTED_MAX,
)

Detail = Literal["brief", "full"]

_TURNS: Final = (
    "SELECT partition, turn_id, turn_index, status, harness, persona_id, started_at, completed_at, duration_ms"
)
RECENT_TURNS: Final[dict[Detail, str]] = {
    "brief": f"{_TURNS} FROM turns ORDER BY recorded_at DESC, partition, position DESC",
    "full": f"{_TURNS}, failure_code, failure_message FROM turns ORDER BY recorded_at DESC, partition, position DESC",
}
_CALLS: Final = (
    "SELECT c.partition, c.turn_id, c.tool_call_id, c.name, c.action, c.occurred_at, "
    f"substr(CAST(c.arguments AS VARCHAR), 1, {ARGUMENT_PREVIEW_CHARS}) AS arguments_preview, "
    "r.is_error, r.tool_call_id IS NOT NULL AS has_result"
)
_CALLS_FROM: Final = (
    " FROM tool_calls c LEFT JOIN (SELECT tool_call_id, is_error FROM tool_calls WHERE block_type = 'result') r "
    "ON r.tool_call_id = c.tool_call_id"
)
_CALLS_END: Final = " WHERE c.block_type = 'call' ORDER BY c.recorded_at DESC, c.partition, c.position DESC"
LIST_TOOL_CALLS: Final[dict[Detail, str]] = {
    "brief": f"{_CALLS}{_CALLS_FROM}{_CALLS_END}",
    "full": (
        f"{_CALLS}, a.outcome AS approval_outcome, a.decided_by AS approval_decided_by{_CALLS_FROM} "
        f"LEFT JOIN approvals a ON a.request_id = c.tool_call_id{_CALLS_END}"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool: its statements by detail, and how many rows it lists."""

    name: str
    description: str
    statements: dict[Detail, str]
    count_default: int
    count_max: int


CONVERSATION_RECENT_TURNS: Final = Tool(
    name="conversation_recent_turns",
    description="Committed turns of this conversation, newest first. Full detail adds failure information.",
    statements=RECENT_TURNS,
    count_default=TURNS_LISTED_DEFAULT,
    count_max=TURNS_LISTED_MAX,
)
CONVERSATION_LIST_TOOL_CALLS: Final = Tool(
    name="conversation_list_tool_calls",
    description="Recorded tool calls of this conversation with previews of their arguments, newest first. "
    "Full detail adds the human approval's status.",
    statements=LIST_TOOL_CALLS,
    count_default=CALLS_LISTED_DEFAULT,
    count_max=CALLS_LISTED_MAX,
)
TOOLS: Final = (CONVERSATION_RECENT_TURNS, CONVERSATION_LIST_TOOL_CALLS)


def run_tool(
    context: ControlContext, dispatch: LiveDispatch, tool: Tool, *, count: int | None, detail: Detail
) -> list[dict[str, Any]]:
    """The tool's rows for the dispatch's own conversation; more than the most is the most."""
    if context.statements is None:
        raise UnavailableError("this Control has no query edge", hint="polyc up")
    answer = context.statements.run(
        tool.statements[detail],
        subject=dispatch.persona_id,
        scope=Inline(partitions=(dispatch.partition,)),
        realm="fleet",
        surface="tool",
        row_limit=listed(tool, count),
    )
    return rows_of(answer)


def listed(tool: Tool, count: int | None) -> int:
    """How many rows are listed for a wish.

    >>> [listed(CONVERSATION_RECENT_TURNS, count) for count in (None, 0, 7, 1000)]
    [20, 1, 7, 50]
    """
    return max(1, min(tool.count_default if count is None else count, tool.count_max))


def rows_of(answer: Answer) -> list[dict[str, Any]]:
    """Rows as objects; the names of fixed statements are distinct."""
    assert len(set(answer.columns)) == len(answer.columns), "fixed statements name each column once"
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
