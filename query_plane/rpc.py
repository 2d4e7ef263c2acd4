"""The door for generated clients: Connect, gRPC-Web and their JSON, by the one service implementation.

Binary clients get Arrow bytes; JSON clients get rows that were rendered once, in the worker, and are spliced into the
frame's text here: no protobuf value is ever made of a cell.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final, Literal

from connectrpc.code import Code
from connectrpc.codec import Codec, proto_binary_codec, proto_json_codec
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext
from protobuf import Oneof

from polyc import strict_json
from polyc.errors import PolycError
from polychrome.query.v1 import query_pb as pb
from polychrome.query.v1.query_connect import QueryService
from query_plane.answer import BatchFrame, Catalog, Frame, SchemaFrame, TrailerFrame, json_text
from query_plane.core import QueryCore, Request
from query_plane.requests import from_message


class Spliced:
    """A frame that is JSON text already."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text


class SplicingCodec:
    """proto3 JSON, with frames passed through as the text they are."""

    def __init__(self) -> None:
        self._json = proto_json_codec()

    def name(self) -> str:
        """The codec's name in content types."""
        return self._json.name()

    def encode(self, message: Any) -> bytes:
        """The JSON of a message."""
        return message.text if isinstance(message, Spliced) else bytes(self._json.encode(message))

    def decode(self, data: bytes | bytearray, message_class: Any) -> Any:
        """The message of a JSON text; ValueError, also for one that has a member twice."""
        strict_json.decode(bytes(data))
        return self._json.decode(data, message_class)


CODECS: Final[tuple[Codec[Any, Any], ...]] = (proto_binary_codec(), SplicingCodec())


class Service(QueryService):
    """`polychrome.query.v1.QueryService` over the core."""

    def __init__(self, core: QueryCore) -> None:
        self._core = core

    async def execute(
        self, request: pb.ExecuteRequest, ctx: RequestContext[Any, Any]
    ) -> AsyncIterator[pb.ExecuteResponse]:
        """Stream the frames of one answer."""
        pairs = header_pairs(ctx)
        by_name = dict(pairs)
        as_json = b"json" in by_name.get(b"content-type", b"")

        async def read() -> Request:
            return from_message(request, headers=by_name, want="json" if as_json else "arrow")

        try:
            async with aclosing(self._core.execute(pairs, read)) as frames:
                async for frame in frames:
                    yield Spliced(json_text(frame)) if as_json else message_of(frame)  # type: ignore[misc] # the codec's
        except PolycError as error:
            raise connect_error(error) from None

    async def describe_catalog(
        self, _request: pb.DescribeCatalogRequest, ctx: RequestContext[Any, Any]
    ) -> pb.DescribeCatalogResponse:
        """Tell what the grant may name."""
        try:
            return catalog_message(self._core.catalog(header_pairs(ctx)))
        except PolycError as error:
            raise connect_error(error) from None


def header_pairs(ctx: RequestContext[Any, Any]) -> list[tuple[bytes, bytes]]:
    """The raw header pairs, repeated ones included."""
    return [
        (name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in ctx.request_headers.allitems()
    ]


def connect_error(error: PolycError) -> ConnectError:
    """The error as Connect and gRPC carry it; the hint rides in the details."""
    details = [pb.ErrorHint(hint=error.hint)] if error.hint else []
    return ConnectError(Code(error.code), error.message, details)


def message_of(frame: Frame) -> pb.ExecuteResponse:
    """The protobuf form of a frame that carries Arrow bytes."""
    match frame:
        case SchemaFrame():
            columns = [pb.Column(name=column.name, type=column.type) for column in frame.columns]
            schema: Oneof[Literal["schema"], pb.Schema] = Oneof("schema", pb.Schema(columns=columns, arrow=frame.arrow))
            return pb.ExecuteResponse(frame=schema)
        case BatchFrame():
            batch: Oneof[Literal["batch"], pb.Batch] = Oneof("batch", pb.Batch(arrow=frame.body))
            return pb.ExecuteResponse(frame=batch)
        case TrailerFrame():
            trailer = frame.trailer
            message = pb.Trailer(
                row_count=trailer.row_count,
                truncated=trailer.truncated,
                reason=trailer.reason,
                query_id=trailer.query_id,
                generations=list(trailer.generations),
                as_of=trailer.as_of,
                frontier=trailer.frontier,
                elapsed_ms=trailer.elapsed_ms,
                arrow=frame.arrow,
            )
            end: Oneof[Literal["trailer"], pb.Trailer] = Oneof("trailer", message)
            return pb.ExecuteResponse(frame=end)


def catalog_message(catalog: Catalog) -> pb.DescribeCatalogResponse:
    """The protobuf form of a catalog."""
    tables = [
        pb.Table(
            name=table.name,
            description=table.description,
            realm=table.realm,
            kind=table.kind,
            columns=[
                pb.TableColumn(name=c.name, type=c.type, description=c.description, unit=c.unit) for c in table.columns
            ],
            example=table.example,
        )
        for table in catalog.tables
    ]
    return pb.DescribeCatalogResponse(tables=tables, functions=list(catalog.functions), realm=catalog.realm)
