"""What every event has, and the three ways in which one names its turn."""

from datetime import datetime
from typing import Annotated

import msgspec

# What the tables can hold: 64-bit integers, times with an offset. Anything else does not fit its type: a named fault.
Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag_field="type", omit_defaults=True):
    """What every event has: an id (UUIDv7, or v8 when derived from a source) and when it happened."""

    id: str
    occurred_at: Instant | None = None


class TurnRef(msgspec.Struct, frozen=True, gc=False):
    """A turn as markers name it."""

    conversation_id: str
    turn_id: str


class Marker(Event, frozen=True, gc=False, kw_only=True):
    """Spelling 1: the turn is named in the body."""

    turn: TurnRef


class HarnessEvent(Event, frozen=True, gc=False, kw_only=True):
    """Spelling 2: the turn's id stands in the event's own header; None = outside any turn."""

    turn_id: str | None = None


class EdgeEvent(Event, frozen=True, gc=False, kw_only=True):
    """Spelling 3: a gateway knows only the dispatch; `turn_id` serves imported histories, which have no dispatch."""

    dispatch_id: str | None = None
    turn_id: str | None = None
