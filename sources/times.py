"""Times as sources write them → an aware UTC datetime, or null with a flag that says why.

A time that cannot be read is never guessed: not "now", not 1970, not the file's mtime (A20). Epoch numbers are
seconds, milliseconds, microseconds or nanoseconds by their size. A stamp without an offset is null unless the
format is known to write UTC (`naive_is_utc`).
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple


class When(NamedTuple):
    """An instant, or the flag that says why there is none."""

    at: datetime | None
    flag: str | None = None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)  # agents are younger; what lies before is a broken clock
_LAST: Final = datetime(2100, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"-?\d{1,19}(?:\.\d{1,9})?")
_SCALES: Final = ((10**17, 1_000_000_000), (10**14, 1_000_000), (10**11, 1_000), (0, 1))


def read_time(stamp: Any, *, naive_is_utc: bool = False) -> When:
    """The instant, or the flag.

    >>> read_time("2026-03-29T01:30:00.000+02:00")
    When(at=datetime.datetime(2026, 3, 28, 23, 30, tzinfo=datetime.timezone.utc), flag=None)
    >>> read_time("2026-02-30T00:00:00Z")
    When(at=None, flag='unreadable')
    >>> read_time("2026-03-29T02:30:00")
    When(at=None, flag='no_offset')
    """
    if isinstance(stamp, str):
        if stamp[-1:] == "Z" and stamp[4:5] == "-":  # as nearly all programs write it
            try:
                return _plausible(datetime.fromisoformat(stamp))
            except ValueError:
                return When(None, "unreadable")
        return _of_text(stamp, naive_is_utc=naive_is_utc)
    if stamp is None:
        return When(None, "missing")
    if isinstance(stamp, int | float) and not isinstance(stamp, bool):
        return _of_number(stamp)
    return When(None, "unreadable")


def _of_text(text: str, *, naive_is_utc: bool) -> When:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        if not text.strip():
            return When(None, "missing")
        return _of_number(float(text)) if _NUMBER.fullmatch(text) else When(None, "unreadable")
    if text[4:5] != "-" and _NUMBER.fullmatch(
        text
    ):  # "1774742400" is an epoch, although fromisoformat reads some digits as a date
        return _of_number(float(text))
    if instant.tzinfo is None:
        if not naive_is_utc:
            return When(None, "no_offset")
        instant = instant.replace(tzinfo=UTC)
    return _plausible(instant)


def _of_number(number: float) -> When:
    size = abs(number)
    scale = next(scale for least, scale in _SCALES if size >= least or least == 0)
    try:
        instant = _EPOCH + timedelta(microseconds=round(number * 1_000_000 / scale))
    except (OverflowError, ValueError):
        return When(None, "out_of_range")
    return _plausible(instant)


def _plausible(instant: datetime) -> When:
    if not _FIRST <= instant <= _LAST:
        return When(None, "out_of_range")
    return When(instant if instant.tzinfo is UTC else instant.astimezone(UTC))
