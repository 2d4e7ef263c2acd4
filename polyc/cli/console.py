"""What a person reads while a command works: stderr only, never data (style.md, "CLI manners")."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from polyc.errors import PolycError


def note(text: str) -> None:
    """A line for the person, on stderr."""
    print(text, file=sys.stderr, flush=True)


def tell_error(error: PolycError) -> None:
    """`polyc: error: CODE: message`, then the hint when there is one."""
    note(f"polyc: error: {error.code}: {error.message}")
    if error.hint:
        note(f"polyc: hint: {error.hint}")


def tell_bug(error: Exception) -> None:
    """A fault of ours: its kind and place. Its text is left out: it may hold a payload."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = "" if frame is None else f" at {Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
    note(f"polyc: error: internal: {type(error).__name__}{place}: a bug of ours")
    note("polyc: hint: POLYC_DEBUG=1 shows where it came from")


def is_terminal() -> bool:
    """Whether a person watches stderr: progress is drawn only then."""
    return sys.stderr.isatty()


class Progress(Protocol):
    """Counts done work; `total` may grow while it goes."""

    def advance(self, steps: int = 1) -> None:
        """Count finished steps."""

    def reach(self, steps: int) -> None:
        """Say how many steps are finished by now."""

    def expect(self, total: int) -> None:
        """Say how many steps there will be."""


class _Silent:
    def advance(self, steps: int = 1) -> None:
        """Nobody watches."""

    def reach(self, steps: int) -> None:
        """Nobody watches."""

    def expect(self, total: int) -> None:
        """Nobody watches."""


@contextmanager
def progress(title: str, *, total: int | None = None) -> Iterator[Progress]:
    """A progress bar on a terminal's stderr, nothing elsewhere."""
    if not is_terminal():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)

        class _Drawn:
            def advance(self, steps: int = 1) -> None:
                bar.advance(task, steps)

            def reach(self, steps: int) -> None:
                bar.update(task, completed=steps)

            def expect(self, total: int) -> None:
                bar.update(task, total=total)

        yield _Drawn()
