r"""JSON that others wrote: how deep it may be nested, and cells and texts that hold some.

The bound is checked before any parser sees the text: a parser of its own bound would refuse by how deep its caller
stood, and one file would be told in two ways.
"""

from typing import Any, Final

import msgspec

from polyc.limits import JSON_DEPTH_MAX

_BRACKETS: Final = b"[]{}"
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in _BRACKETS)


def is_too_deep(text: bytes) -> bool:
    r"""Whether brackets are nested deeper than `JSON_DEPTH_MAX`; brackets within strings do not count.

    Most lines hold fewer brackets than that and cost a count; of the others all but the brackets is removed, and then
    the innermost pairs as often as they may be nested.

    >>> is_too_deep(b"[" * 100 + b"]" * 100), is_too_deep(b"[" * 101 + b"]" * 101)
    (False, True)
    >>> is_too_deep(b'{"a":"' + b"[" * 1000 + b'"}')
    False
    """
    if text.count(b"[") + text.count(b"{") <= JSON_DEPTH_MAX:
        return False
    outside = b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    brackets = outside.translate(None, _NO_BRACKETS)
    for _ in range(JSON_DEPTH_MAX):
        inner = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(inner) == len(brackets):
            return brackets.count(b"[") + brackets.count(b"{") > JSON_DEPTH_MAX  # no JSON: too deep before it ends
        brackets = inner
    return bool(brackets)


def value_in(cell: Any) -> Any:
    """The JSON in a cell or a text; None when it holds none, or one that is nested too deep.

    >>> value_in('{"a": [1]}'), value_in(b"null"), value_in("{"), value_in(7)
    ({'a': [1]}, None, None, None)
    """
    text = cell.encode("utf-8", "replace") if isinstance(cell, str) else cell
    if not isinstance(text, bytes) or is_too_deep(text):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
