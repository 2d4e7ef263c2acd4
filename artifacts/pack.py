"""A pack: rows of many partitions, written once, named by the hash of its description.

`pack.json` names every file with its hash, size, rows and row groups, so a reader that trusts the pack's id (it
stands in a signed manifest or a list the manifest names) can tell any other byte.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa

from artifacts.index import IndexRow, write_index
from artifacts.layout import INDEX_FILE, PACK_FILE, LayoutParameters, TableSpec, content_id, pack_name, table_file
from artifacts.rowgroups import FileDescription, TableWriter, file_sha256
from artifacts.schema import WRITER
from artifacts.store import Store
from polyc import canonical
from polyc.errors import CorruptError

Kind = Literal["base", "delta"]


class IndexDescription(msgspec.Struct, frozen=True):
    """The index file."""

    sha256: str
    bytes: int


class PackDescription(msgspec.Struct, frozen=True, kw_only=True):
    """`pack.json`; `files` by table name."""

    v: int
    kind: Kind
    partitions: int
    events: int
    writer: str
    index: IndexDescription
    files: dict[str, FileDescription]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files the description names."""
        return self.index.bytes + sum(file.bytes for file in self.files.values())


class PackWriter:
    """Builds a pack in a staged folder; partitions come sorted, each once."""

    def __init__(self, folder: Path, specs: Sequence[TableSpec], *, layout: LayoutParameters) -> None:
        self._folder = folder
        self._specs = {spec.name: spec for spec in specs}
        self._layout = layout
        self._writers: dict[str, TableWriter] = {}
        self._index: list[IndexRow] = []
        self.rows = 0

    @property
    def partitions(self) -> int:
        """How many partitions were added."""
        return len(self._index)

    def add(self, entry: IndexRow, rows: Mapping[str, list[tuple[Any, ...]] | pa.Table]) -> None:
        """The next partition: its index row and the rows here, as tuples or as Arrow."""
        assert not self._index or self._index[-1].partition < entry.partition, "partitions are sorted, each once"
        assert rows.keys() <= self._specs.keys(), "folds fill the catalog's tables only"
        for name, part in rows.items():
            count = part.num_rows if isinstance(part, pa.Table) else len(part)
            assert count == entry.counts.get(name, 0), "the index counts the rows"
            if count == 0:
                continue
            writer = self._writers.get(name)
            if writer is None:
                path = self._folder / table_file(name)
                writer = self._writers[name] = TableWriter(path, self._specs[name], layout=self._layout)
            if isinstance(part, pa.Table):
                writer.add_table(part)
            else:
                writer.add_rows(part)
            self.rows += count
        self._index.append(entry)

    def finish(self, kind: Kind) -> tuple[str, PackDescription]:
        """Close every file and describe them; returns the pack's id."""
        files = {name: self._writers[name].close() for name in self._specs if name in self._writers}
        index = self._folder / INDEX_FILE
        write_index(index, self._index, list(files))
        description = PackDescription(
            v=1,
            kind=kind,
            partitions=len(self._index),
            events=sum(row.to_position - row.from_position + 1 for row in self._index),
            writer=WRITER,
            index=IndexDescription(file_sha256(index), index.stat().st_size),
            files=files,
        )
        content = canonical.encode(msgspec.to_builtins(description))
        (self._folder / PACK_FILE).write_bytes(content)
        return content_id(content), description


def read_description(store: Store, pack_id: str) -> PackDescription:
    """The description of a pack, checked against its id; CorruptError when it is missing or another."""
    name = pack_name(pack_id, PACK_FILE)
    try:
        content = store.read(name)
    except FileNotFoundError:
        raise CorruptError("pack is missing", place=name, kind="missing") from None
    if content_id(content) != pack_id:
        raise CorruptError("pack description is not the one of its id", place=name, kind="hash")
    try:
        return msgspec.convert(canonical.decode(content, place=name), PackDescription, strict=True)
    except msgspec.ValidationError:
        raise CorruptError("pack description does not have the shape of one", place=name, kind="pack") from None
