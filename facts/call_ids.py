"""Conversation-qualified call ids: `{partition}:{native}`, `#2` and so on for a repeat (ruling 17).

Providers repeat ids, some in every turn; the reference joins on them, so what is said of one call shares one id, and
no two conversations ever do. Which use of a native id is meant:

    a call       is a use of its own
    a request    is for a call of its own turn: the oldest that nobody asked about, else it is a use of its own
    a result     is of a call of its own turn: the oldest without one; else of the oldest call of an earlier turn that
                 has none; else it is a use of its own

Only committed turns count, in the order in which they were committed: an event of another turn renames nothing, and a
later turn never renames an earlier one's.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple

from facts.fold import Row
from facts.turns import TURN, End

Role = Literal["call", "result", "request"]
POSITION = 2


def qualified(partition: str, native: str, number: int = 1) -> str | None:
    """The qualified id of the number-th use of a native id; None for an empty one.

    >>> qualified("conv-a", "toolu_1"), qualified("conv-a", "toolu_1", 2)
    ('conv-a:toolu_1', 'conv-a:toolu_1#2')
    """
    if not native:
        return None
    return f"{partition}:{native}" if number == 1 else f"{partition}:{native}#{number}"


class Said(NamedTuple):
    """That something was said of a call in a committed turn: its call, its result, or a request for approval."""

    position: int
    turn: str
    native: str
    role: Role


class Names(NamedTuple):
    """The qualified ids of what was said, by position; and of the first use of a native id in a turn."""

    by_position: dict[int, str | None]
    first: dict[tuple[str, str], str | None]


class _Use:
    """One use of a native id, and what was said of it so far."""

    __slots__ = ("number", "said")

    def __init__(self, number: int) -> None:
        self.number = number
        self.said: set[Role] = set()


class _Native:
    """The uses of one native id, while they are told turn by turn."""

    __slots__ = ("_count", "_here", "_unanswered", "_whole")

    def __init__(self) -> None:
        self._count = 0
        self._here: list[_Use] = []  # of the turn in hand
        self._whole: dict[Role, int] = {}  # how many of those, from the first on, have this said of them
        self._unanswered: deque[_Use] = deque()  # calls of earlier turns without a result

    def take(self, role: Role) -> int:
        """The number of the use that this is said of; calls of a turn come before all else of it."""
        use = None
        if role != "call":
            use = self._lacking(role)
        if use is None and role == "result" and self._unanswered:
            use = self._unanswered.popleft()
        if use is None:
            self._count += 1
            use = _Use(self._count)
            self._here.append(use)
        use.said.add(role)
        return use.number

    def end_turn(self) -> None:
        """Go on to the next turn."""
        self._unanswered.extend(use for use in self._here if "call" in use.said and "result" not in use.said)
        self._here, self._whole = [], {}

    def _lacking(self, role: Role) -> _Use | None:
        place = self._whole.get(role, 0)
        while place < len(self._here) and role in self._here[place].said:
            place += 1
        self._whole[role] = place
        return self._here[place] if place < len(self._here) else None


def named(said: Iterable[Said], *, partition: str, committed: Mapping[str, End]) -> Names:
    """Name what was said of calls whose native ids repeat; all of it, in committed turns."""
    names = Names({}, {})
    natives: dict[str, _Native] = {}
    in_order = sorted(said, key=lambda item: (committed[item.turn].rank, item.role != "call", item.position))
    for turn, items in groupby(in_order, key=attrgetter("turn")):
        here: set[str] = set()
        for item in items:
            here.add(item.native)
            native = natives.setdefault(item.native, _Native())
            name = qualified(partition, item.native, native.take(item.role))
            names.by_position[item.position] = name
            names.first.setdefault((item.native, turn), name)
        for ended in here:
            natives[ended].end_turn()
    return names


def renamed(rows: list[Row], names: Names, *, id_column: int) -> list[Row]:
    """The rows with the names of those that have one."""
    given = names.by_position
    if not given:
        return rows
    return [
        (*row[:id_column], given[row[POSITION]], *row[id_column + 1 :]) if row[POSITION] in given else row
        for row in rows
    ]


def named_by_turn(row: Row, native: str, *, id_column: int, turns: list[str], committed: Mapping[str, End]) -> Row:
    """The row of a committed turn with its qualified id; `turns` share the native id, each is a further use of it."""
    if row[TURN] not in turns:
        return row
    ranked = sorted((turn for turn in turns if turn in committed), key=lambda turn: committed[turn].rank)
    number = ranked.index(row[TURN]) + 1
    return (*row[:id_column], qualified(row[0], native, number), *row[id_column + 1 :])
