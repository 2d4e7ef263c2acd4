"""Packs as files an engine can read: each is checked against its description on first use, then remembered.

A store without local paths (object stores) is copied into a cache folder under the pack's immutable name. A file that
changed after it was checked (other size, time or inode) is checked again before it is handed out (F15).
"""

from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from artifacts.index import PackIndex, read_index
from artifacts.layout import INDEX_FILE, pack_name, table_file
from artifacts.pack import PackDescription, read_description
from artifacts.rowgroups import file_sha256
from artifacts.store import Store
from polyc.errors import CorruptError, RefusedError


class ColumnSizes(NamedTuple):
    """A table file's rows, and the uncompressed bytes of all its values by column."""

    rows: int
    bytes_by_column: dict[str, int]


class PackFiles:
    """Descriptions, indexes and verified files of packs, by pack id."""

    def __init__(self, store: Store, *, cache: Path | None = None) -> None:
        self._store = store
        self._cache = cache
        self._descriptions: dict[str, PackDescription] = {}
        self._indexes: dict[str, PackIndex] = {}
        self._checked: dict[str, tuple[Path, tuple[int, int, int]]] = {}
        self._sizes: dict[str, ColumnSizes] = {}

    def description(self, pack_id: str) -> PackDescription:
        """What `pack.json` says."""
        known = self._descriptions.get(pack_id)
        if known is None:
            known = self._descriptions[pack_id] = read_description(self._store, pack_id)
        return known

    def index(self, pack_id: str) -> PackIndex:
        """The pack's index."""
        known = self._indexes.get(pack_id)
        if known is None:
            name = pack_name(pack_id, INDEX_FILE)
            described = self.description(pack_id)
            try:
                content = self._store.read(name)
            except FileNotFoundError:
                raise CorruptError("pack lacks its index", place=name, kind="missing") from None
            known = read_index(content, sha256=described.index.sha256, place=name)
            if len(known.partitions) != described.partitions:
                raise CorruptError("index counts other partitions", place=name, kind="index")
            self._indexes[pack_id] = known
        return known

    def table(self, pack_id: str, table: str) -> Path:
        """The verified Parquet file of a table."""
        name = pack_name(pack_id, table_file(table))
        described = self.description(pack_id).files.get(table)
        if described is None:
            raise CorruptError("pack holds no such table", place=name, kind="missing")
        known = self._checked.get(name)
        if known is not None and _identity(known[0]) == known[1]:
            return known[0]
        path = self._local(name)
        identity = _identity(path)
        if identity is None:
            raise CorruptError("pack lacks a file", place=name, kind="missing")
        if identity[0] != described.bytes or file_sha256(path) != described.sha256:
            raise CorruptError("file is not the one its pack describes", place=name, kind="hash")
        self._checked[name] = (path, identity)
        return path

    def column_sizes(self, pack_id: str, table: str) -> ColumnSizes:
        """The uncompressed bytes of each column, as the file's footer tells; a large file's footer is read once."""
        name = pack_name(pack_id, table_file(table))
        known = self._sizes.get(name)
        if known is None:
            known = self._sizes[name] = _column_sizes(self.table(pack_id, table))
        return known

    def forget(self, kept: set[str]) -> None:
        """Drop what is remembered of packs that no generation in use names."""
        for pack_id in self._descriptions.keys() - kept:
            self._descriptions.pop(pack_id)
            self._indexes.pop(pack_id, None)
        for name in [name for name in self._checked if name.split("/")[1] not in kept]:
            del self._checked[name]
            self._sizes.pop(name, None)

    def _local(self, name: str) -> Path:
        path = self._store.local(name)
        if path is not None:
            return path
        if self._cache is None:
            raise RefusedError("this store needs a cache folder to be read from", code="failed_precondition")
        path = self._cache / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.write_bytes(self._store.read(name))
        except FileNotFoundError:
            raise CorruptError("pack lacks a file", place=name, kind="missing") from None
        return path


def _column_sizes(path: Path) -> ColumnSizes:
    footer = pq.read_metadata(path)
    sizes: dict[str, int] = {}
    for g in range(footer.num_row_groups):
        group = footer.row_group(g)
        for i in range(footer.num_columns):
            column = group.column(i)
            sizes[column.path_in_schema] = sizes.get(column.path_in_schema, 0) + column.total_uncompressed_size
    return ColumnSizes(footer.num_rows, sizes)


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
