"""The few words of ASGI that the edge's own doors use."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from polyc.limits import WRITE_DEADLINE_S

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class SlowReaderError(Exception):
    """The caller took no byte for too long; the connection is dropped and the query cancelled."""


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers by lower-case name, the last of each. Never ask it for `authorization`: that must be exactly one."""
    return {name.lower(): value for name, value in scope["headers"]}


def content_type_of(headers: dict[bytes, bytes]) -> str:
    """The media type without its parameters."""
    return headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()


async def until_disconnect(receive: Receive, answer: Callable[[Receive], Awaitable[None]]) -> None:
    """Run `answer`, and cancel it when the caller hangs up: uvicorn's `send` drops what nobody reads, silently (F10).

    A disconnect is told by the same `receive` that gives the body, so the watch begins where the body ends.
    """
    body_read = asyncio.Event()

    async def body() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            body_read.set()
        return message

    async def watch() -> None:
        await body_read.wait()
        while (await receive())["type"] != "http.disconnect":
            pass

    answering = asyncio.ensure_future(answer(body))
    watching = asyncio.ensure_future(watch())
    try:
        await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (watching, answering):
            task.cancel()
        await asyncio.gather(watching, answering, return_exceptions=True)
    if not answering.cancelled() and (error := answering.exception()) is not None:
        raise error


def with_write_deadline(send: Send) -> Send:
    """A `send` that gives up on a reader that takes nothing (F20); uvicorn's send waits while buffers are full."""

    async def bounded(message: Message) -> None:
        try:
            async with asyncio.timeout(WRITE_DEADLINE_S):
                await send(message)
        except TimeoutError:
            raise SlowReaderError from None

    return bounded


async def send_whole(
    send: Send,
    status: int,
    body: bytes,
    *,
    content_type: bytes = b"application/json",
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    """A whole small response."""
    pairs = [(b"content-type", content_type), (b"content-length", str(len(body)).encode()), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body, "more_body": False})
