"""What people say about conversations: tags and assertions (query-language.md). They are records like any other."""

from typing import Literal

from control.context import ControlContext
from control.conversations import redacted, redaction_of
from facts import codec
from facts.events import Assertion, SessionTag

AssertionState = Literal["active", "candidate", "accepted", "rejected", "deferred", "superseded", "deleted", "inactive"]


def set_tag(context: ControlContext, partition: str, persona_id: str, *, tag: str, is_set: bool) -> None:
    """Put a tag on a conversation or take it off; the last word counts."""
    event = SessionTag(id=context.new_id(), tag=tag, state="set" if is_set else "removed", persona_id=persona_id)
    context.control.append(partition, [redacted(redaction_of(context), codec.encode(event))])


def assert_claim(
    context: ControlContext,
    partition: str,
    *,
    kind: str,
    state: AssertionState,
    text: str | None,
    assertion_id: str | None,
    target_message_id: str | None,
) -> str:
    """Claim something of a conversation, or change an earlier claim; returns its id."""
    chosen = assertion_id or context.new_id()
    event = Assertion(
        id=context.new_id(),
        assertion_id=chosen,
        kind=kind,
        state=state,
        author_kind="person",
        text=text,
        target_message_id=target_message_id,
    )
    context.control.append(partition, [redacted(redaction_of(context), codec.encode(event))])
    return chosen
