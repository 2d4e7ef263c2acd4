"""The user tier: `assertions` and `session_tags`, each row in its last state (query-language.md).

What no person wrote starts as `candidate`, whatever it says of itself: a person's is what Control signs as a person's.
A claim that a person wrote or decided is not changed by a later automated write, neither its state nor its words.
"""

from datetime import datetime
from typing import Final

import msgspec

from facts.events import Assertion, SessionTag
from facts.fold import Row

JUDGED: Final = frozenset({"accepted", "rejected", "deferred", "superseded", "deleted"})


class Assertions(msgspec.Struct):
    """The claims and tags of one incarnation of a conversation, each as its last row."""

    partition: str
    incarnation: str
    claims: dict[str, Row] = {}
    tags: dict[str, Row] = {}

    def claim(self, event: Assertion, position: int, at: datetime, *, by_person: bool) -> str | None:
        """Take a claim, or a judgment of one; the kind of anomaly when it changes nothing."""
        known = self.claims.get(event.assertion_id)
        if known is not None and not by_person and (known[7] in JUDGED or known[8] == "person"):
            return "settled_by_a_person"
        state = event.state if by_person else "candidate"
        kind, text, target = event.kind, event.text, event.target_message_id
        if known is not None:
            text = known[9] if text is None else text
            target = known[10] if target is None else target
        spoken = "agent" if event.author_kind == "person" and not by_person else event.author_kind
        author = spoken if known is None else known[8]
        place = (self.partition, self.incarnation, position, None, at)
        self.claims[event.assertion_id] = (*place, event.assertion_id, kind, state, author, text, target)
        return None

    def tag(self, event: SessionTag, position: int, at: datetime) -> None:
        """Put a tag on or take it off."""
        if event.state == "removed":
            self.tags.pop(event.tag, None)
            return
        self.tags[event.tag] = (self.partition, self.incarnation, position, None, at, event.tag, event.persona_id)

    def rows(self) -> tuple[list[Row], list[Row]]:
        """The rows of `assertions` and `session_tags`, by key."""
        return [row for _, row in sorted(self.claims.items())], [row for _, row in sorted(self.tags.items())]
