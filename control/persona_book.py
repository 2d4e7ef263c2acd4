"""Who there is and who participates in what, as the log says it up to now (rulings 15, 27, 29).

Participation records live in the conversation's own partition: a new incarnation of it starts without participants.
Only records signed by a key with the role `control` count. Pure: the book is told records in log order.
"""

import msgspec

from facts.events import (
    AnyEvent,
    ConversationOpened,
    ParticipantJoined,
    ParticipantLeft,
    PersonaRecorded,
)
from polyc.entry import Record

CODES = frozenset({"conversation_opened", "participant_joined", "participant_left", "persona_recorded"})


class Persona(msgspec.Struct, frozen=True):
    """A persona as its last record says."""

    persona_id: str
    display_name: str | None
    is_active: bool
    is_admin: bool


class Conversation(msgspec.Struct):
    """A conversation's current incarnation, where it came from, and who participates since which log index."""

    incarnation: bytes
    origin: str | None = None
    title: str | None = None
    members: dict[str, int] = msgspec.field(default_factory=dict)
    opened_index: int | None = None


class PersonaBook(msgspec.Struct):
    """Personas, conversations and participation."""

    personas: dict[str, Persona] = msgspec.field(default_factory=dict)
    conversations: dict[str, Conversation] = msgspec.field(default_factory=dict)
    scopes: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    last_index: dict[str, int] = msgspec.field(default_factory=dict)

    def apply(self, record: Record, event: AnyEvent) -> list[str]:
        """Take a record; returns the personas whose grants end with it: somebody left or was suspended."""
        match event:
            case PersonaRecorded():
                return self._persona_recorded(event)
            case ConversationOpened():
                conversation = self.conversations[record.partition]
                conversation.origin, conversation.title = event.origin, event.title
                conversation.opened_index = record.index
                return []
            case ParticipantJoined(persona_id=persona_id):
                self.last_index[persona_id] = record.index
                self.conversations[record.partition].members.setdefault(persona_id, record.index)
                self.scopes.setdefault(persona_id, {}).setdefault(record.partition, record.index)
                return []
            case ParticipantLeft(persona_id=persona_id):
                return self._left(record, persona_id)
            case _:
                return []

    def place(self, record: Record) -> list[str]:
        """Take note of a conversation's record before its meaning; a new incarnation ends all participation in it."""
        known = self.conversations.get(record.partition)
        if known is not None and known.incarnation == record.incarnation:
            return []
        ended = [] if known is None else list(known.members)
        for persona_id in ended:
            self._drop(record, persona_id)
        self.conversations[record.partition] = Conversation(record.incarnation)
        return ended

    def scope_of(self, persona_id: str) -> list[str]:
        """The conversations the persona participates in now, sorted."""
        return sorted(self.scopes.get(persona_id, ()))

    def _persona_recorded(self, event: PersonaRecorded) -> list[str]:
        active = event.state == "active"
        self.personas[event.persona_id] = Persona(event.persona_id, event.display_name, active, event.is_admin)
        return [] if active else [event.persona_id, f"admin:{event.persona_id}"]

    def _left(self, record: Record, persona_id: str) -> list[str]:
        if persona_id not in self.conversations[record.partition].members:
            return []
        del self.conversations[record.partition].members[persona_id]
        self._drop(record, persona_id)
        return [persona_id]

    def _drop(self, record: Record, persona_id: str) -> None:
        self.last_index[persona_id] = record.index
        self.scopes.get(persona_id, {}).pop(record.partition, None)
