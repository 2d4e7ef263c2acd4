"""Approvals for people: what waits, with its arguments, and their decision."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from control.api.operation import Call, Operation, Wire


class WaitingRow(Wire):
    """A request as an approver sees it."""

    approval_id: str
    conversation: str
    turn_id: str
    request_id: str
    tool_name: str
    arguments: str | None
    requested_at_ms: int
    expires_at_ms: int


class WaitingAnswer(Wire):
    """What waits for you, oldest first."""

    approvals: list[WaitingRow]


class Decision(Wire):
    """`reason` is a code, not a text: free text could carry what participants must not see."""

    outcome: Literal["approved", "denied"]
    reason: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")] | None = None


class DecidedAnswer(Wire):
    """The outcome on record."""

    approval_id: str
    outcome: str


async def waiting(call: Call) -> BaseModel:
    """The requests in conversations of the persona."""
    rows = [
        WaitingRow(
            approval_id=item.approval_id,
            conversation=item.dispatch.partition,
            turn_id=item.dispatch.turn_id,
            request_id=item.request_id,
            tool_name=item.tool_name,
            arguments=item.arguments,
            requested_at_ms=item.requested_at_ms,
            expires_at_ms=item.expires_at_ms,
        )
        for item in await call.service.approvals.waiting_for(call.who.persona_id)
    ]
    return WaitingAnswer(approvals=rows)


async def decide(call: Call) -> BaseModel:
    """Record the decision; the harness's call goes on after it is sealed."""
    body: Decision = call.body
    request = await call.service.approvals.decide(
        call.path["approval"], persona_id=call.who.persona_id, outcome=body.outcome, reason=body.reason
    )
    return DecidedAnswer(approval_id=request.approval_id, outcome=body.outcome)


OPERATIONS = [
    Operation(
        name="waiting_approvals",
        method="GET",
        path="/api/approvals",
        access="persona",
        summary="The requests that wait for a decision in your conversations, with their arguments.",
        answer=WaitingAnswer,
        handle=waiting,
    ),
    Operation(
        name="decide_approval",
        method="POST",
        path="/api/approvals/{approval}",
        access="persona",
        summary="Approve or deny a request; the first decision stands.",
        body=Decision,
        answer=DecidedAnswer,
        handle=decide,
    ),
]
