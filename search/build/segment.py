"""Writes one lexical index as one segment whose bytes depend only on its rows.

One writer thread and room for everything in memory, so that rows keep their order and nothing merges; the engine's
random segment name gives way to a fixed one. The caller bounds the rows (`SEARCH_PACK_CHUNKS_MAX`). The chunks
themselves go into a file of ours (search.rows).
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import tantivy

from polyc.limits import SEARCH_WRITER_BYTES
from search.chunk import KINDS, Chunk
from search.lexical import EXTENSIONS, ROWS, SEGMENT, STEMMED, create_index
from search.pack import Counts, IndexName
from search.rows import encode_rows
from search.stream import Stream


class Row(NamedTuple):
    """A chunk on its way into an index: with its token stream, and the ordinals of its pack."""

    chunk: Chunk
    stream: Stream
    partition: int
    role: int
    tool: int
    paths: tuple[int, ...]


def count_tokens(streams: Sequence[Stream], index: IndexName) -> Counts:
    """What chunks of one partition add to its counts in an index."""
    every = sum([stream.body_count for stream in streams])
    stems = sum([stream.parts_count for stream in streams]) if index in STEMMED else 0
    return Counts(len(streams), every, stems)


def write_segment(folder: Path, rows: Iterable[Row], *, target: Path, prefix: IndexName) -> None:
    """Build the index in `folder` and move its files to `target/prefix.*`."""
    rows = list(rows)
    (target / f"{prefix}.{ROWS}").write_bytes(encode_rows(row.chunk for row in rows))
    index = create_index(folder)
    writer = index.writer(heap_size=SEARCH_WRITER_BYTES, num_threads=1)
    for row in rows:
        writer.add_document(_document(row, stemmed=prefix in STEMMED))
    writer.commit()
    writer.wait_merging_threads()
    meta = json.loads((folder / "meta.json").read_bytes())
    assert len(meta["segments"]) == 1, "rows fit one segment"
    segment = meta["segments"][0]
    assert segment["max_doc"] == len(rows), "every row is there once"
    name = segment["segment_id"].replace("-", "")
    for extension in EXTENSIONS:
        (folder / f"{name}.{extension}").rename(target / f"{prefix}.{extension}")
    segment["segment_id"] = f"{SEGMENT[:8]}-{SEGMENT[8:12]}-{SEGMENT[12:16]}-{SEGMENT[16:20]}-{SEGMENT[20:]}"
    meta["opstamp"] = len(rows) + 1
    (target / f"{prefix}.meta").write_text(json.dumps(meta, sort_keys=True))


_KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(KINDS)}


def _document(row: Row, *, stemmed: bool) -> "tantivy.Document":
    chunk = row.chunk
    document = tantivy.Document()
    document.add_text("body", row.stream.body)
    document.add_unsigned("body_count", row.stream.body_count)
    if stemmed:
        document.add_text("stem", row.stream.parts)
        document.add_unsigned("stem_count", row.stream.parts_count)
    document.add_unsigned("partition", row.partition)
    document.add_unsigned("kind", _KIND_NUMBERS[chunk.kind])
    document.add_unsigned("role", row.role)
    document.add_unsigned("tool", row.tool)
    for path in row.paths:
        document.add_unsigned("path", path)
    if chunk.occurred_at_us is not None:
        document.add_integer("time", chunk.occurred_at_us)
    document.add_unsigned("position", chunk.position)
    document.add_unsigned("ident", int(chunk.chunk_id[:16], 16))
    digest = hashlib.blake2b(chunk.words_text.encode(), digest_size=8).digest()
    document.add_unsigned("digest", int.from_bytes(digest, "big"))
    return document
