"""The shapes the catalog is written in: columns, tables and views as values, and shorthands to write them down.

The types are the engine's: VARCHAR, BOOLEAN, INTEGER, BIGINT, UBIGINT, TIMESTAMPTZ, DECIMAL(38,0), BLOB, JSON.
Nothing here imports an engine. Readers import these names from `facts.catalog`.
"""

from dataclasses import dataclass
from typing import Final, Literal

Realm = Literal["participant", "fleet"]
ColumnType = Literal[
    "VARCHAR", "BOOLEAN", "INTEGER", "BIGINT", "UBIGINT", "TIMESTAMPTZ", "DECIMAL(38,0)", "BLOB", "JSON"
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column; `unit` names what numbers count (`tokens`, `ms`, `base units`); `dictionary` hints low cardinality."""

    name: str
    type: ColumnType
    description: str
    unit: str = ""
    dictionary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that folds fill.

    `realm` participant means participant and fleet. `gated`: a row exists only when its turn was committed.
    `family` row: a row never changes once written, new rows append; state: later events change rows, so a
    partition's rows are replaced as a whole and the newest of a `key` wins on the fleet.
    """

    name: str
    realm: Realm
    gated: bool
    family: Literal["row", "state"]
    columns: tuple[Column, ...]
    description: str
    example: str
    key: tuple[str, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names in order; rows of folds are tuples in this order."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A named SELECT over tables of the same or a lower realm (query-language.md, "Units")."""

    name: str
    realm: Realm
    sql: str
    tables: tuple[str, ...]
    columns: tuple[Column, ...]
    description: str
    example: str


def text(name: str, description: str) -> Column:
    """A column of text with many values."""
    return Column(name=name, type="VARCHAR", description=description)


def word(name: str, description: str) -> Column:
    """A column of text with few values: written with a dictionary."""
    return Column(name=name, type="VARCHAR", description=description, dictionary=True)


def time(name: str, description: str) -> Column:
    """An instant, in microseconds, UTC."""
    return Column(name=name, type="TIMESTAMPTZ", description=description)


def number(name: str, description: str, unit: str = "") -> Column:
    """A signed 64-bit integer."""
    return Column(name=name, type="BIGINT", description=description, unit=unit)


def integer(name: str, description: str, unit: str = "") -> Column:
    """A signed 32-bit integer."""
    return Column(name=name, type="INTEGER", description=description, unit=unit)


def flag(name: str, description: str) -> Column:
    """A truth value; NULL means unknown."""
    return Column(name=name, type="BOOLEAN", description=description)


def amount(name: str, description: str) -> Column:
    """An exact amount of money in an asset's smallest unit, at most 38 digits."""
    return Column(name=name, type="DECIMAL(38,0)", description=description, unit="base units")


PLACE: Final = (
    word("partition", "the conversation (`conv-{id}`) or other journal partition that the row belongs to"),
    word("source_incarnation", "which incarnation of the partition produced the row (hex)"),
    Column(
        name="position",
        type="UBIGINT",
        description="place of the row's event in the incarnation: 1-based, append-only order",
    ),
)
TURN_PLACE: Final = (
    *PLACE,
    word("turn_id", "the turn the row belongs to; NULL outside any turn"),
    time("recorded_at", "when the author recorded the event"),
)
FLEET_PLACE: Final = (*PLACE, time("recorded_at", "when the author recorded the event"))
ACTED_BY: Final = word(
    "acted_by", "credential id of the session that asked for it; NULL = the command line, or Control by itself"
)
