"""Canonical JSON for what we sign ourselves (manifests, pack lists, receipts): one value, one text.

Rules (a subset of RFC 8785): objects sorted by UTF-8 key, no white space, integers within 64 bits, strings, booleans,
null, lists; no floating-point numbers, no duplicate keys, no lone surrogates. `decode` re-encodes and compares, so
that no second spelling of a value verifies. Events are never canonicalised: the author's bytes are the event.
"""

from typing import Any

import msgspec

from polyc.errors import CorruptError

_encoder = msgspec.json.Encoder(order="deterministic")
_PLAIN = frozenset({str, int, bool, type(None)})  # nearly everything in a manifest: nothing in it to look at


def encode(value: Any) -> bytes:
    r"""The one text of a value.

    >>> encode({"b": [1, True, None], "a": "é"})
    b'{"a":"\xc3\xa9","b":[1,true,null]}'
    """
    _check(value)
    return _encoder.encode(value)


def decode(text: bytes, *, place: str) -> Any:
    """The value of a canonical text; CorruptError when another text would have been written for it."""
    try:
        value = msgspec.json.decode(text)
        again = encode(value)
    except (msgspec.DecodeError, TypeError, UnicodeError, RecursionError) as error:
        raise CorruptError("not canonical JSON", place=place, kind="encoding") from error
    if again != text:
        raise CorruptError("not canonical JSON: re-encoding differs", place=place, kind="encoding")
    return value


def _check(value: Any) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError("object keys are strings")
            if type(item) not in _PLAIN:
                _check(item)
    elif isinstance(value, list | tuple):
        for item in value:
            if type(item) not in _PLAIN:
                _check(item)
    elif value is not None and not isinstance(value, str | int | bool):
        raise TypeError(f"{type(value).__name__} has no canonical form")
