"""A Query edge of ours for tests of Control as its client: it verifies the grant for real and answers what it is told.

It complains when misused: an unverified bearer is refused like at the real edge, and every statement is kept.
"""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from polyc.errors import HTTP_STATUS, PolycError
from polyc.grants import Grant, bearer_of
from polyc.published import EdgeTrust

EXECUTE = "/polychrome.query.v1.QueryService/Execute"
SEARCH = "/polychrome.search.v1.SearchService/Search"
DESCRIBE = "/polychrome.query.v1.QueryService/DescribeCatalog"


@dataclass
class EdgeDouble:
    trust: EdgeTrust
    columns: list[str] = field(default_factory=lambda: ["n"])
    rows: list[list] = field(default_factory=lambda: [[1]])
    half: bool = False
    asked: list[tuple[Grant, dict]] = field(default_factory=list)

    async def execute(self, request: Request) -> Response:
        try:
            grant = self.trust.grant_of(bearer_of(request.headers.raw))
        except PolycError as error:
            return JSONResponse({"code": error.code, "message": error.message}, status_code=HTTP_STATUS[error.code])
        body = await request.json()
        self.asked.append((grant, body))
        if body["sql"] == "FAIL":
            return JSONResponse({"code": "invalid_argument", "message": "no", "hint": "try"}, status_code=400)
        frames = [
            {"schema": {"columns": [{"name": name, "type": "VARCHAR"} for name in self.columns]}},
            {"batch": {"rows": self.rows}},
        ]
        if not self.half:
            frames.append({"trailer": {"row_count": len(self.rows), "truncated": False}})
        return Response("".join(json.dumps(frame) + "\n" for frame in frames), media_type="application/x-ndjson")

    async def describe(self, request: Request) -> Response:
        self.trust.grant_of(bearer_of(request.headers.raw))
        return JSONResponse({"realm": "participant", "tables": [{"name": "turns"}]})

    async def search(self, request: Request) -> Response:
        grant = self.trust.grant_of(bearer_of(request.headers.raw))
        body = await request.json()
        self.asked.append((grant, body))
        if body["query"] == "FAIL":
            return JSONResponse({"code": "invalid_argument", "message": "no", "hint": "try"}, status_code=400)
        return JSONResponse({"results": []})

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route(EXECUTE, self.execute, methods=["POST"]),
                Route(SEARCH, self.search, methods=["POST"]),
                Route(DESCRIBE, self.describe, methods=["POST"]),
            ]
        )


@contextmanager
def listening(app) -> Iterator[str]:
    """The base address of an application served on a real socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = uvicorn.Server(
            uvicorn.Config(
                app(port) if callable(app) and not isinstance(app, Starlette) else app,
                log_level="warning",
                timeout_graceful_shutdown=2,
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with httpx.Client(transport=httpx.HTTPTransport(retries=10)) as client:
                while not server.started:
                    client.get(f"http://127.0.0.1:{port}/")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(timeout=20)
