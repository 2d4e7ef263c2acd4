"""`polyc import-archive`: archive files become a journal with the same entries, checkpoints and root, somewhere else.

Nothing in the files is believed: frames by their checksums, entries by their chains, the whole by the log's signed
checkpoints and every author's signature (level V2) before the journal gets its name. Without the log's private key the
new journal can be read and verified, not appended to.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw

from journal import archive
from journal.body import encode_body
from journal.database import explained, open_writer
from journal.port import RawEntry
from journal.tree import Tree
from journal.verify import verify_file
from polyc import entry, note
from polyc.dataroot import Policy
from polyc.durable import sync_file, sync_folder
from polyc.entry import FLAG_CLOSES_FENCE, FLAG_ENCRYPTED, FLAG_LAST, Header
from polyc.errors import CorruptError, RefusedError
from polyc.limits import EVENTS_PER_APPEND_MAX
from polyc.merkle import Frontier

ENTRIES_PER_TRANSACTION: Final = 16_384
_NAME: Final = re.compile(r"[0-9]{12,15}-[0-9]{12,15}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The imported journal's size and root, and what was cut off the last file's end."""

    size: int
    root: str
    files: int
    torn_bytes: int


def import_archive(
    folder: Path, path: Path, *, policy: Policy, progress: Callable[[int, int], None] | None = None
) -> Imported:
    """Build the journal file `path` from the archive in `folder`.

    1. There is no journal yet. 2. The files join without a gap. 3. Every frame, entry and checkpoint is taken over.
    4. The result verifies at V2 against the policy. 5. It gets its name.
    """
    # 1.
    if path.exists():
        raise RefusedError(f"there is a journal at {path}", code="failed_precondition")
    # 2.
    files = _chain_of(folder)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.importing")
    for leftover in (temporary, *(temporary.with_name(temporary.name + end) for end in ("-wal", "-shm"))):
        leftover.unlink(missing_ok=True)  # of an import that was interrupted
    # 3.
    with explained(place=str(temporary)):
        connection = open_writer(temporary, origin=policy.origin)
        try:
            builder = _Builder(connection, origin=policy.origin)
            torn_bytes = 0
            for number, file in enumerate(files, start=1):
                found = archive.scan(file.read_bytes(), place=file.name)
                if found.torn_bytes and number < len(files):
                    raise CorruptError("a file in the middle is cut short", place=file.name, kind="archive_gap")
                torn_bytes = found.torn_bytes
                builder.take(found.frames, place=file.name)
                if not torn_bytes and builder.size != _end_of(file):  # a torn write leaves half a frame behind
                    raise CorruptError(
                        f"ends at index {builder.size}, its name says {_end_of(file)}",
                        place=file.name,
                        kind="archive_gap",
                    )
                if progress is not None:
                    progress(number, len(files))
            if builder.size == 0:
                raise CorruptError("no whole checkpoint", place=files[0].name, kind="archive_gap")
            builder.finish()
        finally:
            connection.close()
    # 4.
    report = verify_file(temporary, policy=policy, level="V2")
    if not report.ok:
        fault = report.faults[0]
        raise CorruptError(fault.detail.removeprefix(f"{fault.place}: "), place=fault.place, kind=fault.kind)
    # 5.
    sync_file(temporary)
    temporary.rename(path)
    sync_folder(path.parent)
    return Imported(size=report.entries, root=report.root, files=len(files), torn_bytes=torn_bytes)


def _chain_of(folder: Path) -> list[Path]:
    """The files that join from index 0 on; of two that start alike the longer one."""
    longest: dict[int, tuple[int, Path]] = {}
    for file in sorted(folder.glob(f"*{archive.SUFFIX}")):
        if not _NAME.fullmatch(file.stem):
            raise CorruptError("not an archive file's name", place=ascii(file.name), kind="archive_name")
        start, end = int(file.stem.partition("-")[0]), _end_of(file)
        if end > longest.get(start, (0, file))[0]:
            longest[start] = (end, file)
    files, at = [], 0
    while at in longest:
        at, file = longest[at]
        files.append(file)
    if not files:
        raise RefusedError(f"no archive that starts at index 0 in {folder}", code="not_found")
    if beyond := [start for start in longest if start > at]:
        raise CorruptError("archive files are missing", place=f"index {at} to {min(beyond)}", kind="archive_gap")
    return files


def _end_of(file: Path) -> int:
    return int(file.stem.partition("-")[2])


