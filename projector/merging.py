"""Merges packs without folding anything: the live rows of the newest packs, partition by partition, as Arrow slices.

Merging a run of deltas keeps what they say about older packs (append stays append until a replace is met); merging
down to the base leaves replaces only.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from artifacts.files import PackFiles
from artifacts.index import APPEND, KEEP, REPLACE
from artifacts.layers import Layers, Link
from artifacts.layout import TableSpec
from artifacts.schema import arrow_schema
from projector.changes import Change


class PackSlices:
    """Tables of packs in memory, cut by partition; `drop` gives a pack's memory back."""

    def __init__(self, files: PackFiles, specs: Sequence[TableSpec]) -> None:
        self._files = files
        self._specs = {spec.name: spec for spec in specs}
        self._tables: dict[tuple[str, str], tuple[pa.Table, list[int]]] = {}

    def slice(self, link: Link, table: str) -> pa.Table:
        """The rows of a partition in a pack: a contiguous range, by prefix sums of the index."""
        key = (link.pack_id, table)
        known = self._tables.get(key)
        if known is None:
            path = self._files.table(link.pack_id, table)
            content = pq.ParquetFile(path).read(use_threads=False).cast(arrow_schema(self._specs[table]))
            starts = [0, *accumulate(link.contents.column(f"n_{table}"))]
            assert starts[-1] == content.num_rows, "the index counts the file's rows"
            known = self._tables[key] = (content, starts)
        content, starts = known
        return content.slice(starts[link.row], starts[link.row + 1] - starts[link.row])

    def drop(self, keep: Iterable[str]) -> None:
        """Forget the tables of all packs but these."""
        kept = set(keep)
        self._tables = {key: value for key, value in self._tables.items() if key[0] in kept}


def merge(
    layers: Layers, slices: PackSlices, partitions: Iterable[str], specs: Sequence[TableSpec]
) -> Iterator[Change]:
    """The change that says of each partition what all these layers together say."""
    for partition in partitions:
        chain = layers.chain(partition)
        newest = chain[0].contents.row(chain[0].row)
        rows = [link for link in reversed(chain) if link.rows_live]
        state = [link for link in reversed(chain) if link.state_live]
        row_mode = str(rows[0].contents.column("row_mode")[rows[0].row])
        state_mode = str(state[0].contents.column("state_mode")[state[0].row])
        parts = {}
        for spec in specs:
            links = rows if spec.family == "row" else state
            tables = [slices.slice(link, spec.name) for link in links if link.contents.count(spec.name, link.row)]
            if tables:
                parts[spec.name] = pa.concat_tables(tables)
        entry = msgspec.structs.replace(
            newest,
            row_mode=APPEND if row_mode == APPEND else REPLACE,
            state_mode=KEEP if state_mode == KEEP else REPLACE,
            from_position=rows[0].contents.column("from_position")[rows[0].row],
            counts={name: part.num_rows for name, part in parts.items()},
        )
        yield Change(entry, parts)
