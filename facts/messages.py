"""The tables `messages`, `blocks` and `messages_withheld`.

One row a message: of several events with one message id in one turn the last counts. A message that its turn marks as
withheld, in its own event or by `message_withheld`, leaves `messages` and `blocks` and stands in `messages_withheld`.
"""

from collections.abc import Container, Iterator
from typing import Final

import msgspec

from facts.events import Message, MessageWithheld
from facts.fold import Row
from facts.intake import utc
from facts.superseding import Superseding

# Places of columns in a row of `messages`, for the folds that read rows.
TURN, MESSAGE_ID, ROLE, MATERIAL, KIND, TEXT, OCCURRED_AT, WORDS, SUPERSEDED = 3, 5, 7, 8, 9, 12, 13, 14, 15


_SAID: Final = ("text", "code")
_SPACES: Final = bytes(32 if chr(byte).isspace() else 97 for byte in range(128)) + bytes(128)


class Messages(msgspec.Struct):
    """The messages of one incarnation of a conversation, of all turns."""

    entries: list[tuple[Row, list[Row]] | None] = []  # a message's row and its blocks' rows; None = replaced
    latest: dict[str, dict[str, int]] = {}  # turn -> message id -> its last entry
    withheld: dict[str, dict[str, str]] = {}  # turn -> message id -> reason

    def message(self, event: Message, place: Row) -> None:
        """Take a message of an open turn."""
        partition, incarnation, position, turn, at = place  # a tuple in one piece is made 3× faster than from `*place`
        message_id, kind = event.message_id, event.kind
        blocks: list[Row] = []
        said: list[str] = []
        thought: list[str] = []
        for index, block in enumerate(event.blocks):
            what, text = block.type, block.text
            blocks.append(
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
        if thought and not said:
            kind, said = "thinking", thought
        words = "\n\n".join(said) if said else None
        row = (
            partition,
            incarnation,
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
            utc(event.occurred_at),
            word_count(words) if words else 0,
            event.superseded,
            event.time_flag,
        )
        self._keep(row, blocks, turn, message_id)
        if event.withheld is not None:
            self.withheld.setdefault(turn, {})[message_id] = event.withheld

    def _keep(self, row: Row, blocks: list[Row], turn: str, message_id: str) -> None:
        """Note a message and its blocks in the place of an earlier one of this id in its turn."""
        entries = self.entries
        latest = self.latest.get(turn)
        if latest is None:
            latest = self.latest[turn] = {}
        elif message_id in latest:
            entries[latest[message_id]] = None
        latest[message_id] = len(entries)
        entries.append((row, blocks))

    def withhold(self, event: MessageWithheld, place: Row) -> None:
        """Take the mark that a message of this very turn was never sent."""
        self.withheld.setdefault(place[TURN], {})[event.message_id] = event.reason

    def rows(self, committed: Container[str], superseding: Superseding) -> tuple[list[Row], list[Row], list[Row]]:
        """The rows of `messages`, `blocks` and `messages_withheld` in committed turns."""
        if not (self.withheld or superseding.messages or superseding.turns):
            entries = [entry for entry in self.entries if entry is not None and entry[0][TURN] in committed]
            return [row for row, _ in entries], [block for _, parts in entries for block in parts], []
        shown: list[Row] = []
        blocks: list[Row] = []
        hidden: list[Row] = []
        for row, parts in self._committed(committed, superseding):
            reason = self.withheld[row[TURN]].get(row[MESSAGE_ID]) if row[TURN] in self.withheld else None
            if reason is None:
                shown.append(row)
                blocks += parts
            else:
                hidden.append((*row, reason))
        return shown, blocks, hidden

    def _committed(self, committed: Container[str], superseding: Superseding) -> Iterator[tuple[Row, list[Row]]]:
        marks = bool(superseding.messages or superseding.turns)
        for entry in self.entries:
            if entry is None or entry[0][TURN] not in committed:
                continue
            row, blocks = entry
            if marks and superseding.covers(row[2], turn=row[TURN], message=row[MESSAGE_ID]):
                yield (*row[:SUPERSEDED], True, *row[SUPERSEDED + 1 :]), blocks
            else:
                yield row, blocks


def word_count(text: str) -> int:
    r"""How many words `text.split()` gives; of ASCII, their beginnings are counted and no word is made.

    >>> word_count(" two\twords "), word_count("zwei Wörter"), word_count("")
    (2, 2, 0)
    """
    if not text.isascii():
        return len(text.split())
    spaced = text.encode().translate(_SPACES)
    return spaced.count(b" a") + spaced.startswith(b"a")
