"""Runs one bound statement and sends its rows within the limits (query-plane.md, step 9).

The original text becomes a relation; only a projection by position is put around it, and only where Arrow cannot carry
a type exactly (UHUGEINT gives -1, TIMETZ loses its offset, INTERVAL its months, VARIANT and BIGNUM are opaque): such
columns become text. Names are the statement's own, duplicates included.

Limits are counted here, where the rows are consumed: one row more than the limit is looked at, and the byte limit
cuts on a row border. Batches are cut by bytes.
"""

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import pyarrow as pa

from polyc.limits import BATCH_ROWS_MAX, BATCH_SIZE_BYTES_TARGET
from query_plane.cells import json_rows
from query_plane.wire import Finished, Rows, Started, Want

ROW_LIMIT: Final = "row_limit"
BYTE_LIMIT: Final = "byte_limit"

# Types that Arrow does not carry exactly; the engine's own text does. Quoted field names are not types.
_INEXACT: Final = re.compile(
    r"UHUGEINT|TIME WITH TIME ZONE|INTERVAL|\bBIT\b|VARIANT|BIGNUM|UNION\(|GEOMETRY|AGGREGATE_STATE|\bLAMBDA\b"
)
_QUOTED: Final = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of an answer is sent."""

    row_limit: int
    byte_limit: int


class Answer:
    """A bound statement: its columns now, its rows as a stream."""

    def __init__(self, relation: Any, *, want: Want) -> None:
        self.names: list[str] = list(relation.columns)
        self.types: list[str] = [str(type_) for type_ in relation.types]
        inexact = [is_inexact(type_) for type_ in self.types]
        if any(inexact):
            relation = relation.project(
                ", ".join(f"CAST(#{i} AS VARCHAR)" if text else f"#{i}" for i, text in enumerate(inexact, start=1))
            )
        self._reader = relation.to_arrow_reader(BATCH_ROWS_MAX)
        fields = [field.with_name(name) for field, name in zip(self._reader.schema, self.names, strict=True)]
        self.schema = pa.schema(fields)
        self._encoder = _JsonEncoder(self.types) if want == "json" else _ArrowEncoder(self.schema)

    def send(
        self, limits: Limits, *, trailer: dict[str, str], send: Callable[[Started | Rows | Finished], None]
    ) -> None:
        """Send schema, rows and end."""
        send(Started(columns=list(zip(self.names, self.types, strict=True)), arrow=self._encoder.start()))
        reason = ""
        rows_left, bytes_left = limits.row_limit, limits.byte_limit
        for batch in self._batches():
            piece = batch.slice(0, rows_left)
            fitting = rows_within(piece, bytes_left)
            if fitting < piece.num_rows:
                piece, reason = piece.slice(0, fitting), BYTE_LIMIT
            elif batch.num_rows > rows_left:
                reason = ROW_LIMIT
            if piece.num_rows:
                size_bytes = piece.nbytes
                send(Rows(count=piece.num_rows, size_bytes=size_bytes, body=self._encoder.rows(piece)))
                rows_left -= piece.num_rows
                bytes_left -= size_bytes
            if reason:
                break
        counts = {
            "row_count": str(limits.row_limit - rows_left),
            "truncated": str(bool(reason)).lower(),
            "reason": reason,
        }
        send(Finished(truncated=bool(reason), reason=reason, arrow=self._encoder.finish(trailer | counts)))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The engine's batches under the statement's names, cut by bytes."""
        for batch in self._reader:
            named = pa.RecordBatch.from_arrays(batch.columns, schema=self.schema) if batch.num_columns else batch
            step = max(1, named.num_rows * BATCH_SIZE_BYTES_TARGET // max(1, named.nbytes))
            for start in range(0, named.num_rows, step):
                yield named.slice(start, step)


def is_inexact(type_name: str) -> bool:
    """Whether a column of this type is sent as the engine's text.

    >>> is_inexact("STRUCT(a UHUGEINT)"), is_inexact("MAP(INTEGER[], INTEGER)"), is_inexact("ENUM('INTERVAL')")
    (True, False, False)
    """
    return _INEXACT.search(_QUOTED.sub("", type_name)) is not None


def rows_within(batch: pa.RecordBatch, size_bytes: int) -> int:
    """How many of the first rows fit in this many bytes."""
    if batch.nbytes <= size_bytes:
        return cast("int", batch.num_rows)
    low, high = 0, batch.num_rows
    while low < high:
        middle = (low + high + 1) // 2
        if batch.slice(0, middle).nbytes <= size_bytes:
            low = middle
        else:
            high = middle - 1
    return low


class _JsonEncoder:
    """Rows as the JSON text of lists; rendered once, spliced into every JSON transport."""

    def __init__(self, types: list[str]) -> None:
        self._types = ["" if is_inexact(type_) else type_ for type_ in types]

    def start(self) -> bytes:
        return b""

    def rows(self, batch: pa.RecordBatch) -> bytes:
        return json_rows(batch, self._types)

    def finish(self, _trailer: dict[str, str]) -> bytes:
        return b""


class _ArrowEncoder:
    """The bytes of one Arrow IPC stream, piece by piece, compressed inside with zstd.

    Its last batch has no rows and carries the trailer as its metadata, so that a bare stream tells whether it was
    truncated; readers that do not look for it see no difference.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = io.BytesIO()
        self._schema = schema
        options = pa.ipc.IpcWriteOptions(compression="zstd", emit_dictionary_deltas=False)
        self._writer = pa.ipc.new_stream(self._sink, schema, options=options)

    def start(self) -> bytes:
        return self._drain()

    def rows(self, batch: pa.RecordBatch) -> bytes:
        self._writer.write_batch(batch)
        return self._drain()

    def finish(self, trailer: dict[str, str]) -> bytes:
        columns = [pa.array([], field.type) for field in self._schema]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema), custom_metadata=trailer)
        self._writer.close()
        return self._drain()

    def _drain(self) -> bytes:
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data
