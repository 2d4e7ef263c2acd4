"""A table that is longer than the screen goes through a pager, as `git` does it; nothing else is ever paged.

`PAGER` chooses it (`PAGER=cat` turns paging off); without it `less` is asked to quit when everything fits, to keep the
screen and to let wide lines be scrolled.
"""

import os
import shlex
import shutil
import sys
from contextlib import suppress
from typing import Final

PAGER: Final = ("less", "-FRSX")


def write(text: str) -> None:
    """Write text to stdout, page by page when it is a terminal and the text does not fit."""
    command = _pager() if sys.stdout.isatty() and _is_too_long(text) else None
    if command is None:
        sys.stdout.write(text)
        return
    import subprocess

    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8")
    with suppress(BrokenPipeError):  # the person has seen enough
        process.communicate(text)
    process.wait()


def _is_too_long(text: str) -> bool:
    size = shutil.get_terminal_size()
    return text.count("\n") >= size.lines or max(map(len, text.splitlines()), default=0) > size.columns


def _pager() -> list[str] | None:
    chosen = shlex.split(os.environ.get("PAGER", "")) or list(PAGER)
    return chosen if shutil.which(chosen[0]) else None
