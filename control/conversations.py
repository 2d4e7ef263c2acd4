"""Live conversations: opened by a persona, who participates from the first record on.

An imported conversation is never continued in place, only in a new one that links to it (ruling 14).
"""

from dataclasses import dataclass
from typing import Literal

from control.context import ControlContext
from control.participation import check_conversation
from control.personas import active_persona
from control.ports import RedactionPolicy
from facts import codec
from facts.events import AnyEvent, ConversationOpened, ParticipantJoined, Redaction, SessionLink
from polyc.appending import Draft, Expected
from polyc.errors import RefusedError
from polyc.ids import check_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView:
    """What a participant sees of a conversation in Control; its content is in the tables."""

    partition: str
    origin: str | None
    title: str | None
    participants: list[str]
    is_running: bool


def open_conversation(
    context: ControlContext,
    persona_id: str,
    *,
    title: str | None = None,
    partition: str | None = None,
    continues: str | None = None,
    link: Literal["resume", "fork"] = "resume",
) -> str:
    """A new conversation of the persona, in one append; returns its partition.

    `continues` names a conversation the persona participates in, live or imported; it becomes the parent.
    """
    active_persona(context, persona_id)
    redaction = redaction_of(context)
    name = check_conversation(partition or f"conv-{context.new_id()}")
    if name.startswith("conv-imp-"):
        raise RefusedError("conv-imp- is for imported conversations")
    if continues is not None:
        check_participant(context, continues, persona_id)
    events: list[AnyEvent] = [
        ConversationOpened(
            id=context.new_id(),
            origin="live",
            conversation_id=name,
            title=title,
            redaction=Redaction(redaction.policy, redaction.version),
        ),
        ParticipantJoined(id=context.new_id(), persona_id=persona_id, acted_by=context.acted_by),
    ]
    if continues is not None:
        events.append(SessionLink(id=context.new_id(), kind=link, parent_partition=continues, evidence="stated"))
    context.control.append(
        check_partition(name), [redacted(redaction, codec.encode(event)) for event in events], expected=Expected.NEW
    )
    return name


def list_conversations(context: ControlContext, persona_id: str) -> list[ConversationView]:
    """The conversations the persona participates in, by name."""
    with context.index.view() as state:
        return [
            ConversationView(
                partition=name,
                origin=state.personas.conversations[name].origin,
                title=state.personas.conversations[name].title,
                participants=sorted(state.personas.conversations[name].members),
                is_running=bool(state.turns.of_conversation(name)),
            )
            for name in state.personas.scope_of(persona_id)
        ]


def check_participant(context: ControlContext, partition: str, persona_id: str) -> None:
    """Return, or refuse: not found reads the same for what is not there and for what is not yours."""
    with context.index.view() as state:
        conversation = state.personas.conversations.get(check_conversation(partition))
        if conversation is None or persona_id not in conversation.members:
            raise RefusedError("no such conversation of yours", code="not_found")


def check_live(context: ControlContext, partition: str) -> None:
    """Return, or refuse a conversation that was not opened here."""
    with context.index.view() as state:
        conversation = state.personas.conversations.get(check_conversation(partition))
        if conversation is None or conversation.origin != "live":
            raise RefusedError(
                "imported conversations are not continued in place",
                code="failed_precondition",
                hint="open a new conversation that continues it",
            )


def redaction_of(context: ControlContext) -> RedactionPolicy:
    """The policy every live event passes; without one nothing live is recorded."""
    if context.redaction is None:
        raise RefusedError(
            "this Control has no redaction policy", code="failed_precondition", hint="polyc serve control"
        )
    return context.redaction


def redacted(policy: RedactionPolicy, draft: Draft) -> Draft:
    """The draft with everything struck that the policy names."""
    return Draft(draft.event_type, policy.clean([draft.payload])[0], draft.closes_fence)
