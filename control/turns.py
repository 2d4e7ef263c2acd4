"""The records of a turn: what is written before the harness runs, while it does, and after it returned.

    begin     dispatch_intent, turn_start and the prompt, in one append, before anything of the harness is called
    record    what the harness says, signed by the `harness` key, as long as the fence is open
    finish    turn_complete, signed by `control`, which closes the fence

A crash after `begin` and before `finish` leaves an unfinished turn: no table shows it. A restart closes its fence
with a `recovery` record (`fence_abandoned`), so that a harness that goes on is refused at the journal's door.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from control.context import ControlContext
from control.conversations import redacted, redaction_of
from control.dispatches import KnownCall, LiveDispatch
from control.harness.wire import HarnessSaid
from facts import codec
from facts.events import (
    AnyEvent,
    Block,
    DispatchIntent,
    Message,
    Recovery,
    ToolCall,
    TurnComplete,
    TurnRef,
    TurnStart,
    TurnStatus,
)
from polyc.appending import Draft
from polyc.entry import NO_FENCE
from polyc.errors import RefusedError

FAILURE_MESSAGE_CHARS_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """How a turn ended."""

    status: TurnStatus
    failure_code: str | None = None
    failure_message: str | None = None
    duration_ms: int | None = None


def begin(
    context: ControlContext,
    *,
    partition: str,
    persona_id: str,
    harness: str,
    prompt: str,
    turn_id: str | None = None,
    author: str | None = None,
) -> tuple[LiveDispatch, str]:
    """The live dispatch, its intent recorded, and its credential.

    1. Turns that a crash left open in this conversation are fenced. 2. The turn's id was not used here. 3. The
    dispatch takes its place among the live ones. 4. Intent, start and prompt are recorded in one append; when that
    fails, the dispatch never was.
    """
    # 1
    fence_abandoned(context, partition=partition)
    # 2
    chosen = turn_id or context.new_id()
    with context.index.view() as state:
        if chosen in state.turns.turn_ids.get(partition, ()):
            raise RefusedError("this turn id was used in this conversation", code="already_exists")
    # 3
    dispatch_id = context.new_id()
    credential, secret_sha256 = context.dispatches.new_credential(dispatch_id)
    dispatch = LiveDispatch(
        dispatch_id=dispatch_id,
        partition=partition,
        turn_id=chosen,
        persona_id=persona_id,
        harness=harness,
        fence=context.ids.token(len(NO_FENCE)),
        secret_sha256=secret_sha256,
    )
    context.dispatches.add(dispatch)
    # 4
    try:
        context.control.append(
            partition, _opening(context, dispatch, prompt=prompt, author=author), fence=dispatch.fence
        )
    except BaseException:
        context.dispatches.drop(dispatch)
        raise
    return dispatch, credential


def record(
    context: ControlContext, dispatch: LiveDispatch, said: list[HarnessSaid], *, append_id: bytes | None = None
) -> list[tuple[int, AnyEvent]]:
    """Append what the harness said, in order; returns positions and events as recorded (secrets struck).

    Refused once the fence is closed. The same `append_id` may be tried again when the journal did not answer.
    """
    policy = redaction_of(context)
    payloads = policy.clean([item.draft.payload for item in said])
    drafts = [Draft(item.draft.event_type, payload) for item, payload in zip(said, payloads, strict=True)]
    ack = context.harness.append(dispatch.partition, drafts, fence=dispatch.fence, append_id=append_id)
    recorded: list[tuple[int, AnyEvent]] = []
    for offset, draft in enumerate(drafts):
        event = codec.decode(draft.event_type, draft.payload, place="just recorded")
        assert event is not None, "what was encoded is known"
        recorded.append((ack.first_position + offset, event))
        if isinstance(event, ToolCall):
            dispatch.remember_call(event.tool_call_id, KnownCall(name=event.name, arguments=event.arguments))
    return recorded


def finish(context: ControlContext, dispatch: LiveDispatch, end: TurnEnd, *, append_id: bytes | None = None) -> None:
    """Record the end and close the fence; the same `append_id` may be tried again after a failure."""
    message = end.failure_message
    event = TurnComplete(
        id=dispatch.dispatch_id,
        occurred_at=None,
        turn=_turn(dispatch),
        status=end.status,
        failure_code=end.failure_code,
        failure_message=None if message is None else message[:FAILURE_MESSAGE_CHARS_MAX],
        duration_ms=end.duration_ms,
    )
    draft = redacted(redaction_of(context), codec.encode(event, closes_fence=True))
    context.control.append(dispatch.partition, [draft], fence=dispatch.fence, append_id=append_id)


def fence_abandoned(context: ControlContext, *, partition: str | None = None) -> list[str]:
    """Close the fences of turns that no process runs any more, and say so on record; returns what was found.

    Nothing makes such a turn whole: it stays unfinished, and invisible to every query.
    """
    with context.index.view() as state:
        found = [
            item
            for item in state.turns.open.values()
            if (partition is None or item.partition == partition) and not context.dispatches.is_live(item.dispatch_id)
        ]
    report = []
    for item in found:
        detail = f"turn {item.turn_id} was left unfinished by dispatch {item.dispatch_id}; its fence is closed"
        event = Recovery(id=context.new_id(), detail=detail, from_index=item.index)
        context.control.append(item.partition, [codec.encode(event, closes_fence=True)], fence=item.fence)
        report.append(f"{item.partition}: {detail}")
    return report


def _opening(context: ControlContext, dispatch: LiveDispatch, *, prompt: str, author: str | None) -> list[Draft]:
    policy = redaction_of(context)
    turn = _turn(dispatch)
    now = datetime.fromtimestamp(context.clock.now_us() / 1_000_000, UTC)
    events = (
        DispatchIntent(
            id=context.new_id(),
            occurred_at=now,
            turn=turn,
            dispatch_id=dispatch.dispatch_id,
            harness=dispatch.harness,
            persona_id=dispatch.persona_id,
        ),
        TurnStart(
            id=context.new_id(),
            occurred_at=now,
            turn=turn,
            dispatch_id=dispatch.dispatch_id,
            harness=dispatch.harness,
            persona_id=dispatch.persona_id,
        ),
        Message(
            id=context.new_id(),
            occurred_at=now,
            turn_id=dispatch.turn_id,
            message_id=context.new_id(),
            role="user",
            material_origin="human_authored" if author is None else "operator_command",
            author=author or dispatch.persona_id,
            blocks=(Block(type="text", text=prompt),),
        ),
    )
    return [redacted(policy, codec.encode(event)) for event in events]


def _turn(dispatch: LiveDispatch) -> TurnRef:
    return TurnRef(conversation_id=dispatch.partition, turn_id=dispatch.turn_id)
