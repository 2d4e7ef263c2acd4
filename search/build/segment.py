"""Writes one lexical index as one segment whose bytes depend only on its rows.

One writer thread and room for everything in memory, so that rows keep their order and nothing merges; the engine's
random segment name gives way to a fixed one. The caller bounds the rows (`SEARCH_PACK_CHUNKS_MAX`).
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import tantivy

from polyc.limits import SEARCH_WRITER_BYTES
from search.analyzer import GAP
from search.chunk import KINDS, Chunk
from search.lexical import EXTENSIONS, SEGMENT, STEMMED, create_index, encode_record
from search.pack import Counts, IndexName


class Row(NamedTuple):
    """A chunk on its way into an index: with its token stream, and the ordinals of its pack."""

    chunk: Chunk
    body: str
    partition: int
    role: int
    tool: int
    paths: tuple[int, ...]


def count_tokens(bodies: Sequence[str], index: IndexName) -> Counts:
    """What chunks of one partition add to its counts in an index."""
    every = sum([body.count(" ") for body in bodies]) + len(bodies)
    if index not in STEMMED:
        return Counts(len(bodies), every, 0)
    wholes = sum([body.count(" ", body.find(_GAP)) for body in bodies if _GAP in body])
    return Counts(len(bodies), every, every - wholes)


def write_segment(folder: Path, rows: Iterable[Row], *, target: Path, prefix: IndexName) -> None:
    """Build the index in `folder` and move its files to `target/prefix.*`."""
    index = create_index(folder)
    writer = index.writer(heap_size=SEARCH_WRITER_BYTES, num_threads=1)
    count = 0
    for row in rows:
        writer.add_document(_document(row, stemmed=prefix in STEMMED))
        count += 1
    writer.commit()
    writer.wait_merging_threads()
    meta = json.loads((folder / "meta.json").read_bytes())
    assert len(meta["segments"]) == 1, "rows fit one segment"
    segment = meta["segments"][0]
    assert segment["max_doc"] == count, "every row is there once"
    name = segment["segment_id"].replace("-", "")
    for extension in EXTENSIONS:
        (folder / f"{name}.{extension}").rename(target / f"{prefix}.{extension}")
    segment["segment_id"] = f"{SEGMENT[:8]}-{SEGMENT[8:12]}-{SEGMENT[12:16]}-{SEGMENT[16:20]}-{SEGMENT[20:]}"
    meta["opstamp"] = count + 1
    (target / f"{prefix}.meta").write_text(json.dumps(meta, sort_keys=True))


_GAP: Final = f" {GAP} "
_KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(KINDS)}


def _document(row: Row, *, stemmed: bool) -> "tantivy.Document":
    chunk = row.chunk
    document = tantivy.Document()
    document.add_text("body", row.body)
    if stemmed:
        document.add_text("stem", row.body.partition(_GAP)[0])
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
    document.add_unsigned("digest", int.from_bytes(hashlib.blake2b(row.body.encode(), digest_size=8).digest(), "big"))
    document.add_bytes("record", encode_record(chunk))
    return document
