"""The only module that reads a clock. Everything else takes a `Clock` as an argument."""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the wall time and a monotonic time; both may be faked."""

    def now_us(self) -> int:
        """Wall time in microseconds since 1970-01-01 UTC; may go backwards."""

    def monotonic_s(self) -> float:
        """Seconds that never go backwards; only differences mean anything."""


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        """Wall time in microseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        """The machine's monotonic clock, in seconds."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to: tests and demonstrations."""

    def __init__(self, now_us: int = 1_780_000_000_000_000) -> None:
        self._now_us = now_us
        self._monotonic_s = 0.0

    def now_us(self) -> int:
        """The set wall time."""
        return self._now_us

    def monotonic_s(self) -> float:
        """The set monotonic time."""
        return self._monotonic_s

    def advance(self, *, seconds: float) -> None:
        """Move both times; negative seconds move only the wall time (clocks go backwards, monotonic ones don't)."""
        self._now_us += int(seconds * 1_000_000)
        self._monotonic_s += max(seconds, 0.0)
