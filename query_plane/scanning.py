"""Admitted rows that are too many to hand over at once: read again for every scan of the statement (artifacts.md).

The reading side of a *door* (one end of a socket pair) lies in the sealed worker. For each scan it makes a pipe and
sends the pipe's writing end through the door; the trusted side answers with the rows as an Arrow IPC stream, counted
against the index while it reads, so that a LIMIT that stops early costs what it read and a self join scans twice.

A stream that ends without the row count in its last, empty batch is no whole scan: the worker raises, and the query
fails. So neither a difference from the index nor a killed admitter can pass for a shorter table.
"""

import fcntl
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, Protocol

import pyarrow as pa

from polyc.errors import CorruptError
from polyc.limits import BATCH_SIZE_BYTES_TARGET, SCANS_AT_ONCE_MAX

_SCAN: Final = b"S"
_COUNT: Final = b"rows"
_PIPE_SIZE_BYTES: Final = 1 << 20  # the largest an unprivileged process may ask for; fewer wake-ups a megabyte


class Source(Protocol):
    """What can be read as often as somebody asks: `artifacts.admit.Admission`."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of each batch."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows; the last step raises when they are not the index's."""
        ...


class Doors:
    """The trusted side: serves the scans of one statement's sources until it is closed."""

    def __init__(self) -> None:
        self._ours: list[socket.socket] = []
        self._places = threading.BoundedSemaphore(SCANS_AT_ONCE_MAX)

    def open(self, source: Source) -> int:
        """The descriptor of a new door to this source, for the worker; the caller closes it."""
        ours, theirs = socket.socketpair()
        self._ours.append(ours)
        threading.Thread(target=self._serve, args=(ours, source), name="door", daemon=True).start()
        return theirs.detach()

    def close(self) -> None:
        """Serve no more scans; running ones end when their worker does."""
        while self._ours:
            with suppress(OSError):
                self._ours.pop().shutdown(socket.SHUT_RDWR)

    def _serve(self, door: socket.socket, source: Source) -> None:
        with door:
            while True:
                try:
                    asked, descriptors, _flags, _address = socket.recv_fds(door, 1, 1)
                except OSError:
                    return
                if asked != _SCAN or len(descriptors) != 1:
                    return
                if not self._places.acquire(blocking=False):
                    os.close(descriptors[0])  # more scans at once than a statement needs: it fails
                    continue
                write = _writer_of(source, descriptors[0], done=self._places.release)
                threading.Thread(target=write, name="scan", daemon=True).start()


class Scanned:
    """The worker's side of a door: an object the engine can scan as often as it likes."""

    def __init__(self, door: int, schema: pa.Schema) -> None:
        self._door = socket.socket(fileno=door)
        self._schema = schema
        self.is_broken = False  # a scan began and did not come to its end, by the other side's doing

    def close(self) -> None:
        """Let go of the door."""
        self._door.close()

    def __arrow_c_schema__(self) -> Any:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A new scan; nothing is read before the first batch is asked for."""
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._scan()
        except (OSError, pa.ArrowInvalid, CorruptError):
            self.is_broken = True
            raise

    def _scan(self) -> Iterator[pa.RecordBatch]:
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as pipe:
            try:
                fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, _PIPE_SIZE_BYTES)
                socket.send_fds(self._door, [_SCAN], [writing])
            finally:
                os.close(writing)
            count = 0
            with pa.ipc.open_stream(pipe) as stream:
                for item in stream.iter_batches_with_custom_metadata():
                    told = dict(item.custom_metadata or {}).get(_COUNT)
                    if told is not None and int(told) == count:
                        return
                    count += item.batch.num_rows
                    yield item.batch
        raise CorruptError("a scan of the admitted rows ended early", place="admission", kind="scan")


def _writer_of(source: Source, descriptor: int, *, done: Callable[[], object]) -> Callable[[], None]:
    def write() -> None:
        # Whatever goes wrong here leaves the stream without its count, and the reader says so.
        with suppress(Exception):
            try:
                _write(source, descriptor)
            finally:
                done()

    return write


def _write(source: Source, descriptor: int) -> None:
    with os.fdopen(descriptor, "wb") as pipe, pa.ipc.new_stream(pipe, source.schema) as stream:
        count = 0
        for batch in source.batches():
            step = max(1, batch.num_rows * BATCH_SIZE_BYTES_TARGET // max(1, batch.nbytes))
            for start in range(0, batch.num_rows, step):
                stream.write_batch(batch.slice(start, step))
            count += batch.num_rows
        empty = pa.RecordBatch.from_pylist([], schema=source.schema)
        stream.write_batch(empty, custom_metadata={_COUNT.decode(): str(count)})
