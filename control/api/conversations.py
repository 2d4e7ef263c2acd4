"""Conversations, their participants and their turns, for people's sessions."""

from collections.abc import AsyncIterator
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from control import conversations, participation, revocations
from control.api.operation import Call, Nothing, Operation, Wire
from control.turn_runner import RunningTurn, encode_line
from polyc.errors import RefusedError
from polyc.ids import check_persona
from polyc.limits import PROMPT_SIZE_BYTES_MAX

Persona = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
TurnName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,128}$")]


class NewConversation(Wire):
    """`continues` names a conversation of yours that becomes the parent."""

    title: Annotated[str, Field(max_length=200)] | None = None
    continues: Annotated[str, Field(max_length=128)] | None = None


class ConversationAnswer(Wire):
    """A conversation's name; its partition in the tables."""

    conversation: str


class ConversationRow(Wire):
    """A conversation you participate in."""

    conversation: str
    origin: str | None
    title: str | None
    participants: list[str]
    is_running: bool


class ConversationsAnswer(Wire):
    """All of them, by name."""

    conversations: list[ConversationRow]


class Participant(Wire):
    """A persona."""

    persona_id: Persona


class ChangedAnswer(Wire):
    """Whether anything changed."""

    changed: bool


class NewTurn(Wire):
    """A prompt for a harness. `turn_id` makes a repeat of the same request harmless: a used one is refused."""

    prompt: Annotated[str, Field(min_length=1, max_length=PROMPT_SIZE_BYTES_MAX)]
    harness: Annotated[str, Field(min_length=1, max_length=64)]
    turn_id: TurnName | None = None


class TurnLine(Wire):
    """A line of the stream: `turn`, then `event` lines, then `end`."""

    type: str


def create(call: Call) -> BaseModel:
    """Open a conversation."""
    body: NewConversation = call.body
    name = conversations.open_conversation(
        call.context, call.who.persona_id, title=body.title, continues=body.continues
    )
    return ConversationAnswer(conversation=name)


def mine(call: Call) -> BaseModel:
    """What the persona participates in."""
    rows = [
        ConversationRow(
            conversation=item.partition,
            origin=item.origin,
            title=item.title,
            participants=item.participants,
            is_running=item.is_running,
        )
        for item in conversations.list_conversations(call.context, call.who.persona_id)
    ]
    return ConversationsAnswer(conversations=rows)


def invite(call: Call) -> BaseModel:
    """A participant, or an admin, lets a persona in."""
    if not call.who.is_admin:
        conversations.check_participant(call.context, call.path["conversation"], call.who.persona_id)
    body: Participant = call.body
    return ChangedAnswer(changed=participation.join(call.context, call.path["conversation"], body.persona_id))


def remove(call: Call) -> BaseModel:
    """A persona leaves; an admin may remove anybody."""
    persona_id = check_persona(call.path["persona"])
    if not call.who.is_admin and persona_id != call.who.persona_id:
        raise RefusedError("only an admin removes somebody else", code="permission_denied")
    changed = participation.leave(call.context, call.path["conversation"], persona_id)
    revocations.publish(call.context)
    return ChangedAnswer(changed=changed)


async def turn(call: Call) -> AsyncIterator[bytes]:
    """Begin a turn and follow it; it goes on when the follower goes away."""
    body: NewTurn = call.body
    partition, persona_id = call.path["conversation"], call.who.persona_id
    await run_in_threadpool(conversations.check_participant, call.context, partition, persona_id)
    await run_in_threadpool(conversations.check_live, call.context, partition)
    running = await call.service.runner.start(
        partition=partition,
        persona_id=persona_id,
        harness=body.harness,
        prompt=body.prompt,
        turn_id=body.turn_id,
    )
    return _follow(running)


async def cancel(call: Call) -> BaseModel:
    """Ask the running turn to end as cancelled."""
    partition = call.path["conversation"]
    await run_in_threadpool(conversations.check_participant, call.context, partition, call.who.persona_id)
    for dispatch in call.context.dispatches.running():
        if dispatch.partition == partition:
            call.service.runner.cancel(dispatch, by=call.who.persona_id)
            return Nothing()
    raise RefusedError("no turn of this conversation is running", code="not_found")


async def _follow(running: RunningTurn) -> AsyncIterator[bytes]:
    dispatch = running.dispatch
    yield encode_line(
        {
            "type": "turn",
            "conversation": dispatch.partition,
            "turn_id": dispatch.turn_id,
            "dispatch_id": dispatch.dispatch_id,
        }
    )
    while (line := await running.lines.get()) is not None:
        yield encode_line(line)


OPERATIONS = [
    Operation(
        name="open_conversation",
        method="POST",
        path="/api/conversations",
        access="persona",
        summary="Open a conversation; you participate.",
        body=NewConversation,
        answer=ConversationAnswer,
        handle=create,
    ),
    Operation(
        name="list_conversations",
        method="GET",
        path="/api/conversations",
        access="persona",
        summary="The conversations you participate in.",
        answer=ConversationsAnswer,
        handle=mine,
    ),
    Operation(
        name="invite",
        method="POST",
        path="/api/conversations/{conversation}/participants",
        access="session",
        summary="Let a persona in: it may read all of the conversation.",
        body=Participant,
        answer=ChangedAnswer,
        handle=invite,
    ),
    Operation(
        name="remove_participant",
        method="DELETE",
        path="/api/conversations/{conversation}/participants/{persona}",
        access="session",
        summary="Leave a conversation; an admin may remove anybody. Outstanding grants of the persona end at once.",
        answer=ChangedAnswer,
        handle=remove,
    ),
    Operation(
        name="run_turn",
        method="POST",
        path="/api/conversations/{conversation}/turns",
        access="persona",
        summary="Run a turn: its intent is recorded before the harness is called; follow it as NDJSON.",
        body=NewTurn,
        answer=TurnLine,
        handle=turn,
        streams=True,
    ),
    Operation(
        name="cancel_turn",
        method="POST",
        path="/api/conversations/{conversation}/cancel",
        access="persona",
        summary="Ask the running turn to end as cancelled.",
        answer=Nothing,
        handle=cancel,
    ),
]
