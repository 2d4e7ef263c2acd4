"""The trusted engine: a DuckDB that runs our fixed statements only, never a person's text.

Opened on first use (after a fork), one thread, no extension is ever loaded by itself, time zone UTC.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import pyarrow as pa

BATCH_ROWS = 65_536


class Engine:
    """A lazily opened in-memory DuckDB; every statement runs on a cursor of its own."""

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads
        self._connection: duckdb.DuckDBPyConnection | None = None

    def table(
        self,
        statement: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        registered: Mapping[str, pa.Table] | None = None,
    ) -> pa.Table:
        """The whole answer."""
        cursor = self._cursor(registered)
        try:
            answer = cursor.sql(statement, params=dict(parameters)) if parameters else cursor.sql(statement)
            return answer.to_arrow_table(BATCH_ROWS)
        finally:
            cursor.close()

    def batches(self, statement: str, *, registered: Mapping[str, pa.Table] | None = None) -> Iterator[pa.RecordBatch]:
        """The answer batch by batch; the cursor closes when the iterator does."""
        cursor = self._cursor(registered)
        try:
            yield from cursor.sql(statement).to_arrow_reader(BATCH_ROWS)
        finally:
            cursor.close()

    def close(self) -> None:
        """Give the engine's memory back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _cursor(self, registered: Mapping[str, pa.Table] | None) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = duckdb.connect(
                ":memory:",
                config={
                    "threads": self._threads,
                    "autoload_known_extensions": False,
                    "autoinstall_known_extensions": False,
                    "allow_community_extensions": False,
                    "python_enable_replacements": False,
                },
            )
            self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
            self._connection.execute("SET GLOBAL parquet_metadata_cache = true")
        cursor = self._connection.cursor()
        for name, table in (registered or {}).items():
            cursor.register(name, table)
        return cursor


def literal(text: str) -> str:
    """A SQL string literal.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def read_parquet(paths: list[str], *, filename: bool = False) -> str:
    """The table function over exactly these files, every option spelled out."""
    files = ", ".join(literal(path) for path in paths)
    return f"read_parquet([{files}], filename={str(filename).lower()}, hive_partitioning=false, union_by_name=false)"
