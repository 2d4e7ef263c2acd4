"""Which histories are being written: the changed files below some folders, as they change.

The kernel tells (through watchfiles); what changes within a few milliseconds is told together. Folders that do not
exist yet are looked for again at every pause, and every pause is told as an empty set: it is then that files have
become still. Files of other programs beside the histories are told like all others; the importer knows its own.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Final

from watchfiles import Change, watch

GATHER_MS: Final = 50  # an appended turn comes in several writes; waiting longer would be seen in the latency
PAUSE_MS: Final = 5_000


def changes(paths: Sequence[Path], *, stop: Event, pause_ms: int = PAUSE_MS) -> Iterator[frozenset[Path]]:
    """Sets of files that were written or appeared, until `stop` is set; an empty set at every pause."""
    while not stop.is_set():
        present = [path for path in paths if path.exists()]
        if not present:
            stop.wait(pause_ms / 1000)
            yield frozenset()
            continue
        for found in watch(
            *present,
            debounce=GATHER_MS,
            step=GATHER_MS // 2,
            stop_event=stop,
            rust_timeout=pause_ms,
            yield_on_timeout=True,
            recursive=True,
            raise_interrupt=False,
            watch_filter=None,
        ):
            yield frozenset(Path(name) for change, name in found if change is not Change.deleted)
            if len(present) < sum(path.exists() for path in paths):
                break
