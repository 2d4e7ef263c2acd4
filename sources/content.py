"""Texts, images and documents of foreign messages → `Block`s: bounded, and binary content by digest only.

A text is kept up to 1 MiB; of a longer one the beginning stays, flagged `cut`, with digest and size of the whole.
An image or document becomes a reference: media type, size and digest of its decoded bytes. Base64 that does not
decode (cut in the middle) is flagged `undecodable`, its size that of the text.
"""

import base64
import binascii
import hashlib
from typing import Any

import msgspec

from facts.events import Block, BlockType
from polyc.limits import INLINE_TEXT_BYTES_MAX


def text_block(text: str, kind: BlockType = "text", *, flag: str | None = None) -> Block:
    """A text as a block; what is over the bound is cut and flagged.

    >>> text_block("hello").text
    'hello'
    """
    if len(text) * 4 <= INLINE_TEXT_BYTES_MAX or len(data := text.encode()) <= INLINE_TEXT_BYTES_MAX:
        return Block(type=kind, text=text, flag=flag)
    return Block(
        type=kind,
        text=bounded(text, INLINE_TEXT_BYTES_MAX),
        sha256=hashlib.sha256(data).hexdigest(),
        byte_length=len(data),
        flag="cut",
    )


def bounded(text: str, size_bytes_max: int) -> str:
    """The beginning of a text, at most so many bytes of UTF-8, cut between characters.

    >>> bounded("añb", 2)
    'a'
    """
    if len(text) * 4 <= size_bytes_max:
        return text
    return text.encode()[:size_bytes_max].decode("utf-8", "ignore")


def binary_block(kind: BlockType, data: Any, *, media_type: str | None) -> Block:
    """A reference to base64 content.

    >>> binary_block("image", "aGVsbG8=", media_type="image/png").byte_length
    5
    >>> binary_block("image", "aGVsbG8", media_type="image/png").flag
    'undecodable'
    """
    if not isinstance(data, str):
        return Block(type=kind, media_type=media_type, flag="absent")
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Block(type=kind, media_type=media_type, byte_length=len(data), flag="undecodable")
    return Block(type=kind, media_type=media_type, sha256=hashlib.sha256(raw).hexdigest(), byte_length=len(raw))


def data_url_block(kind: BlockType, url: str) -> Block:
    """A `data:` URL as a reference; of another URL nothing but its kind is kept in the block's flag."""
    if not url.startswith("data:"):
        return Block(type=kind, text=bounded(url, 4096), flag="remote")
    head, _, data = url[5:].partition(",")
    media_type, _, encoding = head.partition(";")
    if encoding.endswith("base64"):
        return binary_block(kind, data, media_type=media_type or None)
    return Block(type=kind, media_type=media_type or None, byte_length=len(data))


def plain_text(value: Any) -> str:
    r"""Whatever a format calls content, as text: a string, a list of parts, null, or an unexpected object as JSON.

    >>> plain_text([{"type": "text", "text": "a"}, "b", None])
    'a\nb'
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(part for part in map(_part_text, value) if part)
    return as_json(value)


def as_json(value: Any) -> str:
    """An unexpected value, kept as its JSON."""
    return msgspec.json.encode(value).decode()


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        text = part.get("text")
        return text if isinstance(text, str) else "" if "source" in part else as_json(part)
    return "" if part is None else as_json(part)
