"""Runs the command line in this process and keeps what it said."""

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyc.cli.main import main

RELATIONS_PER_STATEMENT = 14  # three statements for the whole catalog, each within the bound of a statement's size


@dataclass(frozen=True)
class Said:
    """The exit code, the data and the rest."""

    code: int
    out: bytes
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The answer's rows; fails with what was said on stderr when there is none."""
        assert self.code == 0, self.err
        return [json.loads(line) for line in self.out.splitlines()]


def polyc(root: Path, *arguments: str) -> Said:
    """`polyc --data-root ROOT ARGUMENTS…`."""
    out, err = io.BytesIO(), io.StringIO()
    text = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(err):
        code = main(["--data-root", str(root), *arguments])
    text.flush()
    return Said(code, out.getvalue(), err.getvalue())


def ask(root: Path, sql: str, *options: str) -> list[dict[str, Any]]:
    """The rows of a statement, asked as an admin unless told otherwise."""
    return polyc(root, "query", "--format", "json", *(options or ("--admin",)), sql).rows


def relations_holding(root: Path, text: str) -> list[str]:
    """Every table and view of the fleet in which some cell holds the text.

    The statement names the text in two halves: the audit keeps statements, and would otherwise find itself.
    """
    from facts.catalog import TABLES, VIEWS

    half = len(text) // 2
    needle = f"'%{text[:half]}' || '{text[half:]}%'"
    searches = []
    for relation in (*TABLES.values(), *VIEWS.values()):
        cells = ", ".join(f'CAST("{column.name}" AS VARCHAR)' for column in relation.columns if column.type != "BLOB")
        holds = f"concat_ws(' ', {cells}) LIKE {needle}"
        searches.append(f"SELECT '{relation.name}' AS name, COUNT(*) AS n FROM {relation.name} WHERE {holds}")
    found = []
    for start in range(0, len(searches), RELATIONS_PER_STATEMENT):
        rows = ask(root, " UNION ALL ".join(searches[start : start + RELATIONS_PER_STATEMENT]))
        assert len(rows) == len(searches[start : start + RELATIONS_PER_STATEMENT])
        found += [row["name"] for row in rows if row["n"]]
    return sorted(found)
