"""Whether erased content is really gone: a search of every byte an artifact store keeps (`polyc erase --prove-gone`).

What is compressed is opened: every text and binary value of every Parquet file, every text of every search pack;
everything else is searched as it lies. The store is searched, not a generation, manifests and leases included. Search
packs hold texts in pieces and calls as they are rendered, so they are asked by place too: no chunk of an erased event
may be there, whatever it says. The journal's payloads are searched in clear, in the spelling JSON gives a text.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from artifacts.layout import BASES, CURRENT, GENERATIONS, LEASES, PACKS, SEARCH, TableSpec
from artifacts.reader import Generation
from artifacts.store import Store
from journal.port import JournalReader
from polyc.errors import CorruptError
from search.opened import OpenPack
from search.pack import pack_name

NEEDLES_MAX: Final = 32  # the longest ones: each is looked for in every value of the store
NEEDLE_SIZE_BYTES_MIN: Final = 24  # shorter values (names, paths, models) are other conversations' too


class Erased(msgspec.Struct, frozen=True):
    """What was erased: one event, or (position None) all of them."""

    partition: str
    position: int | None

    def covers(self, partition: str, position: int) -> bool:
        """Whether the event was erased."""
        return partition == self.partition and self.position in (None, position)


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


def prove_gone(store: Store, needles: Sequence[bytes], *, erased: Erased | None = None) -> list[Found]:
    """Every place where a needle, or a chunk of what was erased, is still kept; an empty list is the proof."""
    assert all(needles), "an empty needle is everywhere"
    found: list[Found] = []
    for pack_id in sorted({entry.name.split("/")[1] for entry in store.list(SEARCH)}):
        found += _in_search(store, pack_id, needles, erased)
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


def prove_gone_in_journal(reader: JournalReader, needles: Sequence[bytes], erased: Erased) -> list[Found]:
    """Where the journal still says it: the erased event itself, or a needle in another event of the partition."""
    spellings = [spelled for needle in needles for spelled in (needle, _in_json(needle))]
    found = []
    for record in reader.read(erased.partition):
        payload = record.payload
        if payload is None:
            continue
        if record.position == erased.position or any(spelled in payload for spelled in spellings):
            found.append(Found(f"journal {erased.partition}@{record.position}", "payload", erased.partition))
    return found


def _in_search(store: Store, pack_id: str, needles: Sequence[bytes], erased: Erased | None) -> Iterator[Found]:
    pack = OpenPack(store, pack_id, any_analyzer=True)  # it is read, not searched
    file = pack_name(pack_id)
    texts = {text for needle in needles for text in _texts_in(needle)}
    try:
        for entry in pack.entries:
            meta = {} if entry.meta is None else msgspec.structs.asdict(entry.meta)
            if any(isinstance(value, str) and _holds(value, texts) for value in meta.values()):
                yield Found(file, "sessions", entry.partition)
        unused = {*pack.names.paths, *pack.names.tools}
        for chunk in pack.chunks():
            unused.difference_update((*chunk.paths, chunk.tool))
            if erased is not None and erased.covers(chunk.partition, chunk.position):
                yield Found(file, "position", chunk.partition)
            elif _holds(chunk.text, texts) or any(_holds(path, texts) for path in chunk.paths):
                yield Found(file, "text", chunk.partition)
        if any(_holds(name, texts) for name in unused):  # what others use too stays in the pack's dictionaries
            yield Found(file, "names", "")
    finally:
        pack.close()


def _holds(text: str, needles: Iterable[str]) -> bool:
    """Whether a needle is in the text, or the text, being a piece long enough to tell, in a needle."""
    telling = len(text) >= NEEDLE_SIZE_BYTES_MIN
    return any(needle in text or (telling and text in needle) for needle in needles)


def _texts_in(needle: bytes) -> Iterator[str]:
    """The needle as text, and the long texts in it when it is JSON: a call is rendered from its arguments."""
    try:
        yield needle.decode()
        found: list[Any] = [msgspec.json.decode(needle)]
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return
    while found:
        value = found.pop()
        if isinstance(value, str) and len(value) >= NEEDLE_SIZE_BYTES_MIN:
            yield value
        elif isinstance(value, list):
            found += value
        elif isinstance(value, dict):
            found += value.values()


def _in_json(needle: bytes) -> bytes:
    """The needle as it stands within a JSON text; as it is when it is none."""
    try:
        return msgspec.json.encode(needle.decode())[1:-1]
    except UnicodeDecodeError:
        return needle


def _is_bytes_like(kind: pa.DataType) -> bool:
    return any(
        check(kind)
        for check in (
            pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
        )
    )  # fmt: skip
