"""What a rewind, a rollback or a replacement took off the live path; its rows stay, marked."""

import msgspec

from facts.events import Superseded


class Superseding(msgspec.Struct):
    """Message and turn ids, each with the position of the last event that superseded it: only earlier rows are."""

    messages: dict[str, int] = {}
    turns: dict[str, int] = {}

    def supersede(self, event: Superseded, position: int) -> None:
        """Take the event."""
        self.messages.update(dict.fromkeys(event.message_ids, position))
        self.turns.update(dict.fromkeys(event.turn_ids, position))

    def covers(self, position: int, *, turn: str, message: str | None) -> bool:
        """Whether a row at this position was superseded later."""
        return self.turns.get(turn, 0) > position or (message is not None and self.messages.get(message, 0) > position)
