"""Which web pages may call the edge from a browser: those an operator named, and no other.

The bearer travels in a header that a page must set itself, so there are no cookies to protect and credentials are not
allowed. An origin that was not named gets an answer without permission: the browser keeps it from the page.
"""

from collections.abc import Collection
from typing import Final

from query_plane.asgi import Message, Scope, Send, headers_of

_METHODS: Final = b"POST, GET"
_REQUEST_HEADERS: Final = (
    b"authorization, content-type, accept, connect-protocol-version, connect-timeout-ms, connect-accept-encoding, "
    b"connect-content-encoding, x-grpc-web, x-user-agent, grpc-timeout, polychrome-row-limit"
)
_EXPOSED: Final = b"grpc-status, grpc-message, grpc-status-details-bin, content-encoding, connect-content-encoding"
_AGE_S: Final = b"7200"


def origin_of(scope: Scope, origins: Collection[str]) -> bytes | None:
    """The request's origin when it was named."""
    origin = headers_of(scope).get(b"origin")
    return origin if origin is not None and origin.decode("latin-1") in origins else None


def is_preflight(scope: Scope) -> bool:
    """Whether a browser asks for permission."""
    return scope["method"] == "OPTIONS" and b"access-control-request-method" in headers_of(scope)


async def answer_preflight(send: Send, origin: bytes | None) -> None:
    """Permission for a named origin; nothing for others."""
    headers = [(b"vary", b"Origin")]
    if origin is not None:
        headers += [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", _REQUEST_HEADERS),
            (b"access-control-max-age", _AGE_S),
        ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def with_origin(send: Send, origin: bytes | None) -> Send:
    """A `send` whose responses the origin's pages may read."""
    if origin is None:
        return send

    async def permitting(message: Message) -> None:
        if message["type"] == "http.response.start":
            extra = [
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", _EXPOSED),
                (b"vary", b"Origin"),
            ]
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return permitting