class _Builder:
    """Fills the tables from entries in the order of the log."""

    def __init__(self, connection: apsw.Connection, *, origin: str) -> None:
        self._connection = connection
        self._origin = origin
        self._tree = Tree(Frontier(), [b""] * 8)
        self._parts: dict[tuple[str, bytes], list[Any]] = {}
        self._current: dict[str, bytes] = {}
        self._open: list[RawEntry] = []  # of the append under way
        self.size = 0
        self._uncommitted = 0
        connection.execute("BEGIN IMMEDIATE")

    def take(self, frames: tuple[archive.Frame, ...], *, place: str) -> None:
        """One file's frames; a file without a whole checkpoint has nothing to take."""
        if not frames:
            return
        if archive.decode_head(frames[0], origin=self._origin, place=place) != self.size:
            raise CorruptError(f"does not go on at index {self.size}", place=place, kind="archive_gap")
        for here, item in archive.items(frames, place=place):
            try:
                if isinstance(item, RawEntry):
                    self._entry(item, place=here)
                else:
                    self._checkpoint(*item, place=here)
            except apsw.ConstraintError:
                raise CorruptError(
                    "an append, checkpoint or cosignature stands twice", place=here, kind="duplicate"
                ) from None

    def finish(self) -> None:
        """Write the heads and commit."""
        for (name, incarnation), part in self._parts.items():
            pid, position, leaf, first, last, opener = part
            current = int(self._current[name] == incarnation)
            self._connection.execute(
                "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (pid, name, incarnation, position + 1, leaf, first, last, opener, current),
            )
        self._connection.execute("COMMIT")

    def _entry(self, raw: RawEntry, *, place: str) -> None:
        if raw.index != self.size:
            raise CorruptError(f"index {self.size} expected, got {raw.index}", place=place, kind="gap")
        header = entry.decode_header(raw.header, place=place)
        key = (header.partition, header.incarnation)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = [len(self._parts) + 1, 0, b"", raw.index, raw.index, header.key_id]
            self._current[header.partition] = header.incarnation
        if header.position != part[1] + 1:
            detail = f"position {part[1] + 1} of {header.partition} expected, got {header.position}"
            raise CorruptError(detail, place=place, kind="gap" if header.position > part[1] else "duplicate")
        leaf = entry.leaf_hash(raw.header)
        part[1], part[2], part[4] = header.position, leaf, raw.index
        for tile in self._tree.extend([leaf]):
            self._connection.execute("INSERT INTO tile (level, n, hashes) VALUES (?, ?, ?)", tile)
        self.size += 1
        self._open.append(raw)
        if header.flags & FLAG_LAST:
            self._append(part[0], header, raw.signature)
        elif len(self._open) == EVENTS_PER_APPEND_MAX:
            raise CorruptError("an append has no last entry", place=place, kind="append")

    def _append(self, pid: int, last: Header, signature: bytes) -> None:
        """Write the append that ends with this header; whether it is one, the verification says."""
        entries, self._open = self._open, []
        headers = [raw.header for raw in entries]
        salted = [None if raw.salt is None or raw.payload is None else raw.salt + raw.payload for raw in entries]
        form, body = encode_body(headers, salted, compress=not last.flags & FLAG_ENCRYPTED)
        count = len(entries)
        self._connection.execute(
            "INSERT INTO append (idx, pid, position, n, append_id, sig, form, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (entries[0].index, pid, last.position - count + 1, count, last.append_id, signature, form, body),
        )
        if last.flags & FLAG_CLOSES_FENCE:
            self._connection.execute("INSERT OR IGNORE INTO fence VALUES (?, ?)", (pid, last.fence))

    def _checkpoint(self, text: str, lines: list[str], *, place: str) -> None:
        checkpoint = note.decode_checkpoint(note.parse_note(text, place=place).text, place=place)
        frontier = self._tree.frontier
        if (checkpoint.size, checkpoint.root) != (self.size, frontier.root()):
            raise CorruptError(
                "the entries do not give the checkpoint's root", place=f"checkpoint {checkpoint.size}", kind="root"
            )
        self._connection.execute("INSERT INTO checkpoint VALUES (?, ?, ?)", (self.size, text, b"".join(frontier.nodes)))
        self._connection.executemany("INSERT INTO cosignature VALUES (?, ?)", [(self.size, line) for line in lines])
        if self.size - self._uncommitted >= ENTRIES_PER_TRANSACTION:
            self._connection.execute("COMMIT")
            self._connection.execute("BEGIN IMMEDIATE")
            self._uncommitted = self.size
