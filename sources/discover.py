"""The files below the given paths that may be histories.

A given folder is walked (links are not followed); a given file is taken as it is. Files in hidden folders are found
when the folder was given by name, as the standard places are.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

FILES_MAX: Final = 1_000_000  # a walk over a whole disk by mistake ends

_SUFFIXES: Final = frozenset({".jsonl", ".json", ".ndjson", ".zst", ".db", ".vscdb", ".zip", ".txt", ".sqlite"})


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files below the paths that may be histories, each once, in a fixed order."""
    seen: set[str] = set()
    for path in paths:
        for found in _below(path):
            if found not in seen:
                seen.add(found)
                yield Path(found)
            if len(seen) >= FILES_MAX:
                return


def _below(path: Path) -> Iterator[str]:
    if not path.is_dir():
        if path.is_file():
            yield str(path.absolute())
        return
    for folder, folders, names in os.walk(path.absolute()):
        folders.sort()
        for name in sorted(names):
            if may_be_history(name):
                yield f"{folder}/{name}"


def may_be_history(name: str) -> bool:
    """Whether a file of this name or path is worth opening."""
    return os.path.splitext(name)[1].lower() in _SUFFIXES  # noqa: PTH122 a Path for each file costs more than the walk
