"""Whether erased content is really gone: a search of every byte an artifact store keeps (`polyc erase --prove-gone`).

Parquet is compressed, so every file is decoded and every text and binary value looked at; everything else is
searched as it lies. Manifests, leases and staged leftovers are included: the store is searched, not a generation.
BUG: search packs are compressed by their engine and are searched as they lie too; what vouches for them is that an
erasure rewrites every search pack that holds the conversation.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from artifacts.layout import BASES, CURRENT, GENERATIONS, LEASES, PACKS, SEARCH, TableSpec
from artifacts.reader import Generation
from artifacts.store import Store
from polyc.errors import CorruptError

NEEDLES_MAX: Final = 32  # the longest ones: each is looked for in every value of the store
NEEDLE_SIZE_BYTES_MIN: Final = 24  # shorter values (names, paths, models) are other conversations' too


class Found(msgspec.Struct, frozen=True):
    """Where one of the needles still is; the needle itself is not repeated."""

    file: str
    column: str
    partition: str


def needles_of(
    generation: Generation, specs: Sequence[TableSpec], *, partition: str, position: int | None = None
) -> list[bytes]:
    """The longest texts that the tables hold of a conversation, or of one event of it: look before you erase."""
    found: set[bytes] = set()
    for spec in specs:
        rows = generation.admit(spec, partitions=[partition])
        if position is not None and "position" in rows.column_names:
            rows = rows.filter(pc.equal(rows.column("position"), position))
        for column in spec.columns:
            if column.type in ("VARCHAR", "JSON", "BLOB") and not column.dictionary:
                values = rows.column(column.name).cast(pa.binary()).unique().to_pylist()
                found.update(value for value in values if value and len(value) >= NEEDLE_SIZE_BYTES_MIN)
    own = {partition.encode(), *(row.encode() for row in _incarnations(generation, partition))}
    return sorted(found - own, key=lambda value: (-len(value), value))[:NEEDLES_MAX]


def _incarnations(generation: Generation, partition: str) -> list[str]:
    newest = generation.layers.newest(partition)
    return [] if newest is None else [newest.incarnation]


def prove_gone(store: Store, needles: Sequence[bytes]) -> list[Found]:
    """Every place where one of the needles is still kept; an empty list is the proof."""
    assert all(needles), "an empty needle is everywhere"
    found: list[Found] = []
    for prefix in (PACKS, SEARCH, BASES, GENERATIONS, LEASES):
        for entry in store.list(prefix):
            content = store.read(entry.name)
            if any(needle in content for needle in needles):
                found.append(Found(entry.name, "", ""))
            if entry.name.endswith(".parquet"):
                found += _in_parquet(entry.name, content, needles)
    if store.exists(CURRENT) and any(needle in store.read(CURRENT) for needle in needles):
        found.append(Found(CURRENT, "", ""))
    return found


def _in_parquet(name: str, content: bytes, needles: Sequence[bytes]) -> Iterable[Found]:
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
    except pa.ArrowInvalid:
        raise CorruptError("file cannot be decoded: nothing can be said of it", place=name, kind="parquet") from None
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, use_threads=False)
        for column in table.column_names:
            values = table.column(column)
            if not _is_bytes_like(values.type):
                continue
            for needle in needles:
                hits = pc.match_substring(values.cast(pa.large_binary()), needle)
                for partition in table.column("partition").filter(hits).unique().to_pylist():
                    yield Found(name, column, partition)


def _is_bytes_like(kind: pa.DataType) -> bool:
    return any(
        check(kind)
        for check in (
            pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
        )
    )  # fmt: skip
