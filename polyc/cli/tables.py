"""`polyc tables`: which tables and views a realm may name, and what their columns mean. Reads the catalog, no data."""

from argparse import Namespace
from collections.abc import Iterator

from facts.catalog import TABLES, VIEWS, Table, View, visible
from polyc.cli.output import chosen_format, write_rows
from polyc.errors import RefusedError


def run(arguments: Namespace) -> int:
    """List the tables, or one table's columns."""
    names = visible("fleet" if arguments.admin else "participant")
    form = chosen_format(arguments.format)
    if arguments.table is None:
        write_rows(("table", "realm", "columns", "description"), tables_of(names), form=form)
        return 0
    if arguments.table not in names:
        raise RefusedError(
            f"no table {arguments.table}", code="not_found", hint="polyc tables lists them; --admin the fleet's too"
        )
    relation = relation_of(arguments.table)
    rows = ((column.name, column.type, column.unit or None, column.description) for column in relation.columns)
    write_rows(("column", "type", "unit", "description"), rows, form=form)
    return 0


def tables_of(names: "frozenset[str] | tuple[str, ...]") -> Iterator[tuple[str, str, int, str]]:
    """One row a table or view, by name."""
    for name in sorted(names):
        relation = relation_of(name)
        yield name, relation.realm, len(relation.columns), relation.description


def relation_of(name: str) -> Table | View:
    """The table or view of this name."""
    return TABLES[name] if name in TABLES else VIEWS[name]
