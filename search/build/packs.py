"""`SearchBuild`: from the changes of a tick to the list of search packs of the next generation.

A tick writes one pack with only what is new. When `SEARCH_FAN_IN` packs of a size class stand at the end of the list,
they become one: what later packs replaced is dropped, the rest is copied.
Merges of more than `SEARCH_MERGE_CHUNKS_MAX` chunks would hold up a tick and wait for `compact`.
A rebuild sorts everything into packs of at most `SEARCH_PACK_CHUNKS_MAX` chunks: the same rows, the same bytes.
Erasure rewrites every pack that holds the partition. Nothing here reads what queries read with.
"""

import hashlib
import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec.json import encode as encode_json

from artifacts.files import PackFiles
from artifacts.store import Store
from polyc.errors import CorruptError
from polyc.limits import SEARCH_CLASS_CHUNKS, SEARCH_FAN_IN, SEARCH_MERGE_CHUNKS_MAX, SEARCH_PACK_CHUNKS_MAX
from search.build.change import PartitionChange
from search.build.chunker import Text, meta_of, texts_of
from search.build.segment import Row, count_tokens, write_segment
from search.build.tables import changes_of
from search.chunk import Chunk, SessionMeta
from search.lexical import ENGINE
from search.opened import OpenPack, index_files, read_description
from search.pack import (
    INDEX_NAMES,
    NAMES_FILE,
    PACK_FILE,
    PARTITIONS_FILE,
    Counts,
    FileEntry,
    IndexName,
    Names,
    OtherVersionError,
    PartitionEntry,
    describe,
    encode_partitions,
    pack_id,
    pack_name,
)
from search.stream import Stream, stream_of


class _Partition:
    """A partition on its way into a pack."""

    __slots__ = ("incarnation", "meta", "mode", "name", "rows", "to_position")

    def __init__(
        self,
        name: str,
        *,
        mode: Literal["append", "replace"],
        incarnation: str,
        to_position: int,
        meta: SessionMeta | None,
    ) -> None:
        self.name = name
        self.mode = mode
        self.incarnation = incarnation
        self.to_position = to_position
        self.meta = meta
        self.rows: dict[str, list[Text]] = {"main": [], "outputs": []}

    def add(self, chunk: Chunk, stream: Stream) -> None:
        self.rows["outputs" if chunk.kind == "output" else "main"].append((chunk, stream))

    def take(self, pack: OpenPack, index: IndexName, rows: range) -> None:
        """Add what a pack holds in these rows."""
        for row in rows:
            chunk = pack.chunk(index, row)
            self.rows[index].append((chunk, stream_of(chunk.words_text)))

    @property
    def chunks(self) -> int:
        return len(self.rows["main"]) + len(self.rows["outputs"])

    def entry(self) -> PartitionEntry:
        return PartitionEntry(
            partition=self.name,
            mode=self.mode,
            incarnation=self.incarnation,
            to_position=self.to_position,
            main=_counts(self.rows["main"], "main"),
            outputs=_counts(self.rows["outputs"], "outputs"),
            meta=self.meta,
        )


