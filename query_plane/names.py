"""Which names a realm may use: the gate's relations, DescribeCatalog's tables, a view's tables.

The catalog (`facts.catalog`) is data; nothing here decides who may see what beyond a table's realm.
"""

from collections.abc import Iterable
from functools import cache
from typing import Final

from artifacts.layout import TableSpec, spec_of
from facts.catalog import TABLES, VIEWS, Table, View, visible
from polyc.grants import Realm
from query_plane.answer import Catalog, ColumnInfo, TableInfo
from query_plane.functions import FUNCTIONS

PARTICIPATION: Final = "persona_participation"


@cache
def relations_of(realm: Realm) -> dict[str, list[str]]:
    """The tables and views of the realm with their columns."""
    return {name: [column.name for column in _relation(name).columns] for name in visible(realm)}


@cache
def spec(table: str) -> TableSpec:
    """The table as the artifacts know it."""
    return spec_of(TABLES[table])


def view_of(name: str) -> View | None:
    """The view of this name, None for a table."""
    return VIEWS.get(name)


@cache
def catalog_of(realm: Realm) -> Catalog:
    """What DescribeCatalog tells a grant of this realm."""
    return Catalog(realm=realm, tables=tuple(_described(visible(realm))), functions=tuple(sorted(FUNCTIONS)))


def _described(names: Iterable[str]) -> Iterable[TableInfo]:
    for name in names:
        relation = _relation(name)
        columns = tuple(
            ColumnInfo(name=column.name, type=column.type, description=column.description, unit=column.unit)
            for column in relation.columns
        )
        yield TableInfo(
            name=name,
            description=relation.description,
            realm=relation.realm,
            kind="view" if name in VIEWS else "table",
            columns=columns,
            example=relation.example,
        )


def _relation(name: str) -> Table | View:
    return VIEWS[name] if name in VIEWS else TABLES[name]
