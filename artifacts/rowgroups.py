"""Writes one table of a pack: row groups that hold whole conversations (artifacts.md, "Layout").

A group ends before the partition that would take it over 8 192 rows or 4 MiB of text; a partition that is larger
alone gets groups of its own. Where a group ends depends on the rows alone, never on how they arrived (as tuples from
a fold or as Arrow slices of older packs): equal rows give equal bytes.
"""

import hashlib
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from artifacts.layout import LayoutParameters, TableSpec
from artifacts.schema import arrow_schema, dictionary_columns, open_writer, rows_to_arrow

PENDING_ROWS_MAX: Final = 1024  # tuples turned into Arrow at once: amortises per-column costs, stays in the cache
READ_BLOCK_BYTES: Final = 1024 * 1024

_WIDE: Final = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}  # no 2 GB limit while building (F16)


class FileDescription(msgspec.Struct, frozen=True):
    """A file of a pack: what a reader must find."""

    sha256: str
    bytes: int
    rows: int
    row_groups: tuple[int, ...]


class TableWriter:
    """One Parquet file; partitions are added in order, each once."""

    def __init__(self, path: Path, spec: TableSpec, *, layout: LayoutParameters) -> None:
        self._path = path
        self._layout = layout
        self._schema = pa.schema([(f.name, _WIDE.get(f.type, f.type)) for f in arrow_schema(spec)])
        self._text = [i for i, f in enumerate(self._schema) if f.type in _WIDE.values()]
        self._writer: pq.ParquetWriter = open_writer(path, self._schema, dictionary=dictionary_columns(spec))
        self._pending: list[tuple[Any, ...]] = []
        self._pending_counts: list[int] = []
        self._group: list[pa.Table] = []
        self._group_rows = 0
        self._group_bytes = 0
        self._row_groups: list[int] = []

    def add_rows(self, rows: list[tuple[Any, ...]]) -> None:
        """The next partition's rows, as tuples in column order."""
        self._pending += rows
        self._pending_counts.append(len(rows))
        if len(self._pending) >= PENDING_ROWS_MAX:
            self._convert()

    def add_table(self, table: pa.Table) -> None:
        """The next partition's rows, as Arrow in the table's schema."""
        self._convert()
        self._feed(table.cast(self._schema), [table.num_rows])

    def close(self) -> FileDescription:
        """Finish the file and describe it."""
        self._convert()
        self._emit()
        self._writer.close()
        digest = file_sha256(self._path)
        return FileDescription(digest, self._path.stat().st_size, sum(self._row_groups), tuple(self._row_groups))

    def _convert(self) -> None:
        if self._pending_counts:
            rows, counts = self._pending, self._pending_counts
            self._pending, self._pending_counts = [], []
            self._feed(rows_to_arrow(rows, self._schema), counts)

    def _feed(self, table: pa.Table, counts: list[int]) -> None:
        """Cut groups before the partition that would overflow them."""
        table = table.combine_chunks()
        ends = [_offsets(table.column(i)) for i in self._text]
        rows, size = table.num_rows, sum(offsets[table.num_rows] - offsets[0] for offsets in ends)
        if not self._overflows(self._group_rows + rows, self._group_bytes + size):  # then no cut can lie in it
            self._group.append(table)
            self._group_rows += rows
            self._group_bytes += size
            return
        first = start = 0  # `first` is where the open group begins in this table
        for count in counts:
            stop = start + count
            size = sum(offsets[stop] - offsets[start] for offsets in ends)
            if self._overflows(self._group_rows + count, self._group_bytes + size) and self._group_rows:
                self._group.append(table.slice(first, start - first))
                self._emit()
                first = start
            self._group_rows += count
            self._group_bytes += size
            if self._overflows(count, size):  # larger than a group alone: cut by rows
                self._feed_large(table, ends, start, stop)
                first = stop
            start = stop
        if start > first:
            self._group.append(table.slice(first, start - first))

    def _feed_large(self, table: pa.Table, ends: list[memoryview], start: int, stop: int) -> None:
        first = start
        for row in range(start + 1, stop):
            size = sum(offsets[row + 1] - offsets[first] for offsets in ends)
            if self._overflows(row + 1 - first, size):
                self._group.append(table.slice(first, row - first))
                self._emit()
                first = row
        self._group.append(table.slice(first, stop - first))
        self._emit()

    def _overflows(self, rows: int, text_bytes: int) -> bool:
        return rows > self._layout.row_group_rows or text_bytes > self._layout.row_group_text_bytes

    def _emit(self) -> None:
        if self._group:
            table = pa.concat_tables(self._group).combine_chunks()  # bytes depend on chunking: one chunk a group
            if table.num_rows:
                self._writer.write_table(table, row_group_size=table.num_rows)
                self._row_groups.append(table.num_rows)
        self._group, self._group_rows, self._group_bytes = [], 0, 0


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _offsets(column: pa.ChunkedArray) -> memoryview:
    """The value offsets of a large text column: `o[j] - o[i]` is the bytes of rows i to j."""
    if column.num_chunks == 0 or len(column) == 0:
        return memoryview(bytes(8)).cast("q")
    array = column.chunk(0)
    return memoryview(array.buffers()[1]).cast("q")[array.offset :]
