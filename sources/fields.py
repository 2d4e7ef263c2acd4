"""What a field of a foreign record is, or nothing: foreign JSON promises no types."""

from typing import Any


def text(value: Any) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """A whole number of something, as far as any reader can keep it exactly.

    >>> count(3), count(-1), count(True), count(2**60)
    (3, None, None, None)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def whole(value: Any) -> int | None:
    """A whole number of either sign (an exit code), as far as any reader can keep it exactly.

    >>> whole(-1), whole(10**40)
    (-1, None)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else None


def milliseconds(seconds: Any) -> int | None:
    """A duration in seconds as whole milliseconds.

    >>> milliseconds(0.5), milliseconds(1e300), milliseconds(-1)
    (500, None, None)
    """
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return round(seconds * 1000) if is_number and 0 <= seconds < 2**40 else None


def items(value: Any) -> list[Any]:
    """A list; anything else is an empty one."""
    return value if isinstance(value, list) else []


def mapping(value: Any) -> dict[str, Any]:
    """An object; anything else is an empty one."""
    return value if isinstance(value, dict) else {}
