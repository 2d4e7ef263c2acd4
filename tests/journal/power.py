"""A disk that forgets: a SQLite VFS that writes down every write and every sync, and can show what a power loss at any
moment may leave: all that was synced, and of the rest any sectors, in any order, whole or not at all.

It can also refuse: a full disk, an I/O error in a write or in a sync.
"""

import random
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable

SECTOR = 512


class Op(NamedTuple):
    """What happened to a file: a write at an offset, a truncation to a size, a sync, or its deletion."""

    kind: str
    file: str
    offset: int = 0
    data: bytes = b""


class ForgetfulDisk(apsw.VFS):
    """Register it by making it; use it by `vfs=disk.name`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log: list[Op] = []
        self.refuse: Callable[[Op], Exception | None] = lambda _op: None
        super().__init__(name, "")

    def xOpen(self, name, flags):
        return _File(self, name, flags)

    def xDelete(self, filename, syncdir):
        self.take(Op("delete", Path(filename).name))
        super().xDelete(filename, syncdir)

    def take(self, op: Op) -> None:
        error = self.refuse(op)
        if error is not None:
            raise error
        self.log.append(op)

    def leave(self, folder: Path, *, at: int, chance: random.Random, keep: float) -> None:
        """Write into `folder` what a power loss after the first `at` operations may have left."""
        folder.mkdir(parents=True)
        files: dict[str, bytearray] = {}
        history = self.log[:at]
        synced = {op.file: i for i, op in enumerate(history) if op.kind == "sync"}
        for i, op in enumerate(history):
            image = files.setdefault(op.file, bytearray())
            certain = i < synced.get(op.file, -1)
            if op.kind == "delete":
                del files[op.file]
            elif op.kind == "truncate" and (certain or chance.random() < keep):
                del image[op.offset :]
            elif op.kind == "write":
                for start in range(0, len(op.data), SECTOR):
                    if certain or chance.random() < keep:
                        _put(image, op.offset + start, op.data[start : start + SECTOR])
        for file, image in files.items():
            (folder / file).write_bytes(image)


class _File(apsw.VFSFile):
    def __init__(self, disk: ForgetfulDisk, name, flags) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk = disk
        self._file = Path(path or "temporary").name
        super().__init__("", name, flags)

    def xWrite(self, data, offset):
        self._disk.take(Op("write", self._file, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size):
        self._disk.take(Op("truncate", self._file, size))
        super().xTruncate(size)

    def xSync(self, flags):
        self._disk.take(Op("sync", self._file))
        super().xSync(flags)


def _put(image: bytearray, offset: int, data: bytes) -> None:
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data
