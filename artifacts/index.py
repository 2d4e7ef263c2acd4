"""The index of a pack: one row a partition, sorted — what the pack holds of it and through which position.

row_mode    append: the rows here follow those of older packs; replace: older packs hold nothing of it any more
state_mode  keep: no state rows here, older ones stand; replace: the state rows here are all there are
head        the leaf of the last record read; binds the rows to the journal
content     SHA-256 over the canonical rows of the row tables so far (`projector.content`); `state` the same of
            the state tables here or kept
n_<table>   rows here: prefix sums give each partition's row range
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from artifacts.schema import open_writer
from polyc.errors import CorruptError

APPEND: Final = "append"
REPLACE: Final = "replace"
KEEP: Final = "keep"
_DICTIONARY: Final = ("cohort", "row_mode", "state_mode", "incarnation")


class IndexRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition in one pack; `counts` are rows here by table (absent: none)."""

    partition: str
    cohort: str
    row_mode: str
    state_mode: str
    incarnation: str
    from_position: int
    to_position: int
    head: bytes
    content: bytes
    state: bytes
    erased: int
    counts: dict[str, int]


def index_schema(tables: Sequence[str]) -> pa.Schema:
    """The index file's schema for these tables."""
    return pa.schema(
        [
            ("partition", pa.string()),
            ("cohort", pa.string()),
            ("row_mode", pa.string()),
            ("state_mode", pa.string()),
            ("incarnation", pa.string()),
            ("from_position", pa.uint64()),
            ("to_position", pa.uint64()),
            ("head", pa.binary(32)),
            ("content", pa.binary(32)),
            ("state", pa.binary(32)),
            ("erased", pa.uint32()),
            *((f"n_{name}", pa.uint32()) for name in tables),
        ]
    )


def write_index(path: Path, rows: Iterable[IndexRow], tables: Sequence[str]) -> int:
    """Write the index file; returns the number of partitions."""
    schema = index_schema(tables)
    values = [
        (
            row.partition,
            row.cohort,
            row.row_mode,
            row.state_mode,
            row.incarnation,
            row.from_position,
            row.to_position,
            row.head,
            row.content,
            row.state,
            row.erased,
            *(row.counts.get(name, 0) for name in tables),
        )
        for row in rows
    ]
    columns = list(zip(*values, strict=True)) or [()] * len(schema)
    table = pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
    with open_writer(path, schema, dictionary=_DICTIONARY) as writer:
        writer.write_table(table, row_group_size=max(1, len(values)))
    return len(values)


class PackIndex:
    """A read index: positions of partitions by name, columns as Python lists made on first use."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._columns: dict[str, list[Any]] = {}
        self.partitions: list[str] = table.column("partition").to_pylist()
        self.row_of: dict[str, int] = {name: i for i, name in enumerate(self.partitions)}
        self.tables: tuple[str, ...] = tuple(n[2:] for n in table.column_names if n.startswith("n_"))

    def column(self, name: str) -> list[Any]:
        """A column's values."""
        values = self._columns.get(name)
        if values is None:
            values = self._columns[name] = self._table.column(name).to_pylist()
        return values

    def count(self, table: str, row: int) -> int:
        """Rows of a table for the partition in this row."""
        return int(self.column(f"n_{table}")[row]) if table in self.tables else 0

    def total(self, table: str) -> int:
        """Rows of a table in the whole pack."""
        return sum(self.column(f"n_{table}")) if table in self.tables else 0

    def row(self, row: int) -> IndexRow:
        """The whole row as a value."""
        return IndexRow(
            partition=self.partitions[row],
            cohort=self.column("cohort")[row],
            row_mode=self.column("row_mode")[row],
            state_mode=self.column("state_mode")[row],
            incarnation=self.column("incarnation")[row],
            from_position=self.column("from_position")[row],
            to_position=self.column("to_position")[row],
            head=self.column("head")[row],
            content=self.column("content")[row],
            state=self.column("state")[row],
            erased=self.column("erased")[row],
            counts={name: n for name in self.tables if (n := self.count(name, row))},
        )


def read_index(content: bytes, *, sha256: str, place: str) -> PackIndex:
    """The index of these bytes, or CorruptError when they are not the ones described."""
    if hashlib.sha256(content).hexdigest() != sha256:
        raise CorruptError("index is not the one its pack describes", place=place, kind="hash")
    try:
        index = PackIndex(pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False))
    except (pa.ArrowInvalid, KeyError):
        raise CorruptError("index cannot be read", place=place, kind="index") from None
    if index.partitions != sorted(index.row_of):
        raise CorruptError("index is not sorted or names a partition twice", place=place, kind="index")
    return index
