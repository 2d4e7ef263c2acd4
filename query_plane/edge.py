"""The Query edge as an ASGI application: one path, several languages, one core.

Rules: the bearer is judged before a body is read; Execute alone takes the form content type; no error of ours leaves
as anything but its code, message and hint, and no error of others leaves at all. No route accepts SQL by GET.
"""

import contextlib
from collections.abc import Collection
from typing import Any, Final, cast

from connectrpc.compression.gzip import GzipCompression

from polyc.errors import PolycError, RefusedError
from polyc.limits import BODY_SIZE_BYTES_MAX
from polychrome.query.v1.query_connect import QueryServiceASGIApplication
from polychrome.search.v1.search_connect import SearchServiceASGIApplication
from query_plane import cors, metrics, plain
from query_plane.asgi import (
    App,
    Receive,
    Scope,
    Send,
    SlowReaderError,
    content_type_of,
    headers_of,
    send_whole,
    with_write_deadline,
)
from query_plane.core import QueryCore
from query_plane.rpc import CODECS, Service
from query_plane.search_rpc import SearchDoor
from query_plane.searching import SEARCH, SearchCore, plain_search

SERVICE: Final = "/polychrome.query.v1.QueryService/"
EXECUTE: Final = SERVICE + "Execute"
DESCRIBE: Final = SERVICE + "DescribeCatalog"

_GRPC_WEB: Final = frozenset({"application/grpc-web", "application/grpc-web+proto", "application/grpc-web+json"})
_STREAMED: Final = _GRPC_WEB | {"application/connect+proto", "application/connect+json"}
_UNARY: Final = _GRPC_WEB | {"application/proto", "application/json"}
_UNKNOWN_TYPE: Final = (
    b'{"code":"invalid_argument","message":"this content type is not spoken here","hint":"send application/json"}'
)


def create_app(core: QueryCore, *, search: SearchCore | None = None, origins: Collection[str] = ()) -> App:
    """The edge over its cores; `origins` are the web pages that may call it from a browser."""
    connect = QueryServiceASGIApplication(
        Service(core), codecs=CODECS, compressions=[GzipCompression()], read_max_bytes=BODY_SIZE_BYTES_MAX
    )
    return Edge(core, cast("App", connect), search=search, origins=frozenset(origins))


def _search_app(search: SearchCore) -> App:
    door = SearchServiceASGIApplication(
        SearchDoor(search), compressions=[GzipCompression()], read_max_bytes=BODY_SIZE_BYTES_MAX
    )
    return cast("App", door)


class Edge:
    """Routes a request to its door."""

    def __init__(self, core: QueryCore, connect: App, *, search: SearchCore | None, origins: frozenset[str]) -> None:
        self._core = core
        self._connect = connect
        self._search = search
        self._search_connect = None if search is None else _search_app(search)
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI: one request, or the server's start and stop."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        bounded = with_write_deadline(send)
        origin = cors.origin_of(scope, self._origins)
        if cors.is_preflight(scope):
            await cors.answer_preflight(bounded, origin)
            return
        with contextlib.suppress(SlowReaderError):
            await self._http(scope, receive, cors.with_origin(bounded, origin))

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path == "/healthz":
            await send_whole(send, 200, b'{"status":"serving"}')
        elif path == "/metrics":
            text = self._core.metrics.text(running=self._core.held)
            await send_whole(send, 200, text, content_type=metrics.CONTENT_TYPE)
        elif path == SEARCH and self._search is not None:
            await self._ask(self._search, scope, receive, send)
        elif path not in {EXECUTE, DESCRIBE}:
            await plain.send_error(RefusedError("there is nothing here", code="not_found"), send)
        elif method != "POST" and not (method == "GET" and path == DESCRIBE):
            await _refuse_method(send)
        else:
            await self._call(scope, receive, send)

    async def _ask(self, search: SearchCore, scope: Scope, receive: Receive, send: Send) -> None:
        """A search: plain JSON by our door, what generated clients send (they say so, and may compress) by theirs."""
        headers = headers_of(scope)
        kind = content_type_of(headers)
        is_generated = b"connect-protocol-version" in headers or kind.startswith(
            ("application/proto", "application/grpc")
        )
        if scope["method"] != "POST":
            await _refuse_method(send)
        elif kind == "application/json" and not is_generated:
            await plain_search(search, scope, receive, send)
        elif not is_generated:
            await _refuse_type(send)
        elif await self._is_known(scope, kind, send):
            assert self._search_connect is not None, "made with the search core"
            await self._search_connect(scope, receive, send)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = content_type_of(headers_of(scope))
        if scope["path"] == EXECUTE and kind in plain.CONTENT_TYPES:
            await plain.execute(self._core, scope, receive, send)
            return
        if scope["method"] == "POST" and kind not in (_STREAMED if scope["path"] == EXECUTE else _UNARY):
            await _refuse_type(send)
            return
        if await self._is_known(scope, kind, send):
            await self._connect(scope, receive, send)

    async def _is_known(self, scope: Scope, kind: str, send: Send) -> bool:
        """Whether the bearer is good, judged before the body is read; a refusal is answered."""
        try:
            self._core.authenticate(scope["headers"])
        except PolycError as error:
            if not kind.startswith("application/grpc"):  # gRPC reads its status from trailers: the service refuses
                await plain.send_error(error, send)
                return False
        return True


async def _refuse_method(send: Send) -> None:
    await send_whole(send, 405, b'{"code":"unimplemented","message":"POST it"}', headers=[(b"allow", b"POST")])


async def _refuse_type(send: Send) -> None:
    await send_whole(send, 415, _UNKNOWN_TYPE)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message: dict[str, Any] = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return
