"""The door for people and scripts: a plain JSON body in, NDJSON or a bare Arrow stream out.

    curl EDGE/polychrome.query.v1.QueryService/Execute -H "authorization: Bearer $TOKEN" -d '{"sql":"SELECT 1"}'

The content type that curl sets by itself (`application/x-www-form-urlencoded`) is accepted here and nowhere else
(ruling 31). A refusal before the first frame has its HTTP status and the body {"code","message","hint"}; later ones
are a last line {"error": …}. An Arrow stream that breaks off has no end marker, so readers notice.
"""

import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from polyc.errors import HTTP_STATUS, Code, PolycError, RefusedError
from polyc.limits import BODY_SIZE_BYTES_MAX
from query_plane.answer import BatchFrame, Frame, SchemaFrame, TrailerFrame, json_text
from query_plane.asgi import Receive, Scope, Send, headers_of, send_whole, until_disconnect
from query_plane.core import QueryCore, Request
from query_plane.requests import from_json

ARROW_TYPE: Final = "application/vnd.apache.arrow.stream"
NDJSON_TYPE: Final = b"application/x-ndjson"
_GZIP_LEVEL: Final = 1  # rows are text that repeats: the first level takes most of it, at a quarter of the time
_GZIP_FORMAT: Final = 31  # zlib's window with gzip's header
CONTENT_TYPES: Final = frozenset({"application/json", "application/x-www-form-urlencoded", ""})


async def execute(core: QueryCore, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one plain Execute call; a caller that hangs up cancels it."""
    await until_disconnect(receive, lambda body: _answer(core, scope, body, send))


async def _answer(core: QueryCore, scope: Scope, receive: Receive, send: Send) -> None:
    headers = headers_of(scope)
    want_arrow = ARROW_TYPE in headers.get(b"accept", b"").decode("latin-1")

    async def read() -> Request:
        body = await read_body(headers, receive)
        return from_json(body, headers=headers, want="arrow" if want_arrow else "json")

    async with aclosing(core.execute(scope["headers"], read)) as frames:
        try:
            first = await anext(frames)
        except PolycError as error:
            await send_error(error, send)
            return
        packer, pairs = None, [(b"content-type", NDJSON_TYPE), (b"cache-control", b"no-store")]
        if want_arrow:
            pairs[0] = (b"content-type", ARROW_TYPE.encode())
        elif accepts_gzip(headers):  # Arrow batches are compressed inside
            packer = zlib.compressobj(level=_GZIP_LEVEL, wbits=_GZIP_FORMAT)
            pairs += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
        await send({"type": "http.response.start", "status": 200, "headers": pairs})
        async for chunk in _body(first, frames, want_arrow=want_arrow):
            await send({"type": "http.response.body", "body": _packed(packer, chunk), "more_body": True})
        end = packer.flush() if packer is not None else b""
        await send({"type": "http.response.body", "body": end, "more_body": False})


def accepts_gzip(headers: dict[bytes, bytes]) -> bool:
    """Whether the caller takes gzip.

    >>> accepts_gzip({b"accept-encoding": b"br, gzip;q=0.5"}), accepts_gzip({b"accept-encoding": b"gzip;q=0"})
    (True, False)
    """
    for part in headers.get(b"accept-encoding", b"").decode("latin-1").split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


def _packed(packer: "zlib._Compress | None", chunk: bytes) -> bytes:
    """The chunk, compressed and flushed: a frame must not wait for the next one."""
    return chunk if packer is None else packer.compress(chunk) + packer.flush(zlib.Z_SYNC_FLUSH)


async def read_body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """The request's body, bounded."""
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise RefusedError("the body is compressed", hint="send it as it is")
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusedError("the caller hung up", code="canceled")
        body += message.get("body", b"")
        if len(body) > BODY_SIZE_BYTES_MAX:
            raise RefusedError(f"the body has more than {BODY_SIZE_BYTES_MAX} bytes", code="resource_exhausted")
        if not message.get("more_body", False):
            return bytes(body)


def error_body(error: PolycError) -> dict[str, str]:
    """The wire form of an error."""
    body = {"code": error.code, "message": error.message}
    return body | {"hint": error.hint} if error.hint else body


async def send_error(error: PolycError, send: Send) -> None:
    """A whole response for an error before the first frame."""
    code: Code = error.code
    extra: list[tuple[bytes, bytes]] = [(b"www-authenticate", b"Bearer")] if code == "unauthenticated" else []
    await send_whole(send, HTTP_STATUS[code], msgspec.json.encode(error_body(error)), headers=extra)


async def _body(first: Frame, frames: AsyncGenerator[Frame, None], *, want_arrow: bool) -> AsyncIterator[bytes]:
    yield _chunk(first, want_arrow=want_arrow)
    try:
        async for frame in frames:
            yield _chunk(frame, want_arrow=want_arrow)
    except PolycError as error:
        if not want_arrow:
            yield msgspec.json.encode({"error": error_body(error)}) + b"\n"


def _chunk(frame: Frame, *, want_arrow: bool) -> Any:
    if not want_arrow:
        return json_text(frame) + b"\n"
    match frame:
        case SchemaFrame() | TrailerFrame():
            return frame.arrow
        case BatchFrame():
            return frame.body
