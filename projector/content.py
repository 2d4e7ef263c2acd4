"""The content digest: what the rows of a partition say, whatever file, generation or machine they lie in.

    row      MessagePack of its values in column order (msgspec): decimals as their integer text, times as
             MessagePack timestamps
    table    SHA-256 over the rows in the fold's order
    content  SHA-256 over (name, row count u64, table digest) of each table that has rows, in catalog order

A table's digest can be taken over its first n rows and then over all: that is how an append is told from a change.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from artifacts.layout import Family, TableSpec

Rows = Mapping[str, list[tuple[Any, ...]]]

_encoder: Final = msgspec.msgpack.Encoder(decimal_format="string")
EMPTY: Final = hashlib.sha256().digest()


def content_digest(rows: Rows, specs: Sequence[TableSpec], *, family: Family) -> bytes:
    """The digest of all rows of a family."""
    return content_digests(rows, specs, family=family, published={})[1]


def content_digests(
    rows: Rows, specs: Sequence[TableSpec], *, family: Family, published: Mapping[str, int]
) -> tuple[bytes, bytes]:
    """The digest of the first `published` rows of each table, and the digest of all; equal work, one pass."""
    before, after = hashlib.sha256(), hashlib.sha256()
    for spec in specs:
        if spec.family != family:
            continue
        table = rows.get(spec.name, [])
        split = published.get(spec.name, 0)
        if not table and not split:
            continue
        digest = hashlib.sha256(_encode(table[:split], spec))
        if split:
            before.update(spec.name.encode() + b"\x00" + split.to_bytes(8, "big") + digest.digest())
        if len(table) > split:
            digest.update(_encode(table[split:], spec))
        if table:
            after.update(spec.name.encode() + b"\x00" + len(table).to_bytes(8, "big") + digest.digest())
    return before.digest(), after.digest()


def _encode(rows: list[tuple[Any, ...]], spec: TableSpec) -> memoryview:
    """The rows' encodings one after the other, without the list's own header (1, 3 or 5 bytes)."""
    decimals = [i for i, column in enumerate(spec.columns) if column.type.startswith("DECIMAL")]
    if decimals:
        rows = [_with_integer_texts(row, decimals) for row in rows]
    header = 1 if len(rows) < 16 else 3 if len(rows) < 65_536 else 5
    return memoryview(_encoder.encode(rows))[header:]


def _with_integer_texts(row: tuple[Any, ...], places: Sequence[int]) -> tuple[Any, ...]:
    values = list(row)
    for place in places:
        if values[place] is not None:
            values[place] = str(int(values[place]))
    return tuple(values)
