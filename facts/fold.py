"""What a fold is: a pure, incremental function from the records of one partition to rows.

No clock, no chance, no I/O, no engine, no logging. `apply` and `apply_all` take records in order, each once; `rows`
gives the rows of every table the fold fills as they stand now, as tuples in the catalog's column order, ordered by
position (state tables: by key). Applying one by one, in batches or after `resume(snapshot())` gives equal rows.

A fold that raised CorruptError stands before the poison record and takes nothing beyond it: applying it again raises
again. A fold refers to nothing that refers back to it, so dropping it frees its rows at once.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from polyc.entry import Record

Row = tuple[Any, ...]  # a column is text, int, bool, datetime, Decimal, bytes or None; the catalog says which
Rows = dict[str, list[Row]]


class Fold(Protocol):
    """One partition's way from records to rows."""

    @property
    def position(self) -> int:
        """The position of the last record that was applied wholly; 0 before the first."""

    def apply(self, record: Record) -> None:
        """Take the next record; CorruptError (with its place) for a poison event."""

    def apply_all(self, records: Iterable[Record]) -> None:
        """Take the next records, as if one by one, at a fraction of the cost; those before a poison event count."""

    def rows(self) -> Rows:
        """The rows as of the records applied so far, by table name; tables without rows may be absent."""

    def snapshot(self) -> bytes:
        """The fold's state; an optimisation, never evidence."""
