"""The tables `sessions` and `session_links`.

`sessions` has one row a conversation, from its first committed turn on. What a turn says of the session (title,
folder, branch) counts when that turn is committed; what is said outside any turn counts at once.
"""

from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from facts import messages as m
from facts import tool_calls as t
from facts.call_ids import qualified
from facts.events import ConversationOpened, SessionLink, SessionUpdated
from facts.fold import Row
from facts.turns import End, Turns

E = TypeVar("E", ConversationOpened, SessionUpdated)
ROLES: Final = ("user", "assistant", "system", "tool")
PASTE_MARK: Final = "[Pasted text #"
PASTE_LINES_MIN: Final = 10
PASTE_SIZE_MIN: Final = 1000  # characters


class Contribution(msgspec.Struct, frozen=True):
    """An event that says something of the session."""

    position: int
    at: datetime
    turn: str | None
    event: SessionUpdated


class Sessions(msgspec.Struct):
    """What one incarnation of a conversation says of itself."""

    partition: str
    incarnation: str
    opened: ConversationOpened | None = None
    updates: list[Contribution] = []
    links: list[Row] = []
    link_kind: str | None = None
    parent: str | None = None
    root: str | None = None

    @property
    def origin(self) -> str:
        """`live`, or the provider that the conversation was imported from."""
        return "live" if self.opened is None else self.opened.origin

    def open(self, event: ConversationOpened) -> None:
        """Take what the first event says of the conversation."""
        self.opened = _timeless(event)

    def update(self, event: SessionUpdated, position: int, turn: str | None, at: datetime) -> None:
        """Take what an open turn, or nobody's turn, says of the session."""
        self.updates.append(Contribution(position, at, turn, _timeless(event)))

    def link(self, event: SessionLink, position: int, at: datetime) -> None:
        """Take a claim of a parent; the first one names the session's."""
        root = event.root_partition or event.parent_partition
        if self.link_kind is None:
            self.link_kind, self.parent, self.root = event.kind, event.parent_partition, root
        call = event.parent_tool_call_id
        self.links.append(
            (
                self.partition,
                self.incarnation,
                position,
                None,
                at,
                event.kind,
                event.parent_partition,
                root,
                event.evidence,
                qualified(event.parent_partition, call) if call else None,
                event.parent_message_id,
            )
        )

    def rows(self, turns: Turns, *, messages: list[Row], blocks: list[Row], calls: list[Row]) -> list[Row]:
        """The row of `sessions`, from the committed rows of the other tables."""
        committed = turns.committed
        if not committed:
            return []
        said, position, at = self._said(committed)
        opened = self.opened
        times = sorted(_times(turns, messages, calls))
        durations = [ms for ms in map(turns.duration_ms, committed) if ms is not None]
        called = [row for row in calls if row[t.BLOCK_TYPE] == "call"]
        return [
            (
                self.partition,
                self.incarnation,
                position,
                next(reversed(committed)),
                at,
                said["title"],
                said["title_source"],
                self.origin,
                opened.provider_session_id if opened else None,
                opened.agent_id if opened else None,
                said["repo"],
                said["cwd"],
                said["git_branch"],
                times[0] if times else None,
                times[-1] if times else None,
                len(committed),
                *_counts(messages, blocks, called),
                len([row for row in called if not row[t.SUPERSEDED]]),
                _total(durations),
                self.parent,
                self.root,
                self.link_kind,
            )
        ]

    def _said(self, committed: dict[str, End]) -> tuple[dict[str, Any], int, datetime]:
        """The last word of each field, and the place of the last event that contributed."""
        last = committed[next(reversed(committed))]
        position, at = last.position, last.at
        fields = ("title", "title_source", "cwd", "repo", "git_branch")
        said = {name: getattr(self.opened, name, None) for name in fields}
        if said["title"] is not None:
            said["title_source"] = "opened"
        for update in self.updates:
            if update.turn is not None and update.turn not in committed:
                continue
            said |= {name: value for name in fields if (value := getattr(update.event, name)) is not None}
            if update.position > position:
                position, at = update.position, update.at
        return said, position, at


def _timeless(event: E) -> E:
    """The event without its time, which no row shows and, if its offset leaves the calendar, no snapshot can hold."""
    return event if event.occurred_at is None else structs.replace(event, occurred_at=None)


def _times(turns: Turns, messages: list[Row], calls: list[Row]) -> list[datetime]:
    """Every time that a message, a call or a marker of a committed turn names."""
    times = [row[m.OCCURRED_AT] for row in messages]
    times += [row[t.OCCURRED_AT] for row in calls]
    times += [end.completed_at for end in turns.committed.values()]
    times += [turns.starts[turn].started_at for turn in turns.committed]
    return [time for time in times if time is not None]


def _total(durations: list[int]) -> int | None:
    """The sum; None of nothing, and of what authors state beyond the 64 bits of a column.

    >>> _total([2, 3]), _total([]), _total([2**63 - 1, 1])
    (5, None, None)
    """
    total = sum(durations)
    return total if durations and -(2**63) <= total < 2**63 else None


def _counts(messages: list[Row], blocks: list[Row], called: list[Row]) -> tuple[int, ...]:
    """message_count to paste_count, in the catalog's order: of the live path.

    A message carries a tool call when a call or a block says so, thinking when its kind or a block says so, a paste
    when a person wrote it.
    """
    using = {row[t.MESSAGE_ID] for row in called}
    using.update([row[m.MESSAGE_OF_BLOCK] for row in blocks if row[m.TYPE_OF_BLOCK] == "tool_use"])
    thinking = {row[m.MESSAGE_OF_BLOCK] for row in blocks if row[m.TYPE_OF_BLOCK] == "thinking"}
    words: dict[str, list[int]] = {role: [] for role in ROLES}  # of each message
    authored: list[int] = []
    uses = thoughts = pastes = 0
    for row in messages:
        if row[m.SUPERSEDED]:
            continue
        words[row[m.ROLE]].append(row[m.WORDS])
        if row[m.MATERIAL] == "human_authored":
            authored.append(row[m.WORDS])
            pastes += _is_paste(row[m.TEXT])
        uses += row[m.MESSAGE_ID] in using
        thoughts += row[m.KIND] == "thinking" or row[m.MESSAGE_ID] in thinking
    user, *others = map(len, words.values())
    total = sum(map(sum, words.values()))
    return (
        user + sum(others), user, len(authored), *others,
        total, sum(words["user"]), sum(authored), sum(words["assistant"]),
        uses, thoughts, pastes,
    )  # fmt: skip


def _is_paste(text: str | None) -> bool:
    """Whether a person's message carries a paste: the client's mark, or many lines of much text."""
    if text is None:
        return False
    return PASTE_MARK in text or (len(text) >= PASTE_SIZE_MIN and text.count("\n") >= PASTE_LINES_MIN - 1)
