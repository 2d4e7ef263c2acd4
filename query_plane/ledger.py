"""The edge's own durable list of open queries: which intents still wait for their outcome.

The Query plane cannot read the journal, so it must remember by itself what it promised there. A line is made durable
*before* the intent is appended; the next start closes what a killed process left open as `unknown` (ruling 27).

    edge/id                    this edge's name, made once
    edge/open/<random>.jsonl   one file a living process, locked while it lives:
        {"open": <query id>, "partition": …, "intent": {…}}   before the intent; all of it but the statement's text
        {"sure": <query id>}                                  the journal has the intent
        {"owe": <query id>, "outcome": {…}}                   the outcome is known, the journal was away
        {"close": <query id>}                                 the journal has the outcome

A file whose lock is free belongs to a process that is gone. What cannot be read at its end was never durable and
promised nothing; what cannot be read before that is a promise we no longer know: CorruptError with the file and the
line, and the edge does not start until somebody has looked.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from polyc.durable import create_file, make_private_folder, sync_file, sync_folder
from polyc.errors import CorruptError
from polyc.ids import IdSource

LINES_MAX: Final = 1 << 20  # that are read of one file
LINES_ROTATE: Final = 10_000  # then a process goes on in a new file, with what is open alone; some 3 MB


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a ledger file; exactly one of open, sure, owe and close is set."""

    open: str | None = None
    sure: str | None = None
    owe: str | None = None
    close: str | None = None
    partition: str | None = None
    intent: dict[str, Any] | None = None
    outcome: dict[str, Any] | None = None


class Owed(msgspec.Struct, frozen=True, kw_only=True):
    """A query without a recorded outcome.

    `intent` is None when the journal is known to have it; `outcome` is None when nobody knows it; `place` is the line
    that opened it.
    """

    query_id: str
    partition: str
    intent: dict[str, Any] | None
    outcome: dict[str, Any] | None
    place: str = ""


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Line).decode


class Ledger:
    """The file of this process; one writer thread."""

    def __init__(self, folder: Path, *, ids: IdSource) -> None:
        self._folder = make_private_folder(folder / "open")
        self._ids = ids
        self._pending: dict[str, list[Line]] = {}
        self._lines = 0
        self._path, self._descriptor = self._create()

    def open(self, query_id: str, *, partition: str, intent: dict[str, Any]) -> None:
        """Remember, durably, that an intent is about to be appended."""
        self._append(Line(open=query_id, partition=partition, intent=intent), of=query_id)
        sync_file(self._path)

    def sure(self, query_id: str) -> None:
        """The journal has the intent. Not synced: a lost line only asks the journal again."""
        self._append(Line(sure=query_id), of=query_id)

    def close(self, query_id: str) -> None:
        """Forget it: the outcome is on record. Not synced: a lost line only asks the journal again."""
        self._append(Line(close=query_id), of=query_id)
        self._pending.pop(query_id, None)
        if self._lines >= LINES_ROTATE:
            self._rotate()

    def owe(self, query_id: str, *, outcome: dict[str, Any]) -> None:
        """Remember, durably, an outcome that the journal could not take."""
        self._append(Line(owe=query_id, outcome=outcome), of=query_id)
        sync_file(self._path)

    def release(self) -> None:
        """Leave the file: it goes when nothing in it is open, else the next start finds it unlocked."""
        if not any(True for _ in _owed(self._path)):
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def abandoned(self) -> Iterator[tuple[Path, list[Owed]]]:
        """The files of processes that are gone, with what they left open; delete each when it is dealt with."""
        for path in sorted(self._folder.glob("*.jsonl")):
            if path == self._path:
                continue
            with suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield path, list(_owed(path))
                finally:
                    os.close(descriptor)

    def _create(self) -> tuple[Path, int]:
        path = self._folder / f"{self._ids.token(8).hex()}.jsonl"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sync_folder(self._folder)
        return path, descriptor

    def _append(self, line: Line, *, of: str) -> None:
        os.write(self._descriptor, _encode(line) + b"\n")
        self._pending.setdefault(of, []).append(line)
        self._lines += 1

    def _rotate(self) -> None:
        """Go on in a new file that holds what is open; the old one goes when the new one is durable."""
        old_path, old_descriptor = self._path, self._descriptor
        self._path, self._descriptor = self._create()
        lines = [line for lines in self._pending.values() for line in lines]
        os.write(self._descriptor, b"".join(_encode(line) + b"\n" for line in lines))
        self._lines = len(lines)
        sync_file(self._path)
        old_path.unlink()
        os.close(old_descriptor)


def edge_id(folder: Path, *, ids: IdSource) -> str:
    """This edge's name in its audit partitions: made once, kept in `edge/id`."""
    make_private_folder(folder)
    path = folder / "id"
    if not path.exists():
        create_file(path, f"e{ids.token(4).hex()}\n".encode(), mode=0o600)
    return path.read_text(encoding="ascii").strip()


def unreadable(place: str) -> CorruptError:
    """The fault of a line that says nothing we know."""
    hint = (
        "look at that file in the data root, then move it out of edge/open and start again; the queries it lists stay "
        "without an outcome. Whether the journal itself is whole: polyc fsck"
    )
    return CorruptError("not a line of the list of open queries", place=place, kind="ledger", hint=hint)


def _owed(path: Path) -> Iterator[Owed]:
    """What a file leaves open; CorruptError for a line that cannot be read, with others after it."""
    pending: dict[str, Owed] = {}
    torn: str | None = None
    for number, text in enumerate(path.read_bytes().split(b"\n")[:LINES_MAX], start=1):
        place = f"edge/open/{path.name}:{number}"
        line = _line(text)
        if line is None:
            torn = torn or (place if text else None)
        elif torn is not None:
            raise unreadable(torn)
        else:
            _take(pending, line, place=place)
    yield from pending.values()


def _line(text: bytes) -> Line | None:
    try:
        line = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    says = (line.open if line.partition is not None else None, line.sure, line.owe, line.close)
    return None if says == (None, None, None, None) else line


def _take(pending: dict[str, Owed], line: Line, *, place: str) -> None:
    if line.open is not None and line.partition is not None:
        owed = Owed(query_id=line.open, partition=line.partition, intent=line.intent, outcome=None, place=place)
        pending[line.open] = owed
    elif line.close is not None:
        pending.pop(line.close, None)
    elif line.sure in pending:
        pending[line.sure] = msgspec.structs.replace(pending[line.sure], intent=None)
    elif line.owe in pending:
        pending[line.owe] = msgspec.structs.replace(pending[line.owe], outcome=line.outcome)
