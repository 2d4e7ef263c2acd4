"""Which histories are being written: what changes below some places, told by the kernel (watchfiles).

All places are told first, after the kernel was asked to tell: nothing falls between a look and the watch. They are told
again when one of them appears or was replaced; until then it is looked for once a second. What changes within a few
milliseconds is told together, and every pause is told as an empty set: it is then that files have become still. New
folders are told as well: what was written into them before the kernel knew them is found by looking. Where the kernel
cannot watch so many folders, the files are polled.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Final

from watchfiles import Change
from watchfiles._rust_notify import RustNotify  # documented as its "Rust backend": the generator above it yields late

from sources.discover import may_be_history

GATHER_MS: Final = 50  # an appended turn comes in several writes; waiting longer would be seen in the latency
STEP_MS: Final = 10  # a write that nothing follows within this is told at once
PAUSE_MS: Final = 1_000
POLL_MS: Final = 500  # of file systems that tell nothing


def changes(places: Sequence[Path], *, stop: Event, pause_ms: int = PAUSE_MS) -> Iterator[frozenset[Path]]:
    """Sets of files and folders to look at, until `stop` is set; an empty set at every pause."""
    while not stop.is_set():
        standing = _standing(places)
        if not standing:
            yield frozenset()
            stop.wait(pause_ms / 1000)
            continue
        with _notifier(standing) as notifier:
            yield frozenset(standing)
            while not stop.is_set() and standing == _standing(places):
                found = notifier.watch(GATHER_MS, STEP_MS, pause_ms, stop)
                if isinstance(found, str):  # a pause, or the end
                    yield frozenset()
                elif told := frozenset(_told(found)):
                    yield told


def _standing(places: Sequence[Path]) -> dict[Path, int]:
    """The places that exist, with their inodes: one that was replaced must be watched anew."""
    found: dict[Path, int] = {}
    for place in places:
        try:
            found[place] = place.stat().st_ino
        except OSError:
            continue
    return found


def _notifier(places: dict[Path, int]) -> RustNotify:
    """A database is watched with its folder: its log comes and goes beside it."""
    paths = [str(place.parent if place.suffix in {".db", ".vscdb"} else place) for place in places]
    try:
        return RustNotify(paths, False, False, POLL_MS, True, True)
    except OSError:  # the limit of watches, or a file system without them
        return RustNotify(paths, False, True, POLL_MS, True, True)


def _told(found: set[tuple[int, str]]) -> Iterator[Path]:
    for change, name in found:
        if change == Change.deleted:
            continue
        path = name.removesuffix("-wal").removesuffix("-journal")  # SQLite writes beside the database first
        if may_be_history(path) or Path(path).is_dir():
            yield Path(path)
