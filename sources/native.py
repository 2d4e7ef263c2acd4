"""Polychrome's own NDJSON: what any harness can write, one event of `facts.events` a line (docs/sources.md).

A conversation begins with `conversation_opened`; a file may hold several, one after the other. The events are taken
as they stand, with these exceptions: ids become derived ones, the conversation's id becomes that of its partition,
texts are redacted, and types that an importer may not author (payments to be made, personas, keys) are set aside.
Turns are the harness's own statements: no rule here closes one.
"""

import codecs
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from facts import codec
from facts.events import AnyEvent, ConversationOpened, Event, Marker, Redaction
from polyc.vocabulary import BY_KIND
from sources.conversation import Identity, Segment
from sources.drafts import drafts_of
from sources.lines import BadLineError, Quarantined, SetAside, object_decoder, records
from sources.provider import Context, Provider
from sources.redaction import REDACTION
from sources.stillness import Stillness
from sources.teller import Teller

NAME: Final = "native"

ALLOWED: Final[dict[str, type[Event]]] = {
    str(member.__struct_config__.tag): member
    for member in AnyEvent.__args__
    if issubclass(member, Event) and "importer" in BY_KIND[str(member.__struct_config__.tag)].roles
}
del ALLOWED["import_quarantined"]

_decoders: Final = {kind: msgspec.json.Decoder(member) for kind, member in ALLOWED.items()}


class _Tag(msgspec.Struct):
    type: str


_decode_tag: Final = object_decoder(_Tag)


class _Line(msgspec.Struct, frozen=True):
    event: Event
    key: str


@dataclass(frozen=True, slots=True)
class Told:
    """A conversation that a harness wrote down itself; it begins at an offset of its file."""

    path: Path
    identity: Identity
    offset: int

    def segments(self, context: Context) -> Iterator[Segment]:
        """Its events in order; a segment ends with a turn."""
        teller = Teller(self.identity, redactor=context.redactor)
        waiting: list[Event] = []
        for offset, line in records(self.path, _decode, set_aside=context.set_aside, start=self.offset):
            if isinstance(line.event, ConversationOpened) and offset != self.offset:
                break
            context.counts.records += 1
            waiting.append(_adopted(line, teller, self, context))
            if line.event.__struct_config__.tag in {"turn_complete", "conversation_opened"}:
                yield _segment(waiting, context, turn="closed" if len(waiting) > 1 else "none")
                waiting = []
        if waiting and context.level >= Stillness.STILL:
            yield _segment(waiting, context, turn="open")
            waiting = []
        context.counts.untold = bool(waiting)


def recognise(path: Path, head: bytes) -> bool:
    """Lines that begin with a `conversation_opened`."""
    if path.suffix not in {".jsonl", ".ndjson"}:
        return False
    try:
        return _decode_tag(head.split(b"\n", 1)[0]).type == "conversation_opened"
    except BadLineError:
        return False


def tellings(path: Path, set_aside: SetAside) -> Iterator[Told]:
    """Each conversation of the file; one that stands twice counts as it stands last."""
    found: dict[str, int] = {}
    for offset, line in records(path, _decode, set_aside=lambda _bad: None):
        if isinstance(line.event, ConversationOpened):
            found.pop(line.event.conversation_id, None)
            found[line.event.conversation_id] = offset
        elif not found:
            set_aside(Quarantined(offset, 0, "before_conversation_opened", line.key))
    for name, place in found.items():
        yield Told(path, Identity(NAME, name), place)


def _decode(line: bytes) -> _Line:
    kind = _decode_tag(line).type
    decoder = _decoders.get(kind)
    if decoder is None:
        raise BadLineError("not_for_importers" if kind in BY_KIND else "unknown_type")
    try:
        return _Line(decoder.decode(line.removeprefix(codecs.BOM_UTF8)), hashlib.sha256(line.rstrip()).hexdigest())
    except msgspec.ValidationError as error:
        raise BadLineError("unexpected_shape", codec.misfit(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadLineError("not_json", codec.misfit(error) if isinstance(error, msgspec.DecodeError) else "") from None


def _adopted(line: _Line, teller: Teller, told: Told, context: Context) -> Event:
    """The event with derived ids, in its partition's name."""
    event = line.event
    if isinstance(event, ConversationOpened):
        return msgspec.structs.replace(
            event,
            id=teller.event_id("opened", str(context.ordinal)),
            origin=NAME if event.origin == "live" else event.origin,
            conversation_id=teller.conversation_id,
            provider_session_id=event.provider_session_id or event.conversation_id,
            source_path=str(told.path),
            redaction=Redaction(REDACTION.policy, REDACTION.version),
        )
    adopted = msgspec.structs.replace(event, id=teller.event_id("native", event.id))
    if isinstance(adopted, Marker):
        turn = msgspec.structs.replace(adopted.turn, conversation_id=teller.conversation_id)
        adopted = msgspec.structs.replace(adopted, turn=turn)
    return adopted


def _segment(events: list[Event], context: Context, *, turn: Any) -> Segment:
    return Segment(drafts_of(events, context.redactor), turn)


NATIVE: Final = Provider(name=NAME, recognise=recognise, tellings=tellings)
