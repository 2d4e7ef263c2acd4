"""Cursors: where a page ended, sealed. Opaque, authenticated, good for exactly one continuation.

    base64url( msgpack[version, generation_id, offset, key, asked_at_us] || HMAC-SHA256(key, text || bound)[:16] )

`bound` is what the cursor does not carry but must fit: the query's hash and the access policy's digest. The
generation id is the hash of a signed manifest, so as_of is bound with it. One changed byte, another query, another
grant: refused in the same words. A generation that is gone is refused by name, since asking again helps. Nothing in a
cursor tells sizes of the archive. Windows of time (`60d`) are counted back from `asked_at_us` on every page: a window
that moved between two pages would be another query.
"""

import base64
import hashlib
import hmac
from typing import Final

import msgspec

from polyc.errors import RefusedError
from polyc.limits import SEARCH_OFFSET_MAX
from search.query.request import SearchRequest

SortKey = tuple[float, int, int, int]  # minus score, best rank, minus time, ident

VERSION: Final = 2
_TAG_BYTES: Final = 16
_SIZE_MAX: Final = 512
_DOMAIN: Final = b"polychrome/search/cursor/v1\n"


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The sealed place: results shown so far, and the complete sort key of the last one."""

    version: int
    generation_id: str
    offset: int
    key: SortKey
    asked_at_us: int


def query_hash(request: SearchRequest) -> str:
    """What of a request must be the same on every page: all but the cursor, the page's size, and explanations."""
    fields = (
        request.text,
        request.terms,
        request.mode,
        request.semantic_weight,
        request.content_scope,
        request.event_types,
        [getattr(request.filters, name) for name in request.filters.__slots__],
        request.events,
    )
    return hashlib.sha256(msgspec.msgpack.encode(fields)).hexdigest()


def seal_cursor(cursor: Cursor, *, secret: bytes, query: str, access: str) -> str:
    """The text of a cursor."""
    body = msgspec.msgpack.encode(cursor)
    return base64.urlsafe_b64encode(body + _tag(body, secret, query, access)).rstrip(b"=").decode()


def peek_generation(text: str) -> str:
    """The generation a cursor claims to be of: where to look for what it is then verified against."""
    return _decode(text)[0].generation_id


def peek_asked_at(text: str) -> int:
    """When the first page was asked for, as a cursor claims; what is made of it is then verified against the cursor."""
    return _decode(text)[0].asked_at_us


def open_cursor(text: str, *, secret: bytes, query: str, access: str) -> Cursor:
    """The place, or RefusedError: 1. form, 2. canonical spelling, 3. tag over everything it is bound to."""
    cursor, body, tag = _decode(text)  # 1, 2
    if not hmac.compare_digest(tag, _tag(body, secret, query, access)):  # 3
        raise _refused()
    if cursor.version != VERSION or not 0 < cursor.offset <= SEARCH_OFFSET_MAX:
        raise _refused()
    return cursor


def _decode(text: str) -> tuple[Cursor, bytes, bytes]:
    try:
        if len(text) > _SIZE_MAX:
            raise _refused()
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != text:
            raise _refused()
        body, tag = raw[:-_TAG_BYTES], raw[-_TAG_BYTES:]
        return msgspec.msgpack.decode(body, type=Cursor), body, tag
    except (ValueError, UnicodeError):
        raise _refused() from None


def _tag(body: bytes, secret: bytes, query: str, access: str) -> bytes:
    bound = f"{query}\x1f{access}".encode()
    return hmac.new(secret, _DOMAIN + len(body).to_bytes(4, "big") + body + bound, hashlib.sha256).digest()[:_TAG_BYTES]


def _refused() -> RefusedError:
    return RefusedError(
        "cursor is not one of this search", hint="repeat the query as it was, under the same grant, or start again"
    )
