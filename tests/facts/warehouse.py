"""Rows in DuckDB: the tables of the catalog as the engine sees them, with the views over them."""

import duckdb

from facts.catalog import TABLES, VIEWS


def warehouse(*all_rows, json="JSON"):
    """A connection with every table and view, and these folds' rows in them; `json` is the type of JSON columns."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for table in TABLES.values():
        columns = ", ".join(
            f'"{column.name}" {json if column.type == "JSON" else column.type}' for column in table.columns
        )
        connection.execute(f"CREATE TABLE {table.name} ({columns})")
    for rows in all_rows:
        for name, found in rows.items():
            if found:
                marks = ", ".join("?" * len(TABLES[name].columns))
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", found)
    for view in VIEWS.values():
        connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
    return connection
