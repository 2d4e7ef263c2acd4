"""Search changes out of published table packs: the rows a pack holds of each partition, as the projector wrote them.

So search never sees a row that is not in a verified pack, and a rebuild by many processes needs no second fold. Packs
are read as streams: the three tables are sorted by partition, as their index is.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import pyarrow.parquet as pq

from artifacts.files import PackFiles
from artifacts.index import REPLACE
from facts.catalog import TABLES
from search.build.change import PartitionChange

# What chunks are made of; other columns are not read.
_COLUMNS: Final = {
    "messages": (
        "partition", "source_incarnation", "position", "turn_id", "role", "material_origin", "kind", "text",
        "occurred_at", "message_id",
    ),
    "blocks": ("partition", "source_incarnation", "position", "turn_id", "message_id", "type", "text"),
    "tool_calls": (
        "partition", "source_incarnation", "position", "turn_id", "tool_call_id", "block_type", "name", "server",
        "action", "arguments", "command", "path", "result_text", "is_error", "occurred_at",
    ),
    "sessions": (
        "partition", "title", "origin", "provider_session_id", "agent_id", "repo", "cwd", "git_branch", "updated_at",
        "parent_partition", "root_partition", "link_kind",
    ),
}  # fmt: skip
_BATCH_ROWS: Final = 4096


def changes_of(files: PackFiles, pack_id: str, *, erased: frozenset[str] = frozenset()) -> Iterator[PartitionChange]:
    """The changes of a pack's conversations, by partition in order."""
    described = files.description(pack_id).files
    rows = {table: _rows(files, pack_id, table) if table in described else iter(()) for table in _COLUMNS}
    index = files.index(pack_id)
    for number in range(len(index.partitions)):
        row = index.row(number)
        taken = {table: list(islice(rows[table], row.counts.get(table, 0))) for table in _COLUMNS}
        if row.partition.startswith("conv-"):
            assert all(values[0] == row.partition for each in taken.values() for values in each), "sorted as the index"
            yield PartitionChange(
                partition=row.partition,
                incarnation=row.incarnation,
                mode="replace" if row.row_mode == REPLACE else "append",
                to_position=row.to_position,
                rows=taken,
                erased=row.partition in erased,
            )


def _rows(files: PackFiles, pack_id: str, table: str) -> Iterator[tuple[Any, ...]]:
    """A table's rows in the order of the catalog's columns; those that were not read are None."""
    read = _COLUMNS[table]
    with pq.ParquetFile(files.table(pack_id, table)) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=list(read)):
            nothing = [None] * batch.num_rows
            columns = [
                batch.column(name).to_pylist() if name in read else nothing for name in TABLES[table].column_names
            ]
            yield from zip(*columns, strict=True)
