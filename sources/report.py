"""What an import found and did."""

from collections import Counter
from dataclasses import dataclass, field

from sources.lines import Quarantined


@dataclass(slots=True)
class Report:
    """Counts, and the files and pieces by name that somebody may want to look at."""

    files: int = 0
    files_read: int = 0
    conversations: int = 0
    conversations_new: int = 0
    incarnations_new: int = 0
    events: int = 0
    turns: int = 0
    unfinished: int = 0
    records: int = 0
    copies: int = 0
    repeats: int = 0
    doubles: list[str] = field(default_factory=list)  # files whose conversation another, longer file holds
    unrecognised: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)  # recognised, but nothing in them is a conversation
    quarantined: list[tuple[str, Quarantined]] = field(default_factory=list)
    incomplete: list[tuple[str, Quarantined]] = field(default_factory=list)  # torn ends: read when they are whole
    skipped: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    redacted: Counter[str] = field(default_factory=Counter)

    @property
    def quarantined_by_reason(self) -> Counter[str]:
        """How many pieces could not be read, by reason."""
        return Counter(bad.reason for _path, bad in self.quarantined)
