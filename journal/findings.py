"""What a verification says: how far it looked, what it found, and where; as a value and as JSON."""

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Level = Literal["V1", "V1h", "V2"]
FAULTS_MAX: Final = 100  # the first lie is what counts; a hundred show the pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One lie, named and placed (`partition/incarnation@position`, `tile l/n`, `checkpoint size`, …)."""

    kind: str
    place: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A root that somebody remembers for a size. `anchored`: they keep it outside this data root (ruling 11)."""

    size: int
    root: bytes
    source: str
    anchored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome. Entries with index < `anchored_size` are vouched for from outside; the rest by this disk alone."""

    origin: str
    level: Level
    entries: int
    partitions: int
    erased: int
    signatures: int
    checkpoints: int
    root: str
    anchored_size: int
    anchors: tuple[str, ...]
    faults: tuple[Fault, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.faults

    @property
    def anchored_ranges(self) -> list[tuple[int, int]]:
        """Half-open index ranges that something outside this data root vouches for."""
        return [(0, self.anchored_size)] if self.anchored_size else []

    @property
    def unanchored_ranges(self) -> list[tuple[int, int]]:
        """Half-open index ranges that only this data root vouches for."""
        return [(self.anchored_size, self.entries)] if self.anchored_size < self.entries else []

    def to_json(self) -> dict[str, Any]:
        """The report as JSON-able values."""
        return asdict(self) | {
            "ok": self.ok,
            "anchored_ranges": self.anchored_ranges,
            "unanchored_ranges": self.unanchored_ranges,
        }
