"""A JSONL file that is read on where it stood, when it has grown by whole lines and nothing before them changed.

Reading all of a long session again for each of its turns would cost 50 ms a megabyte; the digest that proves its
beginning unchanged costs one. Whatever else became of the file (rewritten, shortened, a last line that was read
although it had no end and now goes on, a line over the bound) is no growth: it is read from its beginning.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, TypeVar

from polyc.limits import LINE_SIZE_BYTES_MAX
from sources.lines import BadLineError, SetAside, set_line_aside, skip_long_line

T = TypeVar("T")

_BLOCK_SIZE_BYTES: Final = 1024 * 1024


class Growing:
    """The lines of a file, as far as they were read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0  # all before it was read, whole lines
        self._digest = hashlib.sha256()
        self._unended = b""  # the last line, when it was read although it has no end
        self._can_go_on = True

    def records(self, decode: Callable[[bytes], T], *, set_aside: SetAside) -> Iterator[tuple[int, T] | None]:
        """As `sources.lines.records`; None where the file ends for now, and then what was appended since."""
        while True:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                yield from self._written(stream, decode, set_aside)
            yield None

    def is_continued(self) -> bool:
        """Whether the file begins with all that was read of it, and goes on with another line if it goes on."""
        if not self._can_go_on:
            return False
        digest, left = hashlib.sha256(), self._offset
        try:
            with self._path.open("rb") as stream:
                while left and (block := stream.read(min(left, _BLOCK_SIZE_BYTES))):
                    digest.update(block)
                    left -= len(block)
                unended = stream.read(len(self._unended) + 1)
        except OSError:
            return False
        goes_on = not self._unended or unended.removesuffix(b"\n") == self._unended
        return digest.digest() == self._digest.digest() and goes_on

    def _written(self, stream: IO[bytes], decode: Callable[[bytes], T], set_aside: SetAside) -> Iterator[tuple[int, T]]:
        while line := stream.readline(LINE_SIZE_BYTES_MAX + 1):
            if len(line) > LINE_SIZE_BYTES_MAX:
                skipped = skip_long_line(stream, line, offset=self._offset)
                set_aside(skipped)
                self._can_go_on = False
                self._offset += skipped.size_bytes
                continue
            if not self._unended and not line.isspace():
                try:
                    value = decode(line)
                except BadLineError as bad:
                    set_aside(set_line_aside(line, bad, offset=self._offset))
                else:
                    self._unended = line.removesuffix(b"\n")
                    if value is not None:
                        yield self._offset, value
            if line.endswith(b"\n"):
                self._unended = b""
                self._digest.update(line)
                self._offset += len(line)
