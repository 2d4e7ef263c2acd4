"""JSON of which two readers cannot make two things: no member twice, no lone surrogate, no number that is not JSON's.

What is signed by others (receipts) and what others are about to say (a harness's lines, the bodies of requests) is
read or checked with this. Of a member that stands twice one reader takes the first, another the last: such a text is
ambiguous, and an ambiguous text is refused before it becomes evidence. Events that are in the journal are never
refused for it: of their repeated members the last counts, in every reader of ours (docs/fact-model.md).
"""

import json
from typing import Any

import msgspec


def decode(text: bytes) -> Any:
    r"""The value of a text; ValueError when it is not JSON, or not one thing.

    >>> decode(b'{"a": [1, "\\u00e9"]}')
    {'a': [1, 'é']}
    >>> decode(b'{"a": 1, "a": 1}')
    Traceback (most recent call last):
    ...
    ValueError: a member stands twice
    """
    try:
        msgspec.json.decode(text, type=msgspec.Raw)  # strict where Python's own parser is not: surrogates, NaN
        return json.loads(text.decode("utf-8"), object_pairs_hook=_members)
    except _RepeatedError as error:
        raise ValueError(str(error)) from None
    except (msgspec.DecodeError, ValueError, RecursionError):  # also an integer of more digits than Python reads
        raise ValueError("not JSON") from None


class _RepeatedError(ValueError):
    pass


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _RepeatedError("a member stands twice")
    return members
