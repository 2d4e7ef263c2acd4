"""Events to bytes and back. The header's number and the payload's tag must agree (ruling 3).

Decoding ignores unknown fields (a newer writer's), refuses missing ones, and returns None for a type this version
does not know: such events are kept, counted, never folded, never fatal.
"""

import re
from typing import Annotated, Any, Final

import msgspec

from facts.events import AnyEvent
from polyc.appending import Draft
from polyc.errors import CorruptError
from polyc.vocabulary import BY_CODE, BY_KIND

_encoder: Final = msgspec.json.Encoder()


class _Nobody(msgspec.Struct, frozen=True, tag_field="type", tag="-"):
    """The other half of a union of two, so that a payload must bear its tag; no payload is ever one."""

    never: Annotated[int, msgspec.Meta(ge=1, le=0)]


def _decoder(event: Any) -> msgspec.json.Decoder[AnyEvent]:
    return msgspec.json.Decoder(event | _Nobody)


DECODERS: Final[dict[int, msgspec.json.Decoder[AnyEvent]]] = {
    BY_KIND[str(event.__struct_config__.tag)].code: _decoder(event) for event in AnyEvent.__args__
}
_VALUES: Final = re.compile(r"value '.*'", re.DOTALL)  # an enumeration's error shows what stood there
MALFORMED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


_CODES: Final[dict[type, int]] = {event: BY_KIND[str(event.__struct_config__.tag)].code for event in AnyEvent.__args__}


def encode(event: AnyEvent, *, closes_fence: bool = False) -> Draft:
    """The draft of an event: its type's number and its JSON."""
    return Draft(code_of(event), payload_of(event), closes_fence)


def code_of(event: msgspec.Struct) -> int:
    """The number of an event's type, as the header has it."""
    return _CODES[type(event)]


def payload_of(event: msgspec.Struct) -> bytes:
    """An event's JSON."""
    return _encoder.encode(event)


def decode(event_type: int, payload: bytes, *, place: str) -> AnyEvent | None:
    """The event of a payload; None for an unknown type, CorruptError for a known one that does not fit."""
    decoder = DECODERS.get(event_type)
    if decoder is None:
        return None
    try:
        return decoder.decode(payload)
    except MALFORMED:
        raise malformed(event_type, place=place) from None


def misfit(error: msgspec.DecodeError) -> str:
    """Why JSON is not what it should be: the member and what was expected there; never a value of it.

    >>> try:
    ...     msgspec.json.decode(b'{"id": 7, "at": {"a": "secret"}}', type=dict[str, int])
    ... except msgspec.DecodeError as error:
    ...     misfit(error)
    '[...]: expected `int`, got `object`'
    """
    what, _, where = str(error).partition(" - at `")
    what = _VALUES.sub("value", what.removeprefix("JSON is malformed: "))
    place = where.removesuffix("`").removeprefix("$").removeprefix(".")
    what = what[:1].lower() + what[1:]
    return f"{place}: {what}" if place else what


def malformed(event_type: int, *, place: str) -> CorruptError:
    """The fault of a payload that does not fit its type; never shows the payload."""
    return CorruptError(f"payload is not a {BY_CODE[event_type].kind} event", place=place, kind="payload")
