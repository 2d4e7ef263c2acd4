"""What a provider is: it recognises its files and tells the conversations in them. It never appends.

To add one: a module with a `Provider`, its samples and goldens under tests/sources, a line in `sources.providers`
(docs/sources.md shows the way).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from polyc.ids import Partition
from sources.conversation import Identity, Segment
from sources.growing import Growing
from sources.keys import Keys, NoKeys
from sources.lines import SetAside, records
from sources.redaction import Redactor
from sources.stillness import Stillness

T = TypeVar("T")


@dataclass(slots=True)
class Counts:
    """What happened to the records of a conversation that did not become events of it."""

    records: int = 0
    copies: int = 0  # records that belong to another conversation (resume, fork)
    repeats: int = 0  # records that stand twice in the same file
    skipped: Counter[str] = field(default_factory=Counter)  # known record types that carry no history
    unknown: Counter[str] = field(default_factory=Counter)  # kept as notices
    untold: bool = False  # something stands after the last end and was not told (the file may still grow)

    def clear(self) -> None:
        """Count anew: what was counted by now was reported."""
        self.records = self.copies = self.repeats = 0
        self.skipped, self.unknown, self.untold = Counter(), Counter(), False


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the telling of one conversation depends on beside its files.

    `level`: whether more of the file may come. `foreign`: keys of records
    that another conversation owns; `owners`: who they are, in order, with the kind of link. `growing`: the file is
    followed; where it ends for now the telling pauses, and it goes on when the file does.
    """

    redactor: Redactor
    ordinal: int = 0
    level: Stillness = Stillness.GROWING
    foreign: frozenset[int] = frozenset()
    owners: tuple[tuple[Partition, str], ...] = ()
    counts: Counts = field(default_factory=Counts)
    set_aside: SetAside = lambda _bad: None
    growing: Growing | None = None

    def records(self, path: Path, decode: Callable[[bytes], T]) -> Iterator[tuple[int, T] | None]:
        """The records of the telling's file; None where a followed one ends for now."""
        if self.growing is not None:
            return self.growing.records(decode, set_aside=self.set_aside)
        return records(path, decode, set_aside=self.set_aside)


class Telling(Protocol):
    """A conversation found in a file; may be told again and again, each time from the beginning."""

    @property
    def identity(self) -> Identity:
        """Whose history it is."""

    def segments(self, context: Context) -> Iterator[Segment]:
        """Its events, in order: closed turns, and what stands after the last end if no more of the file may come."""


def _no_paths(_path: Path) -> Iterable[Path]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A format of foreign histories: its name (as it stands in `origin`) and what it can do with a path.

    `recognise` gets the path and the file's first 64 KiB. `tellings` gives the file's conversations, and sets aside
    what belongs to none. `companions`: other files that a file's telling depends on.
    `is_part`: whether a file belongs to another one's telling, or is kept by the program beside its histories.
    `keys`: keys of the records that other files may hold copies of, in order, with their times as written. `depth`:
    how many ancestors the file names itself a copy of. `always_final`: files of this format never grow (exports).
    `follows`: its files grow by lines, and its tellings can pause (`Context.growing`).
    """

    name: str
    recognise: Callable[[Path, bytes], bool]
    tellings: Callable[[Path, SetAside], Iterator[Telling]]
    companions: Callable[[Path], Iterable[Path]] = _no_paths
    is_part: Callable[[Path], bool] = lambda _path: False
    keys: Callable[[Path], Keys] = NoKeys
    depth: Callable[[Path], int] = lambda _path: 0
    always_final: bool = False
    follows: bool = False
