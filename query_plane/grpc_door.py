"""The door for gRPC clients: HTTP/2 on the private Unix socket, with health and reflection.

The same core as every other door, Arrow bytes in the frames. Messages are written one by one with a deadline, so that
a reader that stalls gives its slot back; the socket lies in a 0700 folder.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool, struct_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from polyc.errors import PolycError
from polyc.limits import BODY_SIZE_BYTES_MAX, WORKER_MESSAGE_SIZE_BYTES_MAX, WRITE_DEADLINE_S
from polychrome.query.v1 import query_pb as pb
from polychrome.search.v1 import search_pb
from query_plane.core import QueryCore, Request
from query_plane.requests import from_message
from query_plane.rpc import catalog_message, message_of
from query_plane.search_rpc import SERVICE as SEARCH_SERVICE
from query_plane.search_rpc import answer_message
from query_plane.searching import SearchCore

SERVICE: Final = "polychrome.query.v1.QueryService"
HINT: Final = "polychrome-hint-bin"
_GRACE_S: Final = 5.0


@asynccontextmanager
async def serving(core: QueryCore, socket: Path, *, search: SearchCore | None = None) -> AsyncIterator[None]:
    """Serve gRPC on the socket for the block."""
    await asyncio.to_thread(socket.unlink, missing_ok=True)
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", BODY_SIZE_BYTES_MAX),
            ("grpc.max_send_message_length", WORKER_MESSAGE_SIZE_BYTES_MAX),
        ]
    )
    door = Door(core)
    handlers = {
        "Execute": grpc.unary_stream_rpc_method_handler(
            door.execute, request_deserializer=pb.ExecuteRequest.from_binary, response_serializer=_to_binary
        ),
        "DescribeCatalog": grpc.unary_unary_rpc_method_handler(
            door.describe_catalog,
            request_deserializer=pb.DescribeCatalogRequest.from_binary,
            response_serializer=_to_binary,
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    services = [SERVICE]
    if search is not None:
        services.append(SEARCH_SERVICE)
        server.add_generic_rpc_handlers((_search_handlers(search),))
    state = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(state, server)
    reflection.enable_server_reflection(
        (*services, health.SERVICE_NAME, reflection.SERVICE_NAME), server, pool=_descriptors()
    )
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    for name in ("", *services):
        await state.set(name, health_pb2.HealthCheckResponse.SERVING)
    try:
        yield
    finally:
        await state.enter_graceful_shutdown()
        await server.stop(_GRACE_S)
        await asyncio.to_thread(socket.unlink, missing_ok=True)


class Door:
    """The service's two methods, as grpcio calls them."""

    def __init__(self, core: QueryCore) -> None:
        self._core = core

    async def execute(self, request: pb.ExecuteRequest, context: Any) -> None:
        """Write the frames of one answer."""
        pairs = _pairs(context)

        async def read() -> Request:
            return from_message(request, headers=dict(pairs), want="arrow")

        try:
            async with aclosing(self._core.execute(pairs, read)) as frames:
                async for frame in frames:
                    async with asyncio.timeout(WRITE_DEADLINE_S):
                        await context.write(message_of(frame))
        except PolycError as error:
            await _abort(context, error)
        except TimeoutError:
            await context.abort(grpc.StatusCode.CANCELLED, "the reader took nothing for too long")

    async def describe_catalog(self, _request: pb.DescribeCatalogRequest, context: Any) -> Any:
        """Tell what the grant may name."""
        try:
            return catalog_message(self._core.catalog(_pairs(context)))
        except PolycError as error:
            return await _abort(context, error)


def _search_handlers(search: SearchCore) -> Any:
    """The one method of the search service."""

    async def answer(request: search_pb.SearchRequest, context: Any) -> Any:
        try:
            return await answer_message(search, _pairs(context), request)
        except PolycError as error:
            return await _abort(context, error)

    method = grpc.unary_unary_rpc_method_handler(
        answer, request_deserializer=search_pb.SearchRequest.from_binary, response_serializer=_to_binary
    )
    return grpc.method_handlers_generic_handler(SEARCH_SERVICE, {"Search": method})


def _pairs(context: Any) -> list[tuple[bytes, bytes]]:
    """The call's metadata as header pairs; a deadline of the call becomes the header that other doors read."""
    pairs = [(key.lower().encode(), _raw(value)) for key, value in context.invocation_metadata() or ()]
    left_s = context.time_remaining()
    if left_s is not None:
        pairs.append((b"connect-timeout-ms", str(max(1, min(int(left_s * 1000), 10**9))).encode()))
    return pairs


def _raw(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1", "replace")


async def _abort(context: Any, error: PolycError) -> Any:
    name = "CANCELLED" if error.code == "canceled" else error.code.upper()
    trailing = ((HINT, error.hint.encode()),) if error.hint else ()
    await context.abort(getattr(grpc.StatusCode, name), error.message, trailing)


def _to_binary(message: Any) -> bytes:
    return bytes(message.to_binary())


def _descriptors() -> descriptor_pool.DescriptorPool:
    """A pool that knows our files (generated for another runtime) beside google's own."""
    pool = descriptor_pool.Default()
    for file in (pb.desc(), search_pb.desc()):
        assert struct_pb2.DESCRIPTOR.name in {dependency.name for dependency in file.dependencies}
        with suppress(TypeError):  # a second start in one process adds the same file again
            pool.AddSerializedFile(file.proto.to_binary())
    return pool
