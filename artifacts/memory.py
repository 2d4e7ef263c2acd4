"""An artifact store in memory that complains when misused: tests, and the contract's second implementation.

Hints aside, it refuses by AssertionError whatever a real store would let pass and later rue: a second content under
an immutable name, deleting what is not there, names that leave the store.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from artifacts.layout import CURRENT
from artifacts.store import Entry
from polyc.clock import Clock


class MemoryStore:
    """Objects in a dict; packs are objects that share a prefix."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._objects: dict[str, tuple[bytes, int]] = {}

    def create(self, name: str, content: bytes) -> bool:
        """Exclusive creation."""
        self._check(name)
        assert name != CURRENT, "CURRENT is a hint, not an object"
        made = (content, self._clock.now_us())
        return self._objects.setdefault(name, made) is made

    def hint(self, name: str, content: bytes) -> None:
        """Replace the hint."""
        assert name == CURRENT, "only CURRENT may change"
        self._objects[name] = (content, self._clock.now_us())

    def read(self, name: str) -> bytes:
        """The object's bytes."""
        return self._get(name)

    def read_range(self, name: str, offset: int, size_bytes: int) -> bytes:
        """A part of the object."""
        return self._get(name)[offset : offset + size_bytes]

    def exists(self, name: str) -> bool:
        """Whether an object, or one under this folder, is there."""
        return name in self._objects or any(other.startswith(f"{name}/") for other in self._objects)

    def list(self, prefix: str) -> list[Entry]:
        """All objects under the prefix."""
        assert prefix.endswith("/"), "prefixes are folders"
        return [
            Entry(name, len(content), made_us)
            for name, (content, made_us) in sorted(self._objects.items())
            if name.startswith(prefix)
        ]

    def delete(self, name: str) -> None:
        """Remove the object, or every object of the folder."""
        victims = [other for other in self._objects if other == name or other.startswith(f"{name}/")]
        if not victims:
            raise FileNotFoundError(name)
        for victim in victims:
            del self._objects[victim]

    @contextmanager
    def stage(self) -> Iterator[Path]:
        """A temporary folder."""
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)

    def publish(self, staged: Path, name: str) -> bool:
        """Take the folder's files in."""
        self._check(name)
        files = {f"{name}/{file.name}": file.read_bytes() for file in sorted(staged.iterdir())}
        found = {other: self._objects[other][0] for other in self._objects if other.startswith(f"{name}/")}
        if found == files:
            return False
        for other, content in found.items():
            assert files.get(other) in (content, None) or len(content) != len(files[other]), "a pack never changes"
            del self._objects[other]
        for other, content in files.items():
            self._objects[other] = (content, self._clock.now_us())
        return True

    def local(self, name: str) -> None:
        """No path: readers copy into their cache."""
        self._check(name)

    def _get(self, name: str) -> bytes:
        self._check(name)
        if name not in self._objects:
            raise FileNotFoundError(name)
        return self._objects[name][0]

    def _check(self, name: str) -> None:
        assert not name.startswith("/"), "names are relative"
        assert ".." not in name, "names stay inside the store"
