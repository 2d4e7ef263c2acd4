"""The tables `sessions` and `session_links`.

`sessions` has one row a conversation, from its first committed turn on. What a turn says of the session (title,
folder, branch) counts when that turn is committed; what is said outside any turn counts at once.
"""

from datetime import datetime
from typing import Any, Final

import msgspec

from facts import messages as m
from facts import tool_calls as t
from facts.call_ids import qualified
from facts.events import ConversationOpened, SessionLink, SessionUpdated
from facts.fold import Row
from facts.turns import End, Turns

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

    def update(self, event: SessionUpdated, position: int, turn: str | None, at: datetime) -> None:
        """Take what an open turn, or nobody's turn, says of the session."""
        self.updates.append(Contribution(position, at, turn, event))

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
        live = [row for row in messages if not row[m.SUPERSEDED]]
        times = [row[m.OCCURRED_AT] for row in messages] + [row[t.OCCURRED_AT] for row in calls]
        times += [end.completed_at for end in committed.values()]
        times += [turns.starts[turn].started_at for turn in committed]
        known = [time for time in times if time is not None]
        durations = [ms for ms in map(turns.duration_ms, committed) if ms is not None]
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
                min(known, default=None),
                max(known, default=None),
                len(committed),
                *_counts(live),
                *_features(live, blocks, calls),
                sum(1 for row in calls if row[t.BLOCK_TYPE] == "call" and not row[t.SUPERSEDED]),
                sum(durations) if durations else None,
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


def _counts(rows: list[Row]) -> tuple[int, ...]:
    """message_count and its parts, word_count and its parts, in the catalog's order."""
    words = dict.fromkeys(ROLES, 0)
    roles = [row[m.ROLE] for row in rows]
    by_role = [roles.count(role) for role in ROLES]
    for row in rows:
        words[row[m.ROLE]] += row[m.WORDS]
    authored = [row[m.WORDS] for row in rows if row[m.MATERIAL] == "human_authored"]
    return (
        len(rows),
        by_role[0],
        len(authored),
        *by_role[1:],
        sum(words.values()),
        words["user"],
        sum(authored),
        words["assistant"],
    )


def _features(rows: list[Row], blocks: list[Row], calls: list[Row]) -> tuple[int, int, int]:
    """How many messages carry a tool call, thinking, a paste."""
    using = {row[t.MESSAGE_ID] for row in calls if row[t.BLOCK_TYPE] == "call"}
    thinking: set[Any] = set()
    for block in blocks:
        kind = block[8]
        if kind == "tool_use":
            using.add(block[6])
        elif kind == "thinking":
            thinking.add(block[6])
    uses = thoughts = pastes = 0
    for row in rows:
        message_id = row[m.MESSAGE_ID]
        uses += message_id in using
        thoughts += message_id in thinking or row[m.KIND] == "thinking"
        pastes += row[m.MATERIAL] == "human_authored" and _is_paste(row[m.TEXT])
    return uses, thoughts, pastes


def _is_paste(text: str | None) -> bool:
    """Whether a person's message carries a paste: the client's mark, or many lines of much text."""
    if text is None:
        return False
    return PASTE_MARK in text or (len(text) >= PASTE_SIZE_MIN and text.count("\n") >= PASTE_LINES_MIN - 1)
