"""The user tier: `assertions` and `session_tags`, each row in its last state (query-language.md).

What no person wrote starts as `candidate`, whatever it says of itself, and an outcome that a person decided is not
resurrected by a later automated write.
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

    def claim(self, event: Assertion, position: int, at: datetime) -> None:
        """Take a claim, or a judgment of one."""
        state: str = event.state
        known = self.claims.get(event.assertion_id)
        if event.author_kind != "person":
            judged = known is not None and known[7] in JUDGED
            state = known[7] if judged and known is not None else "candidate"
        kind, text, target = event.kind, event.text, event.target_message_id
        if known is not None:
            text = known[9] if text is None else text
            target = known[10] if target is None else target
        author = event.author_kind if known is None else known[8]
        place = (self.partition, self.incarnation, position, None, at)
        self.claims[event.assertion_id] = (*place, event.assertion_id, kind, state, author, text, target)

    def tag(self, event: SessionTag, position: int, at: datetime) -> None:
        """Put a tag on or take it off."""
        if event.state == "removed":
            self.tags.pop(event.tag, None)
            return
        self.tags[event.tag] = (self.partition, self.incarnation, position, None, at, event.tag, event.persona_id)

    def rows(self) -> tuple[list[Row], list[Row]]:
        """The rows of `assertions` and `session_tags`, by key."""
        return [row for _, row in sorted(self.claims.items())], [row for _, row in sorted(self.tags.items())]
