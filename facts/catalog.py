"""The catalog as data: which tables there are, with columns, types, realm, gate and meaning (data-model.md, "Tables").

One source for Arrow schemas, `DescribeCatalog`, the gate's names, the folds' row order and docs/tables.md.
Nothing here imports an engine; the SQL of a view is text.
"""

from collections.abc import Iterator
from typing import Final

from facts import catalog_conversation, catalog_fleet, catalog_money, catalog_views
from facts.columns import Column, ColumnType, Realm, Table, View

__all__ = ["TABLES", "VIEWS", "Column", "ColumnType", "Realm", "Table", "View", "describe", "visible"]


def _named(*groups: tuple[Table, ...]) -> dict[str, Table]:
    tables = {table.name: table for group in groups for table in group}
    assert len(tables) == sum(len(group) for group in groups), "a table is defined once"
    return tables


TABLES: Final[dict[str, Table]] = _named(catalog_conversation.TABLES, catalog_money.TABLES, catalog_fleet.TABLES)
VIEWS: Final[dict[str, View]] = {view.name: view for view in catalog_views.VIEWS}
assert not TABLES.keys() & VIEWS.keys(), "a name is a table or a view"


def visible(realm: Realm) -> tuple[str, ...]:
    """The names a realm may use, sorted: tables and views; fleet sees all.

    >>> "turns" in visible("participant"), "signer_keys" in visible("participant"), "signer_keys" in visible("fleet")
    (True, False, True)
    """
    return tuple(sorted(item.name for item in describe() if realm == "fleet" or item.realm == "participant"))


def describe() -> Iterator[Table | View]:
    """Every table and view, tables first."""
    yield from TABLES.values()
    yield from VIEWS.values()
