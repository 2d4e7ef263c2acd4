"""The content digest: what the rows of a partition say, whatever file, generation or machine they lie in.

    row      MessagePack of its values in column order (msgspec): decimals as their integer text, times as
             MessagePack timestamps
    table    SHA-256 over the rows in the fold's order
    content  SHA-256 over (name, row count u64, table digest) of each table that has rows, in catalog order

A table's digest can be taken over its first n rows and then over all: that is how an append is told from a change.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from artifacts.layout import Family, TableSpec

Rows = Mapping[str, list[tuple[Any, ...]]]

_encoder: Final = msgspec.msgpack.Encoder(decimal_format="string")
_sha256: Final = hashlib.sha256
_EMPTY: Final = _sha256().digest()


class _Table(NamedTuple):
    """What of a table a digest needs, worked out once."""

    name: str
    prefix: bytes
    decimals: tuple[int, ...]


class ContentDigests:
    """Takes the digests of partition after partition over these tables."""

    def __init__(self, specs: Sequence[TableSpec]) -> None:
        self.specs: Final = tuple(specs)
        self._tables: dict[Family, list[_Table]] = {"row": [], "state": []}
        for spec in specs:
            decimals = tuple(i for i, column in enumerate(spec.columns) if column.type.startswith("DECIMAL"))
            self._tables[spec.family].append(_Table(spec.name, spec.name.encode() + b"\x00", decimals))

    def of(self, rows: Rows, *, family: Family) -> bytes:
        """The digest of all rows of a family; what `split` gives as its second, in fewer steps (every rebuild)."""
        pieces: list[bytes] = []
        for table in self._tables[family]:
            held = rows.get(table.name)
            if held:
                pieces += (table.prefix, len(held).to_bytes(8, "big"), _sha256(_encode(held, table.decimals)).digest())
        return _sha256(b"".join(pieces)).digest()

    def split(self, rows: Rows, *, family: Family, published: Mapping[str, int]) -> tuple[bytes, bytes]:
        """The digest of the first `published` rows of each table, and the digest of all; equal work, one pass."""
        before, after = _sha256(), _sha256()
        for table in self._tables[family]:
            held = rows.get(table.name)
            split = published.get(table.name, 0)
            if not held:
                if split:
                    before.update(table.prefix + split.to_bytes(8, "big") + _EMPTY)
                continue
            digest = _sha256()
            if split:
                digest.update(_encode(held[:split], table.decimals))
                before.update(table.prefix + split.to_bytes(8, "big") + digest.digest())
            if len(held) > split:
                digest.update(_encode(held[split:] if split else held, table.decimals))
            after.update(table.prefix + len(held).to_bytes(8, "big") + digest.digest())
        return before.digest(), after.digest()


def _encode(rows: list[tuple[Any, ...]], decimals: tuple[int, ...]) -> memoryview:
    """The rows' encodings one after the other, without the list's own header (1, 3 or 5 bytes)."""
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
