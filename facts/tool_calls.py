"""The tables `tool_calls` and `files`.

A call and its result are two rows that share a qualified id; nothing is cut. A file is a normalised path that calls
named; the table claims nothing about the disk.
"""

from collections.abc import Mapping
from posixpath import normpath

import msgspec

from facts.call_ids import renumbered
from facts.events import ToolCall, ToolResult
from facts.fold import Row
from facts.intake import utc
from facts.superseding import Superseding
from facts.turns import End

# Places of columns in a row of `tool_calls`, for the folds that read rows.
POSITION, TURN, TOOL_CALL_ID, MESSAGE_ID, BLOCK_TYPE, ACTION, PATH, OCCURRED_AT = 2, 3, 5, 6, 7, 10, 13, 17
SUPERSEDED, NATIVE = 19, 21


class ToolCalls(msgspec.Struct):
    """The tool calls and results of one incarnation of a conversation, of all turns."""

    prefix: str  # of qualified ids
    entries: list[Row] = []
    called: dict[str, int] = {}  # native id -> calls in any turn
    answered: set[str] = set()
    repeated: dict[str, bool] = {}

    def call(self, event: ToolCall, place: Row) -> None:
        """Take a call of an open turn."""
        partition, incarnation, position, turn, at = place
        native = event.tool_call_id
        if native in self.called:
            self.called[native] += 1
            self.repeated[native] = True
        else:
            self.called[native] = 1
        self.entries.append(
            (
                partition,
                incarnation,
                position,
                turn,
                at,
                self.prefix + native if native else None,
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
                utc(event.occurred_at),
                None,
                event.superseded,
                event.time_flag,
                native,
            )
        )

    def result(self, event: ToolResult, place: Row) -> None:
        """Take a result in an open turn."""
        partition, incarnation, position, turn, at = place
        native = event.tool_call_id
        if native in self.answered:
            self.repeated[native] = True
        else:
            self.answered.add(native)
        self.entries.append(
            (
                partition,
                incarnation,
                position,
                turn,
                at,
                self.prefix + native if native else None,
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
                utc(event.occurred_at),
                event.duration_ms,
                event.superseded,
                event.time_flag,
                native,
            )
        )

    def uses(self, native: str) -> int:
        """How many calls of any turn used this native id so far; at least 1."""
        return max(1, self.called.get(native, 1))

    def rows(self, committed: Mapping[str, End], superseding: Superseding) -> list[Row]:
        """The rows of `tool_calls` in committed turns."""
        rows = [row for row in self.entries if row[TURN] in committed]
        if superseding.messages or superseding.turns:
            rows = [_marked(row, superseding) for row in rows]
        if self.repeated:
            calls = self._renumbered("call", rows, committed)
            results = self._renumbered("result", rows, committed)
            rows = sorted(calls + results, key=lambda row: row[POSITION])
        return rows

    def _renumbered(self, block_type: str, rows: list[Row], committed: Mapping[str, End]) -> list[Row]:
        return renumbered(
            [row for row in rows if row[BLOCK_TYPE] == block_type],
            committed=committed,
            repeated=self.repeated,
            id_column=TOOL_CALL_ID,
            native_column=NATIVE,
        )


def _marked(row: Row, superseding: Superseding) -> Row:
    if not superseding.covers(row[POSITION], turn=row[TURN], message=row[MESSAGE_ID]):
        return row
    return (*row[:SUPERSEDED], True, *row[SUPERSEDED + 1 :])


class _Seen(msgspec.Struct):
    """A file while its calls are counted."""

    first: Row
    last: Row
    actions: int = 0
    reads: int = 0
    changes: int = 0


def files_of(calls: list[Row]) -> list[Row]:
    """The rows of `files`: what the rows of `tool_calls` say of paths, one row a normalised path."""
    seen: dict[str, _Seen] = {}
    paths: dict[object, str] = {}
    for row in calls:
        raw = row[PATH]
        if not raw:
            continue
        path = paths.get(raw)
        if path is None:
            path = paths[raw] = normalised(str(raw))
        file = seen.get(path)
        if file is None:
            file = seen[path] = _Seen(row, row)
        file.last = row
        file.actions += 1
        action = row[ACTION]
        if action == "file_read":
            file.reads += 1
        elif action in ("file_write", "file_edit"):
            file.changes += 1
    return [
        (
            *file.last[:5],
            path,
            file.actions,
            file.reads,
            file.changes,
            file.first[TOOL_CALL_ID],
            file.last[TOOL_CALL_ID],
            file.first[OCCURRED_AT],
            file.last[OCCURRED_AT],
        )
        for path, file in sorted(seen.items())
    ]


def normalised(path: str) -> str:
    r"""A path without `.`, `..`, doubled or trailing slashes; a Windows path with forward slashes.

    >>> normalised("/a//b/./c/../d/"), normalised("C:\\src\\x.py")
    ('/a/b/d', 'C:/src/x.py')
    """
    if path[1:3] == ":\\":
        path = path.replace("\\", "/")
    plain = normpath(path)
    return plain[1:] if plain.startswith("//") else plain
