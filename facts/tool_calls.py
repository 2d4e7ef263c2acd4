"""The tables `tool_calls` and `files`.

A call and its result are two rows that share a qualified id; nothing is cut. A file is a normalised path that calls
named; the table claims nothing about the disk.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from posixpath import normpath

import msgspec

from facts.call_ids import Said, qualified
from facts.events import ToolCall, ToolResult
from facts.fold import Row
from facts.intake import utc
from facts.superseding import Superseding
from facts.turns import TURN, End, Turns

# Places of columns in a row of `tool_calls`, for the folds that read rows.
POSITION, TOOL_CALL_ID, MESSAGE_ID, BLOCK_TYPE, ACTION, PATH, OCCURRED_AT = 2, 5, 6, 7, 10, 13, 17
SUPERSEDED, NATIVE = 19, 21


class Use(msgspec.Struct, gc=False):
    """A native id in any turn: the texts that its rows share, and how many calls and results bear it."""

    native: str
    tool_call_id: str | None
    calls: int = 0
    results: int = 0


class ToolCalls(msgspec.Struct):
    """The tool calls and results of one incarnation of a conversation, of all turns."""

    partition: str
    incarnation: str
    entries: list[Row] = []
    uses: dict[str, Use] = {}  # by native id
    repeated: dict[str, bool] = {}

    def call(self, event: ToolCall, position: int, turn: str, at: datetime) -> None:
        """Take a call of an open turn."""
        use = self.uses.get(event.tool_call_id)
        if use is None:
            use = self._use(event.tool_call_id)
        elif use.calls:
            self.repeated[use.native] = True
        use.calls += 1
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
                use.tool_call_id,
                event.message_id,
                "call",
                event.name,
                event.server,
                event.action,
                event.arguments,
                event.command,
                event.path,
                None,
                None,
                None,
                occurred_at,
                None,
                event.superseded,
                event.time_flag,
                use.native,
            )
        )

    def result(self, event: ToolResult, position: int, turn: str, at: datetime) -> None:
        """Take a result in an open turn."""
        use = self.uses.get(event.tool_call_id)
        if use is None:
            use = self._use(event.tool_call_id)
        elif use.results:
            self.repeated[use.native] = True
        use.results += 1
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
                use.tool_call_id,
                event.message_id,
                "result",
                event.name,
                None,
                None,
                None,
                None,
                None,
                event.text,
                event.is_error,
                event.exit_code,
                occurred_at,
                event.duration_ms,
                event.superseded,
                event.time_flag,
                use.native,
            )
        )

    def _use(self, native: str) -> Use:
        use = self.uses[native] = Use(native, qualified(self.partition, native))
        return use

    def uses_of(self, native: str) -> int:
        """How many calls of any turn used this native id so far; at least 1."""
        use = self.uses.get(native)
        return 1 if use is None else max(1, use.calls)

    def rows(self, turns: Turns, superseding: Superseding) -> list[Row]:
        """The rows of `tool_calls` in committed turns, ids of repeats not yet told apart (`facts.call_ids`)."""
        rows = turns.shown(self.entries)
        if superseding.messages or superseding.turns:
            rows = [_marked(row, superseding) for row in rows]
        return rows

    def said(self, natives: Collection[str], committed: Mapping[str, End]) -> list[Said]:
        """What committed turns say of calls with these native ids."""
        return [
            Said(row[POSITION], row[TURN], row[NATIVE], row[BLOCK_TYPE])
            for row in self.entries
            if row[NATIVE] in natives and row[TURN] in committed
        ]


def _marked(row: Row, superseding: Superseding) -> Row:
    if not superseding.covers(row[POSITION], turn=row[TURN], message=row[MESSAGE_ID]):
        return row
    return (*row[:SUPERSEDED], True, *row[SUPERSEDED + 1 :])


def files_of(calls: list[Row]) -> list[Row]:
    """The rows of `files`: what the rows of `tool_calls` say of paths, one row a normalised path."""
    by_path: dict[str, list[Row]] = {}
    for row in calls:
        raw = row[PATH]
        if raw:
            path = normalised(raw)
            if path in by_path:
                by_path[path].append(row)
            else:
                by_path[path] = [row]
    return [_file(path, by_path[path]) for path in sorted(by_path)]


def _file(path: str, calls: list[Row]) -> Row:
    first, last = calls[0], calls[-1]
    actions = [row[ACTION] for row in calls]
    return (
        *last[:5],
        path,
        len(calls),
        actions.count("file_read"),
        actions.count("file_write") + actions.count("file_edit"),
        first[TOOL_CALL_ID],
        last[TOOL_CALL_ID],
        first[OCCURRED_AT],
        last[OCCURRED_AT],
    )


def normalised(path: str) -> str:
    r"""A path without `.`, `..`, doubled or trailing slashes; a Windows path with forward slashes.

    >>> normalised("/a//b/./c/../d/"), normalised("C:\\src\\x.py"), normalised("src/.env"), normalised("/a/b/c.py")
    ('/a/b/d', 'C:/src/x.py', 'src/.env', '/a/b/c.py')
    """
    if path[1:3] == ":\\":
        path = path.replace("\\", "/")
    if "/." not in path and "//" not in path and path[0] != "." and path[-1] != "/":
        return path  # as nearly every path is written
    plain = normpath(path)
    return plain[1:] if plain.startswith("//") else plain
