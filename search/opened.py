"""An opened pack: verified against its name, its indexes readable by the engine. Used by merging and by queries.

The engine wants a folder it may lock in, and its own file names: it gets a private folder of links to the store's
files (or of copies, where the store is not on this machine). Every file is hashed before the engine sees it.
"""

import mmap
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from artifacts.store import Store
from polyc.errors import CorruptError
from search.chunk import Chunk
from search.lexical import EXTENSIONS, ROWS, SEGMENT, open_index
from search.pack import (
    INDEX_NAMES,
    NAMES_FILE,
    PACK_FILE,
    PARTITIONS_FILE,
    Counts,
    FileEntry,
    Names,
    PackDescription,
    PartitionEntry,
    decode_names,
    decode_partitions,
    pack_name,
    verify_description,
    verify_file,
)
from search.rows import Rows

_MANAGED: Final = ".managed.json"


class OpenIndex:
    """One lexical index of a pack; document numbers are row numbers."""

    def __init__(self, index: Any, *, rows: int) -> None:
        self.schema = index.schema
        self.searcher = index.searcher()
        self.rows = rows
        assert self.searcher.num_docs == rows, "an index has the rows its pack says"


class OpenPack:
    """A pack whose files were verified; indexes are opened when first asked for."""

    def __init__(self, store: Store, identity: str, *, any_analyzer: bool = False) -> None:
        self.identity = identity
        self._store = store
        self.description = read_description(store, identity, any_analyzer=any_analyzer)
        self.entries: list[PartitionEntry] = decode_partitions(self._verified(PARTITIONS_FILE))
        self.names: Names = decode_names(self._verified(NAMES_FILE))
        self.ordinals = {entry.partition: ordinal for ordinal, entry in enumerate(self.entries)}
        self.totals = {name: _total(self.entries, name) for name in INDEX_NAMES}
        self._indexes: dict[str, OpenIndex] = {}
        self._rows: dict[str, Rows] = {}
        self._folders: list[str] = []
        self._finalizer = weakref.finalize(self, _remove, self._folders)

    def index(self, name: str) -> OpenIndex | None:
        """The lexical index, or None when the pack has no rows of that kind."""
        rows = self.description.chunks.get(name, 0)
        if rows == 0:
            return None
        if name not in self._indexes:
            self._indexes[name] = OpenIndex(self._open(name), rows=rows)
        return self._indexes[name]

    def chunk(self, name: str, row: int) -> Chunk:
        """A row's chunk."""
        rows = self._rows.get(name)
        if rows is None:
            rows = self._rows[name] = self._open_rows(name)
        return rows.chunk(row)

    def chunks(self) -> Iterator[Chunk]:
        """Every chunk that the pack keeps, dead or alive."""
        for name in INDEX_NAMES:
            for row in range(self.description.chunks.get(name, 0)):
                yield self.chunk(name, row)

    def close(self) -> None:
        """Remove the private folders; indexes that are in use stay readable."""
        self._finalizer()

    def _open(self, name: str) -> Any:
        folder = Path(tempfile.mkdtemp(prefix="polyc-search-"))
        self._folders.append(str(folder))
        for extension in EXTENSIONS:
            self._place(f"{name}.{extension}", folder / f"{SEGMENT}.{extension}")
        self._place(f"{name}.meta", folder / "meta.json")
        files = ",".join(f'"{SEGMENT}.{extension}"' for extension in EXTENSIONS)
        (folder / _MANAGED).write_text(f'["meta.json",{files}]')
        return open_index(folder)

    def _open_rows(self, name: str) -> Rows:
        file = f"{name}.{ROWS}"
        content: bytes | mmap.mmap = self._verified(file)
        place = pack_name(self.identity, file)
        local = self._store.local(place)
        if local is not None:  # the same bytes, but the machine's to keep in memory or not
            with local.open("rb") as opened:
                content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        rows = Rows(content, place=place)
        if rows.count != self.description.chunks.get(name, 0):
            raise CorruptError("search rows are not those of the index", place=place, kind="rows")
        return rows

    def _place(self, file: str, target: Path) -> None:
        """Put a verified file where the engine expects it."""
        local = self._store.local(pack_name(self.identity, file))
        content = self._verified(file)
        if local is not None:
            target.symlink_to(local)
        else:
            target.write_bytes(content)

    def _verified(self, file: str) -> bytes:
        place = pack_name(self.identity, file)
        content = _read(self._store, place)
        entry: FileEntry | None = self.description.files.get(file)
        if entry is None:
            raise CorruptError("search pack does not name the file", place=place, kind="pack")
        verify_file(content, entry, place=place)
        return content


def _total(entries: Sequence[PartitionEntry], name: str) -> Counts:
    """What all partitions have in an index, dead or alive: what the engine's own statistics rest on."""
    counts = [entry.counts(name) for entry in entries]
    return Counts(
        sum([each.chunks for each in counts]),
        sum([each.body_tokens for each in counts]),
        sum([each.stem_tokens for each in counts]),
    )


def read_description(store: Store, identity: str, *, any_analyzer: bool = False) -> PackDescription:
    """A pack's verified list of files."""
    content = _read(store, pack_name(identity, PACK_FILE))
    return verify_description(content, identity=identity, any_analyzer=any_analyzer)


def index_files(name: str) -> list[str]:
    """The files of an index in a pack."""
    assert name in INDEX_NAMES, "an index we know"
    return [f"{name}.meta", *(f"{name}.{extension}" for extension in (*EXTENSIONS, ROWS))]


def _read(store: Store, name: str) -> bytes:
    try:
        return store.read(name)
    except FileNotFoundError:
        raise CorruptError(
            "search file is missing", place=name, kind="missing", hint="polyc project --rebuild"
        ) from None


def _remove(folders: list[str]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    folders.clear()
