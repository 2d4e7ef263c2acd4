"""What a statement is answered with: the frames of the stream, and the whole answer as values.

    schema | batch* | trailer          a stream without its trailer is an incomplete answer

Frames carry either JSON text (rendered once, spliced into every JSON transport) or Arrow IPC bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from polyc.errors import UnavailableError


class IncompleteAnswerError(UnavailableError):
    """The stream ended without its trailer: what came is not the answer."""

    def __init__(self) -> None:
        super().__init__("the answer is incomplete: its stream ended early", hint="send the statement again")


class Column(msgspec.Struct, frozen=True):
    """A column of an answer; `type` is the engine's name of it."""

    name: str
    type: str


class Trailer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a complete answer. Its JSON names are these; `row_count` and `truncated` are always there."""

    query_id: str
    row_count: int
    truncated: bool
    reason: str = ""
    generations: tuple[str, ...] = ()
    as_of: str = ""
    frontier: str = ""
    elapsed_ms: int = 0

    @property
    def generation(self) -> str:
        """The generation the rows came from; empty when no table was read."""
        return self.generations[0] if self.generations else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFrame:
    """The first frame of every answer."""

    columns: tuple[Column, ...]
    arrow: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFrame:
    """The next rows; `body` is the JSON text of a list of lists, or Arrow bytes."""

    count: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailerFrame:
    """The last frame of a complete answer."""

    trailer: Trailer
    arrow: bytes = b""


Frame = SchemaFrame | BatchFrame | TrailerFrame

_encode = msgspec.json.Encoder().encode


class _Schema(msgspec.Struct):
    columns: Sequence[Column]


def json_text(frame: Frame) -> bytes:
    r"""The proto3 JSON of a frame that carries JSON rows, on one line.

    >>> json_text(BatchFrame(count=1, body=b"[[1]]"))
    b'{"batch":{"rows":[[1]]}}'
    """
    match frame:
        case SchemaFrame():
            return one_line(b'{"schema":' + _encode(_Schema(frame.columns)) + b"}")
        case BatchFrame():
            return one_line(b'{"batch":{"rows":' + frame.body + b"}}")
        case TrailerFrame():
            return b'{"trailer":' + _encode(frame.trailer) + b"}"


def one_line(text: bytes) -> bytes:
    r"""JSON without the three characters that line readers of many languages split at (A14).

    >>> one_line('"a\u2028b"'.encode())
    b'"a\\u2028b"'
    """
    return (
        text.replace(b"\xe2\x80\xa8", rb"\u2028").replace(b"\xe2\x80\xa9", rb"\u2029").replace(b"\xc2\x85", rb"\u0085")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer."""

    columns: tuple[Column, ...]
    rows: list[list[Any]]
    trailer: Trailer
    arrow_stream: bytes = field(default=b"", repr=False)

    def arrow(self) -> Any:
        """The pyarrow.Table of an answer that was asked for as Arrow."""
        import pyarrow as pa  # noqa: PLC0415 clients that want rows need no Arrow

        return pa.ipc.open_stream(self.arrow_stream).read_all()


def gather(frames: Sequence[Frame], *, want: Literal["json", "arrow"]) -> Answer:
    """The answer of all frames; IncompleteAnswerError when the trailer is missing."""
    if not frames or not isinstance(frames[0], SchemaFrame) or not isinstance(frames[-1], TrailerFrame):
        raise IncompleteAnswerError
    batches = [frame for frame in frames if isinstance(frame, BatchFrame)]
    rows: list[list[Any]] = []
    stream = b""
    if want == "json":
        for batch in batches:
            rows += msgspec.json.decode(batch.body, type=list[list[Any]])
    else:
        stream = b"".join([frames[0].arrow, *(batch.body for batch in batches), frames[-1].arrow])
    return Answer(columns=frames[0].columns, rows=rows, trailer=frames[-1].trailer, arrow_stream=stream)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnInfo:
    """A column of the catalog."""

    name: str
    type: str
    description: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """A table or view of the catalog."""

    name: str
    realm: str
    kind: str
    columns: tuple[ColumnInfo, ...] = ()
    description: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """What a grant may name."""

    realm: str
    tables: tuple[TableInfo, ...] = ()
    functions: tuple[str, ...] = ()
