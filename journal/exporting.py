"""`polyc export`: the sealed log as archive files, the same bytes whenever and wherever they are written.

A file ends at the first checkpoint after `ENTRIES_PER_FILE` entries or `BYTES_PER_FILE` stated bytes; the last one at
the latest checkpoint. Files that are there already are not written again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from journal import archive
from journal.database import Readers, rows
from journal.reading import SqliteReader
from polyc.durable import create_file

ENTRIES_PER_FILE: Final = 16_384
BYTES_PER_FILE: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What stands in the folder now, and what this run added."""

    size: int
    files: tuple[str, ...]
    added: int


def export(reader: SqliteReader, folder: Path, *, progress: Callable[[int, int], None] | None = None) -> Exported:
    """Write every sealed entry, with signatures, checkpoints and cosignatures, into `folder`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    size = reader.size()
    names: list[str] = []
    added = 0
    for from_index, to_index, data in _files(reader, size):
        name = f"{from_index:012d}-{to_index:012d}{archive.SUFFIX}"
        added += create_file(folder / name, data, mode=0o600)
        names.append(name)
        if progress is not None:
            progress(to_index, size)
    return Exported(size=size, files=tuple(names), added=added)


def _files(reader: SqliteReader, size: int) -> Iterator[tuple[int, int, bytes]]:
    readers = Readers(reader.path)
    try:
        with readers.borrow() as connection:
            checkpoints = dict(
                rows(connection, "SELECT size, note FROM checkpoint WHERE size <= ? ORDER BY size", (size,))
            )
            cosignatures: dict[int, list[str]] = {}
            for at, line in rows(connection, "SELECT size, line FROM cosignature ORDER BY size, line"):
                cosignatures.setdefault(at, []).append(line)
    finally:
        readers.close()
    parts: list[bytes] = []
    start = stated_bytes = 0
    for raw in reader.read_all_raw(from_index=0, to_index=size):
        if not parts:
            parts.append(archive.encode_head(reader.origin, start))
        parts.append(archive.encode_entry(raw))
        stated_bytes += int.from_bytes(raw.header[144:148], "big")  # an erasure does not move the borders
        end = raw.index + 1
        if end not in checkpoints:
            continue
        parts.append(archive.encode_frame(archive.CHECKPOINT, checkpoints[end].encode()))
        parts += [archive.encode_frame(archive.COSIGNATURE, line.encode()) for line in cosignatures.get(end, ())]
        if end - start >= ENTRIES_PER_FILE or stated_bytes >= BYTES_PER_FILE or end == size:
            yield start, end, b"".join(parts)
            parts, start, stated_bytes = [], end, 0
