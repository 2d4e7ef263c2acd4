"""What harnesses and gateways report of their dispatch. The credential is the attribution; no body names another."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from control.api.operation import Call, Handle, Nothing, Operation, Wire
from control.edges import append_edge
from facts.events import IdentityAsserted, MessageWithheld, Refusal, ToolCall, ToolResult
from polyc.limits import APPROVAL_WAIT_S_DEFAULT, APPROVAL_WAIT_S_MAX, INLINE_TEXT_BYTES_MAX

CallId = Annotated[str, Field(min_length=1, max_length=256)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Text = Annotated[str, Field(max_length=INLINE_TEXT_BYTES_MAX)]
Code = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]


class ToolCallBody(Wire):
    """A tool call as a gateway saw it; `arguments` is the JSON text."""

    tool_call_id: CallId
    name: Name
    arguments: Text | None = None
    server: Name | None = None


class ToolResultBody(Wire):
    """What the tool gave back."""

    tool_call_id: CallId
    name: Name | None = None
    text: Text | None = None
    is_error: bool | None = None
    exit_code: int | None = Field(default=None, ge=-(2**31), lt=2**31)
    duration_ms: int | None = Field(default=None, ge=0, lt=2**53)


class RefusalBody(Wire):
    """A blocked attempt; it stays on record whatever becomes of its turn."""

    request_id: CallId
    stage: Literal["policy", "budget", "approval", "sandbox"]
    tool_call_id: CallId | None = None
    tool_name: Name | None = None
    rule: Code | None = None
    reason: Code | None = None


class WithheldBody(Wire):
    """A message that is not for clients."""

    message_id: CallId
    reason: Code


class IdentityBody(Wire):
    """Who somebody is, as this edge was told; in a table that participants cannot name."""

    persona_id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    identity: Annotated[str, Field(min_length=1, max_length=1024)]
    asserted_by: Name
    edge: Name
    method: Code


class ApprovalBody(Wire):
    """A call that needs a person; `request_id` is the tool call's id."""

    request_id: CallId
    tool_name: Name
    arguments: Text | None = None
    wait_s: float = Field(default=APPROVAL_WAIT_S_DEFAULT, gt=0, le=APPROVAL_WAIT_S_MAX)


class ApprovalAnswer(Wire):
    """The outcome on record: go on only when it is `approved`."""

    outcome: Literal["approved", "denied", "expired", "cancelled"]
    reason: str | None


def recording(event_type: type[ToolCall | ToolResult | Refusal | MessageWithheld | IdentityAsserted]) -> Handle:
    """What takes a report whose body has the members of that event: it is appended under the caller's dispatch."""

    def record(call: Call) -> BaseModel:
        told = call.body.model_dump(exclude_none=True)
        event = event_type(id=call.context.new_id(), dispatch_id=call.dispatch.dispatch_id, **told)
        append_edge(call.context, call.dispatch, [event])
        return Nothing()

    return record


async def approval(call: Call) -> BaseModel:
    """Wait for a person. A caller that goes away and asks again finds the same request."""
    body: ApprovalBody = call.body
    request = await call.service.approvals.request(
        call.dispatch,
        request_id=body.request_id,
        tool_name=body.tool_name,
        arguments=body.arguments,
        wait_s=body.wait_s,
    )
    await request.decided.wait()
    assert request.outcome is not None, "a decided request has its outcome"
    return ApprovalAnswer(outcome=request.outcome, reason=request.reason)


OPERATIONS = [
    Operation(
        name="edge_tool_call",
        method="POST",
        path="/api/edge/tool-calls",
        access="dispatch",
        summary="A gateway saw a tool call of this dispatch.",
        body=ToolCallBody,
        answer=Nothing,
        handle=recording(ToolCall),
    ),
    Operation(
        name="edge_tool_result",
        method="POST",
        path="/api/edge/tool-results",
        access="dispatch",
        summary="A gateway saw a tool's result.",
        body=ToolResultBody,
        answer=Nothing,
        handle=recording(ToolResult),
    ),
    Operation(
        name="edge_refusal",
        method="POST",
        path="/api/edge/refusals",
        access="dispatch",
        summary="An attempt was blocked; the record stays whether or not the turn is committed.",
        body=RefusalBody,
        answer=Nothing,
        handle=recording(Refusal),
    ),
    Operation(
        name="edge_withheld",
        method="POST",
        path="/api/edge/withheld",
        access="dispatch",
        summary="A message is never sent to a client.",
        body=WithheldBody,
        answer=Nothing,
        handle=recording(MessageWithheld),
    ),
    Operation(
        name="edge_identity",
        method="POST",
        path="/api/edge/identities",
        access="dispatch",
        summary="An identity was asserted on an edge.",
        body=IdentityBody,
        answer=Nothing,
        handle=recording(IdentityAsserted),
    ),
    Operation(
        name="edge_approval",
        method="POST",
        path="/api/edge/approvals",
        access="dispatch",
        summary="Ask for a person's approval and wait for the outcome.",
        body=ApprovalBody,
        answer=ApprovalAnswer,
        handle=approval,
    ),
]
