"""A store whose n-th write fails: lost (nothing happened) or kept (it happened, and was reported failed).

The two ways a crash or a broken connection can end a write; sunlight's fault table is the model.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from artifacts.store import Entry, Store


class WriteFailedError(OSError):
    """The write that was made to fail."""


class FaultyStore:
    def __init__(self, inner: Store, *, fail_at: int, kept: bool) -> None:
        self.inner = inner
        self.writes = 0
        self.failed = ""
        self._fail_at = fail_at
        self._kept = kept

    def _write(self, what: str, act):
        self.writes += 1
        if self.writes != self._fail_at:
            return act()
        self.failed = what
        if self._kept:
            act()
        raise WriteFailedError(5, f"{what} was made to fail")

    def create(self, name: str, content: bytes) -> bool:
        return self._write(f"create {name}", lambda: self.inner.create(name, content))

    def hint(self, name: str, content: bytes) -> None:
        self._write("hint", lambda: self.inner.hint(name, content))

    def delete(self, name: str) -> None:
        self._write(f"delete {name}", lambda: self.inner.delete(name))

    def publish(self, staged: Path, name: str) -> bool:
        return self._write(f"publish {name}", lambda: self.inner.publish(staged, name))

    def read(self, name: str) -> bytes:
        return self.inner.read(name)

    def read_range(self, name: str, offset: int, size_bytes: int) -> bytes:
        return self.inner.read_range(name, offset, size_bytes)

    def exists(self, name: str) -> bool:
        return self.inner.exists(name)

    def list(self, prefix: str) -> list[Entry]:
        return self.inner.list(prefix)

    @contextmanager
    def stage(self) -> Iterator[Path]:
        with self.inner.stage() as folder:
            yield folder

    def local(self, name: str) -> Path | None:
        return self.inner.local(name)
