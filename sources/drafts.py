"""Events → drafts: encoded, redacted where they are made (ruling 18), cut where they are over the journal's bound."""

from collections.abc import Sequence

from facts import codec
from facts.events import Event
from polyc.appending import Draft
from polyc.limits import PAYLOAD_SIZE_BYTES_MAX
from sources.redaction import Redactor
from sources.shrink import shrink


def drafts_of(events: Sequence[Event], redactor: Redactor) -> tuple[Draft, ...]:
    """The drafts of events, in order; the redactor counts what it struck."""
    payloads = redactor.clean([codec.payload_of(event) for event in events])
    return tuple(
        Draft(codec.code_of(event), payload if len(payload) <= PAYLOAD_SIZE_BYTES_MAX else shrink(payload))
        for event, payload in zip(events, payloads, strict=True)
    )
