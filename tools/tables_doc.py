"""Writes docs/tables.md from the catalog; `--check` exits 1 when the page is stale."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from facts.catalog import TABLES, VIEWS, Column, Table, View

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "tables.md"
INTRODUCTION: Final = """\
# Tables and views

<!-- written by tools/tables_doc.py; change facts/catalog_*.py instead -->

What a query may name. *Realm* says who: a participant's grant names the participant tables, a fleet grant names all;
which partitions' rows appear is the grant's scope. *Gate* says when a row exists: `committed turns` means that the
turn has its start and its end; the rest is not of turns. Times are UTC, to the microsecond. Every example runs in the
tests. How rows come to be: [fact-model.md](fact-model.md).

In the conversation's tables a call is named by `{partition}:{native id}` (`#2` and so on for a repeat), so that a
join on it never meets another conversation; the provider's own id stands beside it.
"""


def main() -> int:
    """Write or check the page."""
    page = render()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text() != page:
            print("docs/tables.md is stale: run python -m tools.tables_doc")
            return 1
        return 0
    PAGE.write_text(page)
    return 0


def render() -> str:
    """The whole page."""
    tables = sorted(TABLES.values(), key=lambda table: (table.realm == "fleet", table.name))
    parts = [INTRODUCTION, _contents(tables), *map(_table, tables), "\n# Views\n", *map(_view, VIEWS.values())]
    return "".join(parts)


def _contents(tables: list[Table]) -> str:
    head = "\n| table | realm | gate | one row |\n| --- | --- | --- | --- |\n"
    lines = [
        f"| [{table.name}](#{table.name}) | {table.realm} | {_gate(table)} | {_one_row(table)} |\n" for table in tables
    ]
    lines += [
        f"| [{view.name}](#{view.name}) (view) | {view.realm} | as its tables | {_one_row(view)} |\n"
        for view in VIEWS.values()
    ]
    return head + "".join(lines)


def _one_row(item: Table | View) -> str:
    return item.description.split(".", maxsplit=1)[0].removeprefix("One row ")


def _gate(table: Table) -> str:
    return "committed turns" if table.gated else "–"


def _table(table: Table) -> str:
    kind = (
        "rows never change once written"
        if table.family == "row"
        else f"the last word counts, by {', '.join(table.key)}"
    )
    head = f"\n## {table.name}\n\n{table.description}\n\nRealm {table.realm} · gate {_gate(table)} · {kind}\n"
    return head + _columns(table.columns) + _example(table.example)


def _view(view: View) -> str:
    head = f"\n## {view.name}\n\n{view.description}\n\nRealm {view.realm} · over {', '.join(view.tables)}\n"
    return head + _columns(view.columns) + _example(view.example)


def _columns(columns: tuple[Column, ...]) -> str:
    return "\n| column | type | unit | meaning |\n| --- | --- | --- | --- |\n" + "".join(_rows(columns))


def _rows(columns: tuple[Column, ...]) -> Iterator[str]:
    for column in columns:
        yield f"| {column.name} | {column.type} | {column.unit} | {column.description} |\n"


def _example(statement: str) -> str:
    return f"\n```sql\n{statement}\n```\n"


if __name__ == "__main__":
    sys.exit(main())
