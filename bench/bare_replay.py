"""The floor of a rebuild: events out of the journal, hashed, decoded, made into Arrow, written as Parquet; nothing else.

One table an event type, its own fields as columns (a message's blocks as a table beside, the text lies there); no
fold, no gate, no order of packs, no digest of contents, no index, no signature, no fsync.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from facts.codec import DECODERS
from facts.events import AnyEvent, Block
from journal.reading import SqliteReader
from polyc.vocabulary import BY_KIND

ROWS = 16_384
PLACE = {"partition": pa.large_string(), "position": pa.int64(), "at_us": pa.int64()}
ARROW: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    datetime: pa.timestamp("us", tz="UTC"),
    str: pa.large_string(),
}


class _Table:
    """Rows of one type on their way into a file."""

    def __init__(self, path: Path, columns: dict[str, pa.DataType]) -> None:
        self._path = path
        self._schema = pa.schema(PLACE | columns)
        self._writer: pq.ParquetWriter | None = None
        self.rows: list[tuple[Any, ...]] = []

    def flush(self) -> None:
        """Write what waits as one row group."""
        if not self.rows:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path, self._schema, compression="zstd", compression_level=3, use_dictionary=["partition"]
            )
        columns = zip(*self.rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self.rows = []

    def close(self) -> None:
        """Finish the file."""
        self.flush()
        if self._writer is not None:
            self._writer.close()


def replay_bare(reader: SqliteReader, folder: Path) -> int:
    """Replay every partition into Parquet files; returns the bytes of headers, salts and payloads it hashed."""
    sha256, hashed = hashlib.sha256, 0
    tables: dict[int, tuple[_Table, Callable[[Any], tuple[Any, ...]]]] = {
        BY_KIND[str(event.__struct_config__.tag)].code: _table_of(event, folder) for event in AnyEvent.__args__
    }
    blocks, block_fields = _table_of(Block, folder)
    message = BY_KIND["message"].code
    for head in reader.partitions():
        name = head.partition
        for stored in reader.read_stored(name, through_index=head.last_index):
            run = stored.open(name)
            for header, salted, code, position, at_us in zip(
                run.headers, run.salted, run.event_types, run.positions, run.recorded_at_us, strict=True
            ):
                sha256(b"\x00" + header).digest()
                if salted is None or code not in tables:
                    continue
                sha256(salted).digest()
                hashed += len(header) + len(salted)
                event = DECODERS[code].decode(salted[16:])
                table, fields = tables[code]
                table.rows.append((name, position, at_us, *fields(event)))
                if code == message:
                    blocks.rows += [(name, position, at_us, *block_fields(block)) for block in event.blocks]
                if len(table.rows) >= ROWS:
                    table.flush()
            if len(blocks.rows) >= ROWS:
                blocks.flush()
    for table, _ in tables.values():
        table.close()
    blocks.close()
    return hashed


def _table_of(event: Any, folder: Path) -> tuple[_Table, Callable[[Any], tuple[Any, ...]]]:
    """The table of an event type and the way to a row's values: the fields a column can hold."""
    kinds = {field.name: _arrow_of(field.type) for field in msgspec.structs.fields(event)}
    columns = {name: kind for name, kind in kinds.items() if kind is not None}
    if "turn" in kinds:
        columns["turn.turn_id"] = pa.large_string()
    return _Table(folder / f"{event.__name__}.parquet", columns), attrgetter(*columns)


def _arrow_of(annotation: Any) -> pa.DataType | None:
    """The column type of a field; None for what is nested."""
    leaves = {annotation} if not get_args(annotation) else {str} if get_origin(annotation) is Literal else set()
    for part in get_args(annotation):
        if not isinstance(part, (str, msgspec.Meta)):
            leaves.add(part)
    kinds = {ARROW.get(leaf) or _arrow_of(leaf) for leaf in leaves - {type(None)} if leaf in ARROW or get_args(leaf)}
    return next(iter(kinds), None)
