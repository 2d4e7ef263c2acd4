"""Answers on stdout: a table for a person, one JSON object a row for a pipe, CSV, or an Arrow stream.

Cells come as the Query edge spells them in JSON (exact: integers beyond 2^53 and decimals are text). Nothing is
rounded, and nothing is cut except in tables, which say so.
"""

import csv
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from polyc.cli import paging
from polyc.errors import RefusedError

Format = Literal["table", "json", "csv", "arrow"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
TABLE_CELL_CHARACTERS_MAX: Final = 400  # a person's screen; other formats give everything
UNBOUNDED_WIDTH: Final = 10_000  # a file has no edge to wrap at
_encoder: Final = msgspec.json.Encoder()


def chosen_format(option: Format | None) -> Format:
    """The option, else a table on a terminal and JSON lines in a pipe."""
    return option or ("table" if sys.stdout.isatty() else "json")


def write_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, form: Format) -> None:
    """Write rows of JSON cells to stdout in one of the textual forms."""
    match form:
        case "json":
            _write_json(columns, rows)
        case "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(["" if cell is None else cell_text(cell) for cell in row] for row in rows)
        case "table":
            _write_table(columns, list(rows))
        case "arrow":
            raise AssertionError("Arrow is written as batches, not as rows")


def write_object(value: Any) -> None:
    """Write one JSON object on one line."""
    sys.stdout.write(_encoder.encode(value).decode() + "\n")


def cell_text(cell: Any) -> str:
    """A cell as text: strings as they are, everything else as JSON.

    >>> cell_text("a"), cell_text(True), cell_text([1, None]), cell_text(2.5)
    ('a', 'true', '[1,null]', '2.5')
    """
    return cell if isinstance(cell, str) else _encoder.encode(cell).decode()


def shown(text: str) -> str:
    r"""Text for a screen: control characters, which could move a terminal's cursor, as escapes; long text cut and told.

    >>> shown("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    safe = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
    if len(safe) <= TABLE_CELL_CHARACTERS_MAX:
        return safe
    return f"{safe[:TABLE_CELL_CHARACTERS_MAX]}… ({len(text)} characters)"


def _write_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """One object a row; two columns of one name cannot both be keys, so they are refused (ruling 31)."""
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise RefusedError(f"two columns are named {repeated[0]}", hint="name them apart with AS, or use --format csv")
    for row in rows:
        write_object(dict(zip(columns, row, strict=True)))


def _write_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for position, name in enumerate(columns):
        cells = [row[position] for row in rows if row[position] is not None]
        numeric = bool(cells) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)
        table.add_column(Text(shown(name)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else shown(cell_text(cell))) for cell in row))
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else UNBOUNDED_WIDTH, highlight=False)
    with console.capture() as captured:
        console.print(table)
    paging.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
