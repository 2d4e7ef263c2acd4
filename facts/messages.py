"""The tables `messages`, `blocks` and `messages_withheld`.

One row a message: of several events with one message id in one turn the last counts. A message that its turn marks as
withheld, in its own event or by `message_withheld`, leaves `messages` and `blocks` and stands in `messages_withheld`.
An empty message id is no id: such a message goes by `#` and its position, replaces nothing, and a mark without an id
hides every such message of its turn.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from facts.events import Message, MessageWithheld
from facts.fold import Row
from facts.intake import utc
from facts.superseding import Superseding
from facts.turns import TURN, Turns

# Places of columns in a row of `messages` and of `blocks`, for the folds that read rows.
POSITION, MESSAGE_ID, ROLE, MATERIAL, KIND, TEXT, OCCURRED_AT, WORDS, SUPERSEDED = 2, 5, 7, 8, 9, 12, 13, 14, 15
MESSAGE_OF_BLOCK, TYPE_OF_BLOCK = 6, 8

_SAID: Final = ("text", "code")
_SPACES: Final = bytes(32 if chr(byte).isspace() else 97 for byte in range(128)) + bytes(128)


class Messages(msgspec.Struct):
    """The messages of one incarnation of a conversation, of all turns."""

    partition: str
    incarnation: str
    entries: list[Row] = []
    blocks: list[Row] = []
    latest: dict[str, dict[str, int]] = {}  # turn -> message id -> the position of its last event
    replaced: set[int] = set()  # positions of events that a later one with their message id replaced
    withheld: dict[str, dict[str, str]] = {}  # turn -> message id -> reason

    def message(self, event: Message, position: int, turn: str, at: datetime) -> None:
        """Take a message of an open turn."""
        message_id = event.message_id or f"#{position}"
        latest = self.latest.get(turn)
        if latest is None:
            latest = self.latest[turn] = {}
        elif message_id in latest:
            self.replaced.add(latest[message_id])
        latest[message_id] = position
        words, kind = self._take_blocks(event, message_id, position, turn, at)
        occurred_at = event.occurred_at
        if occurred_at is not None and occurred_at.tzinfo is not UTC:
            occurred_at = utc(occurred_at)
        self.entries.append(
            (
                self.partition,
                self.incarnation,
                position,
                turn,
                at,
                message_id,
                event.parent_message_id,
                event.role,
                event.material_origin,
                kind,
                event.author,
                event.model,
                words,
                occurred_at,
                word_count(words) if words else 0,
                event.superseded,
                event.time_flag,
            )
        )
        if event.withheld is not None:
            self.withheld.setdefault(turn, {})[message_id] = event.withheld

    def _take_blocks(
        self, event: Message, message_id: str, position: int, turn: str, at: datetime
    ) -> tuple[str | None, str]:
        """Take a message's blocks; returns its text and its kind."""
        partition, incarnation = self.partition, self.incarnation
        said: list[str] = []
        thought: list[str] = []
        for index, block in enumerate(event.blocks):
            what, text = block.type, block.text
            self.blocks.append(
                (
                    partition,
                    incarnation,
                    position,
                    turn,
                    at,
                    f"{message_id}/{index}",
                    message_id,
                    index,
                    what,
                    block.language,
                    block.media_type,
                    text,
                    block.sha256,
                    block.byte_length,
                )
            )
            if text is not None:
                if what in _SAID:
                    said.append(text)
                elif what == "thinking":
                    thought.append(text)
        if said:
            return "\n\n".join(said), event.kind
        return ("\n\n".join(thought), "thinking") if thought else (None, event.kind)

    def withhold(self, event: MessageWithheld, _position: int, turn: str, _at: datetime) -> None:
        """Take the mark that a message of this very turn was never sent."""
        self.withheld.setdefault(turn, {})[event.message_id] = event.reason

    def rows(self, turns: Turns, superseding: Superseding) -> tuple[list[Row], list[Row], list[Row]]:
        """The rows of `messages`, `blocks` and `messages_withheld` in committed turns."""
        rows, blocks = turns.shown(self.entries), turns.shown(self.blocks)
        if self.replaced:
            rows = [row for row in rows if row[POSITION] not in self.replaced]
            blocks = [row for row in blocks if row[POSITION] not in self.replaced]
        if superseding.messages or superseding.turns:
            rows = [_marked(row, superseding) for row in rows]
        if not self.withheld:
            return rows, blocks, []
        reasons = {row[POSITION]: self._reason(row) for row in rows}
        hidden = [(*row, reasons[row[POSITION]]) for row in rows if reasons[row[POSITION]] is not None]
        shown = [row for row in rows if reasons[row[POSITION]] is None]
        return shown, [row for row in blocks if reasons[row[POSITION]] is None], hidden

    def _reason(self, row: Row) -> str | None:
        marks = self.withheld.get(row[TURN], {})
        unnamed = marks.get("") if row[MESSAGE_ID] == f"#{row[POSITION]}" else None
        return marks.get(row[MESSAGE_ID], unnamed)


def _marked(row: Row, superseding: Superseding) -> Row:
    if not superseding.covers(row[POSITION], turn=row[TURN], message=row[MESSAGE_ID]):
        return row
    return (*row[:SUPERSEDED], True, *row[SUPERSEDED + 1 :])


def word_count(text: str) -> int:
    r"""How many words `text.split()` gives; of ASCII, their beginnings are counted and no word is made.

    >>> word_count(" two\twords "), word_count("zwei Wörter"), word_count("")
    (2, 2, 0)
    """
    if not text.isascii():
        return len(text.split())
    spaced = text.encode().translate(_SPACES)
    return spaced.count(b" a") + spaced.startswith(b"a")
