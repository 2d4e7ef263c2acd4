r"""Large JSON documents piece by piece: the elements of a top-level array, or the one top-level object.

An export of years is one array of gigabytes; here never more than one element is held. Where elements begin and end
is found by their brackets outside of strings; what an element says is decoded by whoever asked for it. The offset of
each is its place in the (uncompressed) document.
"""

import re
from collections.abc import Iterator
from typing import IO, Final

from polyc.limits import LINE_SIZE_BYTES_MAX

CHUNK_SIZE_BYTES: Final = 1024 * 1024
_TOKEN: Final = re.compile(rb'[\[\]{}"]')
_STRING_END: Final = re.compile(rb'(?:[^"\\]|\\.)*"', re.DOTALL)


class ElementError(Exception):
    """An element cannot be given; `reason` is a code, never content."""

    def __init__(self, reason: str, *, offset: int, size_bytes: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset
        self.size_bytes = size_bytes


def elements(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each object in a top-level array (or of the one top-level object).

    `ElementError` ends the reading: the last element has no end (`cut_short`), or one is over the bound
    (`line_too_long`) and nothing beyond it can be told apart.
    """
    splitter = _Splitter()
    while chunk := stream.read(CHUNK_SIZE_BYTES):
        yield from splitter.feed(chunk)
    splitter.finish()


class _Splitter:
    def __init__(self) -> None:
        self._buffer = b""
        self._base = 0  # the document's offset of the buffer's first byte
        self._place = 0  # where in the buffer the search goes on
        self._depth = 0
        self._begin = -1  # where in the buffer the element began
        self._top = 0  # depth at which elements begin: 1 in an array, 0 for a single object

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        self._buffer += chunk
        while True:
            found = _TOKEN.search(self._buffer, self._place)
            if found is None:
                self._place = len(self._buffer)
                break
            token = found[0]
            if token == b'"':
                end = _STRING_END.match(self._buffer, found.end())
                if end is None:
                    self._place = found.start()
                    break
                self._place = end.end()
                continue
            self._place = found.end()
            if token in b"[{":
                if self._depth == 0 and token == b"[":
                    self._top = 1
                if self._depth == self._top and token == b"{":
                    self._begin = found.start()
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == self._top and self._begin >= 0 and token == b"}":
                    yield self._base + self._begin, self._buffer[self._begin : self._place]
                    self._begin = -1
        self._drop()

    def _drop(self) -> None:
        """Forget what belongs to no open element."""
        keep = self._begin if self._begin >= 0 else self._place
        if len(self._buffer) - keep > LINE_SIZE_BYTES_MAX:
            raise ElementError("line_too_long", offset=self._base + keep, size_bytes=len(self._buffer) - keep)
        self._buffer = self._buffer[keep:]
        self._base += keep
        self._place -= keep
        self._begin = min(0, self._begin)

    def finish(self) -> None:
        """The document ends here."""
        if self._begin >= 0:
            begin = self._base + self._begin
            raise ElementError("cut_short", offset=begin, size_bytes=len(self._buffer) - self._begin)
