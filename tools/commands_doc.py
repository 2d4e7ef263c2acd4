"""Writes docs/commands.md from the command line's own grammar; `--check` exits 1 when the page is stale."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from polyc.cli.parser import build_parser

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
INTRODUCTION: Final = """\
# The command line

<!-- written by tools/commands_doc.py; change polyc/cli/parser.py instead -->

Data goes to stdout, everything else to stderr. Exit codes: 0 ok, 1 refused or failed, 2 usage, 3 evidence corrupt.
Errors read `polyc: error: CODE: message`, followed by `polyc: hint: …` when there is something to do about it; the
codes are those of the Connect protocol, the same over HTTP. Progress is drawn on a terminal only. Secrets never come
as arguments. `--data-root DIR` (or the environment's `POLYC_HOME`) chooses the deployment and may stand before or
after the command; the default is `~/.local/share/polychrome`. `--help` follows every command; `polyc --version` tells
the version.
"""


def main() -> int:
    """Write or check the page."""
    page = render(build_parser())
    if "--check" in sys.argv:
        if PAGE.read_text() != page:
            print("docs/commands.md is stale: run python tools/commands_doc.py")
            return 1
        return 0
    PAGE.write_text(page)
    return 0


def render(parser: argparse.ArgumentParser) -> str:
    """The whole page."""
    return INTRODUCTION + "".join(f"\n{section}" for section in sections_of(parser))


def sections_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """One section a command that runs."""
    for child in children_of(parser):
        if list(children_of(child)):
            yield from sections_of(child)
            continue
        rows = "".join(f"| {row} |\n" for row in rows_of(child))
        example = (child.epilog or "").removeprefix("example:\n").strip()
        table = f"\n| argument | meaning |\n| --- | --- |\n{rows}" if rows else ""
        yield f"## {child.prog}\n\n{child.description}\n{table}\n```\n$ {example}\n```\n"


def children_of(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The commands one level down."""
    for action in parser._actions:  # noqa: SLF001 argparse offers no other way to list what it was told
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 same
            yield from dict.fromkeys(action.choices.values())


def rows_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """One row an argument; what every command has is told once, above."""
    for action in parser._actions:  # noqa: SLF001 same
        if action.dest in ("help", "data_root"):
            continue
        value = f" {action.metavar}" if action.metavar else f" {'/'.join(action.choices)}" if action.choices else ""
        name = f"{', '.join(action.option_strings)}{value}" if action.option_strings else str(action.metavar)
        yield f"`{name}` | {action.help}".replace("%", "%")


if __name__ == "__main__":
    sys.exit(main())