class SearchBuild:
    """Writes search packs into a store. Not for two writers at once: the generation's commit decides who won.

    `check` is called between partitions; what it raises ends the work, and nothing names what was written so far.
    """

    def __init__(self, store: Store, *, check: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._check = check
        self._sizes: dict[str, int] = {}
        self._read: set[str] = set()  # packs of this version

    def reads(self, packs: Sequence[str]) -> bool:
        """Whether all packs are of this program's version; of a damaged one it is for its readers to tell."""
        try:
            for identity in packs:
                if identity not in self._read:
                    with suppress(CorruptError):
                        read_description(self._store, identity)
                    self._read.add(identity)
        except OtherVersionError:
            return False
        return True

    def extend(self, previous: Sequence[str], changes: Sequence[PartitionChange]) -> tuple[str, ...]:
        """The packs of the next generation: the previous ones, what is new, and the merges that are due."""
        packs = list(previous)
        erased = {change.partition for change in changes if change.erased}
        if erased:
            packs = self._without(packs, erased)
        fresh = [partition for change in changes if (partition := _partition_of(change)) is not None]
        packs += self._write_all(sorted(fresh, key=lambda partition: partition.name))
        return tuple(self._merge_due(packs))

    def rebuild(self, changes: Iterable[PartitionChange]) -> tuple[str, ...]:
        """The packs of everything, given by partition in order; equal changes give equal packs."""
        return tuple(self._write_all(_alone(map(_partition_of, changes))))

    def extend_packs(
        self, previous: Sequence[str], files: PackFiles, pack_ids: Sequence[str], *, erased: Collection[str] = ()
    ) -> tuple[str, ...]:
        """`extend` with what these table packs hold; `erased` must leave every older search pack."""
        gone = frozenset(erased)
        changes = [change for pack_id in pack_ids for change in changes_of(files, pack_id, erased=gone)]
        told = {change.partition for change in changes}
        packs = self._without(previous, gone - told) if gone - told else list(previous)
        return self.extend(packs, changes)

    def rebuild_packs(self, files: PackFiles, pack_ids: Sequence[str]) -> tuple[str, ...]:
        """`rebuild` with what these base packs hold, whatever their order and number."""
        streams = [changes_of(files, pack_id) for pack_id in pack_ids]
        return self.rebuild(heapq.merge(*streams, key=lambda change: change.partition))

    def compact(self, previous: Sequence[str]) -> tuple[str, ...]:
        """The same rows in the packs that a rebuild would make."""
        return tuple(self._write_all(self._merged(previous)))

    def _merge_due(self, packs: list[str]) -> list[str]:
        sizes = {identity: self._size(identity) for identity in packs}
        level = 0
        while True:
            run: list[str] = []
            for identity in reversed(packs):
                if _size_class(sizes[identity]) > level:
                    break
                run.insert(0, identity)
            total = sum(sizes[identity] for identity in run)
            if len(run) >= SEARCH_FAN_IN and total <= SEARCH_MERGE_CHUNKS_MAX:
                merged = self._write_all(self._merged(run, keep_replace=len(run) < len(packs)))
                packs = packs[: len(packs) - len(run)] + merged
                sizes |= dict.fromkeys(merged, total)
            elif len(run) == len(packs) or SEARCH_CLASS_CHUNKS * SEARCH_FAN_IN**level > SEARCH_MERGE_CHUNKS_MAX:
                return packs
            level += 1

    def _size(self, identity: str) -> int:
        """Chunks of a pack; a pack never changes, so this is read once."""
        if identity not in self._sizes:
            self._sizes[identity] = sum(read_description(self._store, identity).chunks.values())
        return self._sizes[identity]

    def _merged(self, packs: Sequence[str], *, keep_replace: bool = False) -> Iterator[_Partition]:
        """What a run of packs says together, by partition in order.

        `keep_replace`: older packs stand before the run, so a replacement must still be one.
        """
        opened = [OpenPack(self._store, identity) for identity in packs]
        names = sorted({name for pack in opened for name in pack.ordinals})
        starts = [{index: _starts(pack, index) for index in INDEX_NAMES} for pack in opened]
        for name in names:
            merged: _Partition | None = None
            for pack, offsets in zip(opened, starts, strict=True):
                if name not in pack.ordinals:
                    continue
                ordinal = pack.ordinals[name]
                entry = pack.entries[ordinal]
                merged = _joined(merged, entry)
                for index in INDEX_NAMES:
                    first = offsets[index][ordinal]
                    merged.take(pack, index, range(first, first + entry.counts(index).chunks))
            assert merged is not None, "a name comes from a pack"
            if keep_replace or merged.chunks or merged.meta:
                if not keep_replace:
                    merged.mode = "replace"
                yield merged
        for pack in opened:
            pack.close()

    def _without(self, packs: Sequence[str], erased: Collection[str]) -> list[str]:
        """The packs, those that hold an erased partition written anew without it."""
        kept: list[str] = []
        for identity in packs:
            pack = OpenPack(self._store, identity)
            if pack.ordinals.keys().isdisjoint(erased):
                kept.append(identity)
            else:
                kept += self._write_all(part for part in self._as_is(pack) if part.name not in erased)
        return kept

    def _as_is(self, pack: OpenPack) -> Iterator[_Partition]:
        offsets = {index: _starts(pack, index) for index in INDEX_NAMES}
        for ordinal, entry in enumerate(pack.entries):
            partition = _joined(None, entry)
            for index in INDEX_NAMES:
                first = offsets[index][ordinal]
                partition.take(pack, index, range(first, first + entry.counts(index).chunks))
            yield partition

    def _write_all(self, partitions: Iterable[_Partition]) -> list[str]:
        """One pack, or as many as the bound on chunks asks for; partitions come sorted."""
        written: list[str] = []
        batch: list[_Partition] = []
        count = 0
        for partition in partitions:
            self._check()
            if batch and count + partition.chunks > SEARCH_PACK_CHUNKS_MAX:
                written.append(self._write(batch))
                batch, count = [], 0
            batch.append(partition)
            count += partition.chunks
        if batch:
            written.append(self._write(batch))
        return written

    def _write(self, partitions: Sequence[_Partition]) -> str:
        """Write one pack and return its id."""
        names = _names_of(partitions)
        with self._store.stage() as folder:
            chunks: dict[str, int] = {}
            files = {
                PARTITIONS_FILE: encode_partitions([partition.entry() for partition in partitions]),
                NAMES_FILE: encode_json(names),
            }
            for file, content in files.items():
                (folder / file).write_bytes(content)
            for index in INDEX_NAMES:
                count = sum(len(partition.rows[index]) for partition in partitions)
                if count:
                    chunks[index] = count
                    _write_index(folder, index, partitions, names)
            listed = {path.name: _file_entry(path) for path in sorted(folder.iterdir())}
            description = describe(engine=ENGINE, chunks=chunks, files=listed)
            (folder / PACK_FILE).write_bytes(description)
            identity = pack_id(description)
            self._store.publish(folder, pack_name(identity))
        return identity


def _partition_of(change: PartitionChange) -> _Partition | None:
    """The partition's chunks and counts, or None when the change says nothing that search keeps."""
    meta = meta_of(change.rows.get("sessions", ()))
    partition = _Partition(
        change.partition,
        mode=change.mode,
        incarnation=change.incarnation,
        to_position=change.to_position,
        meta=meta,
    )
    for chunk, stream in texts_of(change.rows):
        partition.add(chunk, stream)
    says = partition.chunks or meta is not None or (change.mode == "replace" and change.partition.startswith("conv-"))
    return partition if says else None


def _alone(partitions: Iterable[_Partition | None]) -> Iterator[_Partition]:
    """Partitions as a first pack says them: nothing older stands before it."""
    for partition in partitions:
        if partition is not None and (partition.chunks or partition.meta is not None):
            partition.mode = "replace"
            yield partition


def _joined(earlier: _Partition | None, entry: PartitionEntry) -> _Partition:
    """The state of a partition after an entry, before the entry's rows are added."""
    if earlier is None or entry.mode == "replace":
        return _Partition(
            entry.partition,
            mode=entry.mode,
            incarnation=entry.incarnation,
            to_position=entry.to_position,
            meta=entry.meta,
        )
    earlier.incarnation, earlier.to_position = entry.incarnation, entry.to_position
    earlier.meta = entry.meta if entry.meta is not None else earlier.meta
    return earlier


def _write_index(folder: Path, index: IndexName, partitions: Sequence[_Partition], names: Names) -> None:
    roles, tools, paths = (
        {name: place for place, name in enumerate(kind, 1)} for kind in (names.roles, names.tools, names.paths)
    )
    rows = (
        Row(
            chunk,
            stream,
            ordinal,
            roles.get(chunk.role, 0),
            tools.get(chunk.tool or "", 0),
            tuple(paths[path] for path in chunk.paths),
        )
        for ordinal, partition in enumerate(partitions)
        for chunk, stream in partition.rows[index]
    )
    scratch = folder / f"{index}.building"
    scratch.mkdir()
    write_segment(scratch, rows, target=folder, prefix=index)
    for left in scratch.iterdir():
        left.unlink()
    scratch.rmdir()
    assert all((folder / file).exists() for file in index_files(index)), "an index is all its files"


def _names_of(partitions: Sequence[_Partition]) -> Names:
    roles: set[str] = set()
    tools: set[str] = set()
    paths: set[str] = set()
    for partition in partitions:
        for rows in partition.rows.values():
            for chunk, _ in rows:
                roles.add(chunk.role)
                tools.add(chunk.tool or "")
                paths.update(chunk.paths)
    return Names(roles=tuple(sorted(roles - {""})), tools=tuple(sorted(tools - {""})), paths=tuple(sorted(paths)))


def _counts(rows: Sequence[Text], index: IndexName) -> Counts:
    return count_tokens([stream for _, stream in rows], index)


def _starts(pack: OpenPack, index: str) -> list[int]:
    """The first row of each partition."""
    starts, at = [], 0
    for entry in pack.entries:
        starts.append(at)
        at += entry.counts(index).chunks
    return starts


def _size_class(chunks: int) -> int:
    level, bound = 0, SEARCH_CLASS_CHUNKS
    while chunks > bound:
        level, bound = level + 1, bound * SEARCH_FAN_IN
    return level


def _file_entry(path: Path) -> FileEntry:
    content = path.read_bytes()
    return FileEntry(hashlib.sha256(content).hexdigest(), len(content))
