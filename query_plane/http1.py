"""HTTP/1.1 for the Query edge: uvicorn's protocol over llhttp, with the bounds that a parser in C leaves to others.

llhttp takes a request apart in a third of the time that a parser in Python does: a third of a millisecond of every
answer. But it collects a header for as long as one comes, and uvicorn queues pipelined requests as fast as they are
read. So here, for each connection:

1. What a request says beside its body (target, headers, trailers) is at most `HEAD_SIZE_BYTES_MAX`.
2. Nothing, be it a header, a chunk's size or a blank, goes on for longer than that without coming to its end.
3. At most `PIPELINED_MAX` requests wait for the answer of the one before them.

Who goes beyond is answered 400 and the connection is closed; in the middle of an answer it is closed without a word.
"""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from polyc.limits import HEAD_SIZE_BYTES_MAX, PIPELINED_MAX


class TooMuchError(Exception):
    """A bound was met; llhttp stops and uvicorn answers 400."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection to the edge."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_size = 0  # of the request that is being read
        self._unended_size = 0  # read since the last thing came to its end

    def data_received(self, data: bytes) -> None:
        """Take what was read."""
        self._unended_size += len(data)
        super().data_received(data)
        if self._unended_size > HEAD_SIZE_BYTES_MAX and not self.transport.is_closing():  # 2
            self.send_400_response("Too much of one thing.")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head_size = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._count(name, value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The request runs, or waits for its turn."""
        self._unended_size = 0
        if len(self.pipeline) >= PIPELINED_MAX:  # 3
            raise TooMuchError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body, which its reader bounds (`plain.read_body`)."""
        self._unended_size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request was read."""
        self._unended_size = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what was read; a text in the middle of another answer would be taken for a part of it."""
        if self.cycle is None or self.cycle.response_complete:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _count(self, *pieces: bytes) -> None:
        self._unended_size = 0
        self._head_size += sum(map(len, pieces))
        if self._head_size > HEAD_SIZE_BYTES_MAX:  # 1
            raise TooMuchError
