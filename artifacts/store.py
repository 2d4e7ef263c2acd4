"""Where artifacts lie: a small protocol and its local-directory form (artifacts.md, "Layout").

Names are relative, with `/`. Everything but `CURRENT` is created once and never changed; the exclusive creation of
a manifest is the only commit there is. An object store needs the same seven verbs (`If-None-Match: *` for `create`).
"""

import errno
import filecmp
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import msgspec

from polyc import durable
from polyc.ids import IdSource, SystemIds

TRASH_PREFIX: Final = ".trash-"
STAGE_PREFIX: Final = ".stage-"


class Entry(msgspec.Struct, frozen=True):
    """A stored object: its name, size and when it was made (wall time, for the collector's grace only)."""

    name: str
    size_bytes: int
    modified_us: int


class Store(Protocol):
    """The store as writers and readers of artifacts see it."""

    def create(self, name: str, content: bytes) -> bool:
        """Make the object durable under the name; False, and no change, when the name is taken."""

    def hint(self, name: str, content: bytes) -> None:
        """Replace a hint: the only object that may change; nothing may rest on it."""

    def read(self, name: str) -> bytes:
        """The whole object; FileNotFoundError when there is none."""

    def read_range(self, name: str, offset: int, size_bytes: int) -> bytes:
        """A part of an object; FileNotFoundError when there is none."""

    def exists(self, name: str) -> bool:
        """Whether the object (or pack folder) is there."""

    def list(self, prefix: str) -> list[Entry]:
        """All objects under a prefix that ends in `/`, by name."""

    def delete(self, name: str) -> None:
        """Remove an object, or a pack with all its files at once; FileNotFoundError when there is none."""

    @contextmanager
    def stage(self) -> Iterator[Path]:
        """A local folder to build a pack in; whatever is left in it is removed."""

    def publish(self, staged: Path, name: str) -> bool:
        """Make a staged folder durable under the name; False when the same pack is there whole already."""

    def local(self, name: str) -> Path | None:
        """The object's path when engines of this machine can read it in place."""


class DirectoryStore:
    """Artifacts in a folder of the local file system."""

    def __init__(self, path: Path, *, ids: IdSource | None = None) -> None:
        self.path = path.absolute()
        self._ids = ids or SystemIds()
        for name in ("packs", "base", "gen", "leases", "search", "semantic"):
            (self.path / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    def create(self, name: str, content: bytes) -> bool:
        """Write, sync, link, sync the folder; `link` fails when the name is taken."""
        return durable.create_file(self._path(name), content, mode=0o600)

    def hint(self, name: str, content: bytes) -> None:
        """Replace without syncing: a lost hint costs a listing."""
        target = self._path(name)
        temporary = target.with_name(f".{target.name}.{self._ids.token(6).hex()}.tmp")
        temporary.write_bytes(content)
        temporary.rename(target)

    def read(self, name: str) -> bytes:
        """The file's bytes."""
        return self._path(name).read_bytes()

    def read_range(self, name: str, offset: int, size_bytes: int) -> bytes:
        """`size_bytes` from `offset`."""
        with self._path(name).open("rb") as file:
            file.seek(offset)
            return file.read(size_bytes)

    def exists(self, name: str) -> bool:
        """Whether the file or folder is there."""
        return self._path(name).exists()

    def list(self, prefix: str) -> list[Entry]:
        """Files under the folder; half-made and half-removed things (dot names) are not objects."""
        root = self._path(prefix.rstrip("/"))
        found = []
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for file in files:
                if not file.startswith("."):
                    path = Path(folder) / file
                    try:
                        status = path.stat()
                    except FileNotFoundError:  # the collector was faster
                        continue
                    name = path.relative_to(self.path).as_posix()
                    found.append(Entry(name, status.st_size, status.st_mtime_ns // 1000))
        return sorted(found, key=lambda entry: entry.name)

    def delete(self, name: str) -> None:
        """Unlink a file; a folder is first renamed out of sight, so that no half of it is ever seen."""
        path = self._path(name)
        if path.is_dir():
            trash = path.with_name(f"{TRASH_PREFIX}{self._ids.token(8).hex()}")
            path.rename(trash)
            shutil.rmtree(trash)
        else:
            path.unlink()

    def sweep(self, *, older_than_us: int) -> int:
        """Remove what crashes left half made or half removed before that time; returns how many."""
        count = 0
        for folder in (self.path, *self.path.iterdir()):
            for path in folder.glob(".*") if folder.is_dir() else ():
                if path.stat().st_mtime_ns // 1000 < older_than_us:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                    count += 1
        return count

    @contextmanager
    def stage(self) -> Iterator[Path]:
        """A folder on the same file system, so that publishing is a rename."""
        folder = self.path / "packs" / f"{STAGE_PREFIX}{self._ids.token(8).hex()}"
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, staged: Path, name: str) -> bool:
        """Sync and rename; a damaged pack of that name (any other byte) gives way to the whole one."""
        target = self._path(name)
        if durable.create_folder(staged, target):
            return True
        if _is_whole(target, staged):
            return False
        self.delete(name)
        if not durable.create_folder(staged, target):
            raise OSError(errno.EEXIST, "pack was made twice at once", name)
        return True

    def local(self, name: str) -> Path:
        """The file itself."""
        return self._path(name)

    def _path(self, name: str) -> Path:
        assert not name.startswith("/"), "names are relative"
        assert ".." not in name, "names stay inside the store"
        return self.path / name


def _is_whole(found: Path, whole: Path) -> bool:
    """Whether two folders hold the same files, byte for byte."""
    names = sorted(path.name for path in whole.iterdir())
    if sorted(path.name for path in found.iterdir()) != names:
        return False
    return not any(filecmp.cmpfiles(found, whole, names, shallow=False)[1:])
