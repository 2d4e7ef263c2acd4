"""What lies where in an artifact store, and the parameters that decide it (artifacts.md, "Layout").

    packs/<id>/pack.json index.parquet <table>.parquet     immutable; id = sha256(pack.json)[:32]
    base/<id>.json                                          the list of base packs
    gen/000000000042.json                                   a signed manifest
    search/<id>/…                                           packs of the search plane, bound in the same manifest
    leases/<id>.json                                        a reader's pin
    CURRENT                                                 a hint

A `TableSpec` is a table as the artifacts see it: names and types, no meaning.
"""

import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from polyc import canonical, limits

CURRENT: Final = "CURRENT"
GENERATIONS: Final = "gen/"
PACKS: Final = "packs/"
SEARCH: Final = "search/"
BASES: Final = "base/"
LEASES: Final = "leases/"
INDEX_FILE: Final = "index.parquet"
PACK_FILE: Final = "pack.json"
GENERATION_DIGITS: Final = 12

Family = Literal["row", "state"]


class ColumnSpec(msgspec.Struct, frozen=True):
    """A column; `dictionary` marks listed low-cardinality text."""

    name: str
    type: str
    dictionary: bool = False


class TableSpec(msgspec.Struct, frozen=True):
    """A table; its first column is `partition`. Family row: rows append; state: a partition's rows are replaced."""

    name: str
    columns: tuple[ColumnSpec, ...]
    family: Family
    key: tuple[str, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(column.name for column in self.columns)

    def digest(self) -> str:
        """What a reader and a writer must agree on, as 32 hex digits."""
        return _digest(self)


@functools.cache
def _digest(spec: TableSpec) -> str:
    shape = [spec.name, spec.family, [[c.name, c.type, c.dictionary] for c in spec.columns]]
    return hashlib.sha256(canonical.encode(shape)).hexdigest()[:32]


class LayoutParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What decides bytes and placement beside the journal and the writer; recorded in every manifest."""

    row_group_rows: int = limits.ROW_GROUP_ROWS_MAX
    row_group_text_bytes: int = limits.ROW_GROUP_TEXT_BYTES_MAX
    pack_events: int = limits.PACK_EVENTS_MAX
    span_events: int = limits.SPAN_EVENTS_MAX
    delta_fan_in: int = limits.DELTA_FAN_IN
    delta_events: int = limits.DELTA_EVENTS_MAX


def spec_of(table: Any) -> TableSpec:
    """The spec of a catalog table (`facts.catalog.Table`), by its shape: this plane imports no meaning."""
    columns = tuple(ColumnSpec(c.name, c.type, bool(c.dictionary)) for c in table.columns)
    return TableSpec(table.name, columns, table.family, tuple(table.key))


def schema_digests(specs: Iterable[TableSpec]) -> dict[str, str]:
    """The digest of every table, by name."""
    return {spec.name: spec.digest() for spec in specs}


def content_id(content: bytes) -> str:
    """The name of an immutable thing: 32 hex digits of the SHA-256 of its description."""
    return hashlib.sha256(content).hexdigest()[:32]


def generation_name(number: int) -> str:
    """The name of a manifest.

    >>> generation_name(42)
    'gen/000000000042.json'
    """
    return f"{GENERATIONS}{number:0{GENERATION_DIGITS}d}.json"


def generation_number(name: str) -> int | None:
    """The number in a manifest's name, or None when it is not one.

    >>> generation_number("gen/000000000042.json"), generation_number("gen/.42.json.tmp")
    (42, None)
    """
    digits = name.removeprefix(GENERATIONS).removesuffix(".json")
    if len(digits) != GENERATION_DIGITS or not digits.isdecimal() or name != generation_name(int(digits)):
        return None
    return int(digits)


def base_name(base_id: str) -> str:
    """The name of a list of base packs."""
    return f"{BASES}{base_id}.json"


def pack_name(pack_id: str, file: str = "") -> str:
    """The name of a pack, or of a file in it."""
    return f"{PACKS}{pack_id}/{file}" if file else f"{PACKS}{pack_id}"


def table_file(table: str) -> str:
    """The file of a table in a pack."""
    return f"{table}.parquet"


def encode_base(pack_ids: Sequence[str]) -> bytes:
    """The list of base packs, in the order of their cohorts."""
    return canonical.encode({"packs": list(pack_ids), "v": 1})


def decode_base(content: bytes, *, place: str) -> tuple[str, ...]:
    """The base packs of a list."""
    return tuple(canonical.decode(content, place=place)["packs"])
