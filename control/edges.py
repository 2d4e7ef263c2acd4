"""What gateways report of a dispatch: signed by the `edge` key, attributed by the dispatch and by nothing else.

An edge knows only its dispatch (spelling 3 of a turn id); which conversation an event belongs to follows from the
credential, never from an argument. Everything carries the dispatch's fence, so nothing arrives after the turn's end;
the exception is `late`: a settlement that comes after the end still counts for budgets (ruling 4).
"""

from collections.abc import Sequence

from control.context import ControlContext
from control.conversations import redacted, redaction_of
from control.dispatches import KnownCall, LiveDispatch, turn_is_over
from control.ports import RedactionPolicy
from facts import codec
from facts.events import AnyEvent, EdgeEvent, PaymentReceipt, ToolCall
from polyc.appending import Ack, Draft
from polyc.entry import NO_FENCE
from polyc.errors import RefusedError


def append_edge(
    context: ControlContext, dispatch: LiveDispatch, events: Sequence[AnyEvent], *, late: bool = False
) -> Ack:
    """Append the events to the dispatch's conversation; RefusedError `failed_precondition` once its turn is over."""
    policy = redaction_of(context)
    for event in events:
        assert isinstance(event, EdgeEvent), "edges say edge events"
        assert event.dispatch_id == dispatch.dispatch_id, "an edge event names its own dispatch"
    drafts = [_draft(policy, event) for event in events]
    fence = NO_FENCE if late and dispatch.ended_s is not None else dispatch.fence
    try:
        ack = context.edge.append(dispatch.partition, drafts, fence=fence)
    except RefusedError as error:
        if error.code == "failed_precondition":
            raise turn_is_over() from None
        raise
    for event, draft in zip(events, drafts, strict=True):
        if isinstance(event, ToolCall):
            kept = codec.decode(draft.event_type, draft.payload, place="just recorded")
            assert isinstance(kept, ToolCall)
            dispatch.remember_call(kept.tool_call_id, KnownCall(name=kept.name, arguments=kept.arguments))
    return ack


def _draft(policy: RedactionPolicy, event: AnyEvent) -> Draft:
    """The event with its secrets struck; a receipt stays as it was received, or its signature could not be verified.

    A receipt is a signed statement that something was paid, not a credential: who holds it can do nothing with it.
    """
    draft = codec.encode(event)
    return draft if isinstance(event, PaymentReceipt) else redacted(policy, draft)
