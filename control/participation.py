"""Participation: which persona may read which conversation (ruling 15).

The records stand in the conversation's own partition, signed by Control. Joining admits the whole conversation, also
what was said before; leaving removes it, and the persona's grants are revoked with the same record.
"""

from control.context import ControlContext
from control.personas import active_persona
from facts import codec
from facts.events import ParticipantJoined, ParticipantLeft
from polyc.appending import Draft
from polyc.errors import RefusedError
from polyc.ids import CONVERSATION, check_persona, uuid8, uuid8_bytes


def join(context: ControlContext, partition: str, persona_id: str) -> bool:
    """The persona participates from here on; False (and no record) when it already does."""
    active_persona(context, persona_id)
    with context.index.view() as state:
        conversation = state.personas.conversations.get(check_conversation(partition))
        if conversation is None:
            raise RefusedError("no such conversation", code="not_found")
        if persona_id in conversation.members:
            return False
    event = ParticipantJoined(id=context.new_id(), persona_id=persona_id, acted_by=context.acted_by)
    context.control.append(partition, [codec.encode(event)])
    return True


def join_imported(context: ControlContext, partition: str, persona_id: str) -> None:
    """The persona participates in what it imported: once for each incarnation, however often the import runs.

    Ids are derived, so the journal itself recognises the repeat, and a persona that left is not brought back by it.
    """
    check_persona(persona_id)
    head = context.journal.head(check_conversation(partition))
    if head is None:
        raise RefusedError("no such conversation", code="not_found")
    draft, append_id = joined_import(partition, head.incarnation, persona_id)
    context.control.append(partition, [draft], append_id=append_id)


def joined_import(partition: str, incarnation: bytes, persona_id: str) -> tuple[Draft, bytes]:
    """The record of `join_imported` and its append's id; an import appends it together with the conversation."""
    source = ("participant_joined", partition, incarnation.hex(), persona_id)
    event = ParticipantJoined(id=uuid8(*source), persona_id=persona_id)
    return codec.encode(event), uuid8_bytes("append", *source)


def leave(context: ControlContext, partition: str, persona_id: str) -> bool:
    """The persona no longer participates; False (and no record) when it did not."""
    check_persona(persona_id)
    with context.index.view() as state:
        conversation = state.personas.conversations.get(check_conversation(partition))
        if conversation is None or persona_id not in conversation.members:
            return False
    event = ParticipantLeft(id=context.new_id(), persona_id=persona_id, acted_by=context.acted_by)
    context.control.append(partition, [codec.encode(event)])
    return True


def participants_of(context: ControlContext, partition: str) -> list[str]:
    """Who participates now, by id."""
    with context.index.view() as state:
        conversation = state.personas.conversations.get(check_conversation(partition))
        return [] if conversation is None else sorted(conversation.members)


def conversations_of(context: ControlContext, persona_id: str) -> list[str]:
    """The conversations the persona participates in now, sorted."""
    with context.index.view() as state:
        return state.personas.scope_of(check_persona(persona_id))


def check_conversation(partition: str) -> str:
    """Return the name as a conversation's partition, or refuse it."""
    if not CONVERSATION.fullmatch(partition):
        raise RefusedError("not a conversation", hint="conv- and at most 64 of a-z, 0-9 and '-'")
    return partition
