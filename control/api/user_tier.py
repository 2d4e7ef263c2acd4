"""Tags and assertions over HTTP, for participants."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from control import conversations, user_tier
from control.api.operation import Call, Nothing, Operation, Wire


class TagBody(Wire):
    """A tag to set, or to take off."""

    tag: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._/-]{0,63}$")]
    is_set: bool = True


class AssertionBody(Wire):
    """A claim about the conversation or one of its messages."""

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    text: Annotated[str, Field(max_length=16 * 1024)] | None = None
    state: Literal["active", "candidate", "accepted", "rejected", "deferred", "superseded", "deleted", "inactive"] = (
        "active"
    )
    assertion_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    target_message_id: Annotated[str, Field(min_length=1, max_length=256)] | None = None


class AssertionAnswer(Wire):
    """The claim's id."""

    assertion_id: str


def tag(call: Call) -> BaseModel:
    """Set or remove a tag."""
    body: TagBody = call.body
    partition, persona_id = call.path["conversation"], call.who.persona_id
    conversations.check_participant(call.context, partition, persona_id)
    user_tier.set_tag(call.context, partition, persona_id, tag=body.tag, is_set=body.is_set)
    return Nothing()


def claim(call: Call) -> BaseModel:
    """Make or change a claim."""
    body: AssertionBody = call.body
    partition = call.path["conversation"]
    conversations.check_participant(call.context, partition, call.who.persona_id)
    return AssertionAnswer(assertion_id=user_tier.assert_claim(call.context, partition, **body.model_dump()))


OPERATIONS = [
    Operation(
        name="tag_conversation",
        method="POST",
        path="/api/conversations/{conversation}/tags",
        access="persona",
        summary="Put a tag on a conversation of yours, or take it off.",
        body=TagBody,
        answer=Nothing,
        handle=tag,
    ),
    Operation(
        name="assert_claim",
        method="POST",
        path="/api/conversations/{conversation}/assertions",
        access="persona",
        summary="Claim something about a conversation of yours, or change an earlier claim.",
        body=AssertionBody,
        answer=AssertionAnswer,
        handle=claim,
    ),
]
