"""The sample's own clock and ids: both follow from the story's name, so the files never change."""

import hashlib
from datetime import UTC, datetime, timedelta


class Timeline:
    """Hands out times that move forward and ids that never repeat within a story."""

    def __init__(self, *, name: str, started_at: str) -> None:
        self._name = name
        self._now = datetime.fromisoformat(started_at).astimezone(UTC)
        self._count = 0

    def stamp(self, seconds: float = 2.5) -> str:
        """Move forward and give the time as RFC 3339 with milliseconds."""
        self._now += timedelta(seconds=seconds)
        return self._now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self._now.microsecond // 1000:03d}Z"

    def digest(self, size_bytes: int = 16) -> bytes:
        """The next bytes derived from the story's name and a counter."""
        self._count += 1
        return hashlib.sha256(f"{self._name}/{self._count}".encode()).digest()[:size_bytes]

    def uuid(self) -> str:
        """The next id in the form of a version 4 UUID."""
        raw = bytearray(self.digest())
        raw[6] = (raw[6] & 0x0F) | 0x40
        raw[8] = (raw[8] & 0x3F) | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def number(self, low: int, high: int) -> int:
        """The next number in [low, high]."""
        return low + int.from_bytes(self.digest(4), "big") % (high - low + 1)
