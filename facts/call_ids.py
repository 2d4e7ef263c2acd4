"""Conversation-qualified call ids: `{partition}:{native}`, `#2` and so on for a repeat (ruling 17).

Providers repeat ids; the reference joins on them. So the n-th call, the n-th result and the n-th approval request of
one native id share one qualified id, and no two conversations ever do. Only committed turns count, in the order in
which they were committed: an event of another turn renames nothing, and a later turn never renames an earlier one's.
"""

from collections.abc import Iterable, Mapping

from facts.fold import Row
from facts.turns import TURN, End

POSITION = 2


def qualified(partition: str, native: str, number: int = 1) -> str | None:
    """The qualified id of the number-th use of a native id; None for an empty one.

    >>> qualified("conv-a", "toolu_1"), qualified("conv-a", "toolu_1", 2)
    ('conv-a:toolu_1', 'conv-a:toolu_1#2')
    """
    if not native:
        return None
    return f"{partition}:{native}" if number == 1 else f"{partition}:{native}#{number}"


def in_commit_order(rows: Iterable[Row], committed: Mapping[str, End]) -> list[Row]:
    """Rows of committed turns, those of the turn committed first before others, each turn's by position."""
    return sorted(rows, key=lambda row: (committed[row[TURN]].rank, row[POSITION]))


def renumbered(
    rows: list[Row], *, committed: Mapping[str, End], repeated: Mapping[str, object], id_column: int, native_column: int
) -> list[Row]:
    """The rows with qualified ids where native ids repeat: each row a further use of its native id."""
    affected = [row for row in rows if row[native_column] in repeated]
    if not affected:
        return rows
    used: dict[object, int] = {}
    names: dict[object, str | None] = {}
    for row in in_commit_order(affected, committed):
        native = row[native_column]
        used[native] = used.get(native, 0) + 1
        names[row[POSITION]] = qualified(str(row[0]), str(native), used[native])
    return [
        (*row[:id_column], names[row[POSITION]], *row[id_column + 1 :]) if row[POSITION] in names else row
        for row in rows
    ]


def named_by_turn(row: Row, native: str, *, id_column: int, turns: list[str], committed: Mapping[str, End]) -> Row:
    """The row of a committed turn with its qualified id; `turns` share the native id, each is a further use of it."""
    if row[TURN] not in turns:
        return row
    ranked = sorted((turn for turn in turns if turn in committed), key=lambda turn: committed[turn].rank)
    number = ranked.index(row[TURN]) + 1
    return (*row[:id_column], qualified(row[0], native, number), *row[id_column + 1 :])
