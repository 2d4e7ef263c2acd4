"""Arrow schemas of tables and the Parquet settings of the writer, every one spelled out (artifacts.md).

Bytes are a function of the rows, these settings and the pinned pyarrow: zstd 3, dictionaries for listed columns
only, DELTA_BINARY_PACKED integers, statistics on the partition and on plain values (never on text: they leak it into
footers, never on floating values: NaN breaks them, F14), no page index, no bloom filters, no Arrow schema inside.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from artifacts.layout import TableSpec

PARTITION: Final = "partition"
WRITER: Final = f"pyarrow {pa.__version__} layout 3"

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_DISTANCE: Final = pa.duration("us")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "VARCHAR": pa.string(),
    "JSON": pa.string(),
    "BLOB": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UBIGINT": pa.uint64(),
    "TIMESTAMPTZ": TIMESTAMP,
    "DECIMAL(38,0)": pa.decimal128(38, 0),
}
TEXT_TYPES: Final = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def arrow_schema(table: TableSpec) -> pa.Schema:
    """The Arrow schema of a table, in the catalog's order."""
    return pa.schema([pa.field(column.name, ARROW_TYPES[column.type]) for column in table.columns])


def dictionary_columns(table: TableSpec) -> tuple[str, ...]:
    """The columns whose few values the catalog lists, and the partition: it repeats by construction."""
    return tuple(c.name for c in table.columns if c.dictionary or c.name in (PARTITION, "source_incarnation"))


def open_writer(path: Path, schema: pa.Schema, *, dictionary: tuple[str, ...]) -> pq.ParquetWriter:
    """A Parquet writer with the settings of this layout."""
    plain_integers = {
        field.name: "DELTA_BINARY_PACKED"
        for field in schema
        if (pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type)) and field.name not in dictionary
    }
    statistics = [f.name for f in schema if f.type not in TEXT_TYPES or f.name == PARTITION]
    return pq.ParquetWriter(
        path,
        schema,
        version="2.6",
        compression="zstd",
        compression_level=3,
        use_dictionary=list(dictionary) or False,
        column_encoding=plain_integers or None,
        write_statistics=statistics,
        data_page_size=1024 * 1024,
        data_page_version="1.0",
        write_batch_size=1024,
        dictionary_pagesize_limit=1024 * 1024,
        use_compliant_nested_type=True,
        use_byte_stream_split=False,
        store_schema=False,
        write_page_index=False,
        write_page_checksum=False,
        store_decimal_as_integer=False,
    )


def rows_to_arrow(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Rows in the schema's column order as one Arrow table."""
    if not rows:
        return schema.empty_table()
    columns = [_column(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    """A column's values as Arrow. Times go by their distance from 1970: Arrow asks each for its zone otherwise (5×)."""
    if kind == TIMESTAMP:
        return pa.array([None if at is None else at - _EPOCH for at in values], _DISTANCE).view(TIMESTAMP)
    return pa.array(values, kind)
