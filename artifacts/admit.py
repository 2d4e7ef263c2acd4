"""Admission: exactly the live rows of the admitted partitions, by one fixed statement of ours (artifacts.md).

The index says which file holds how many live rows of which partition. The statement reads those files where
(file, partition) is one of the pairs; the answer is counted, partition by partition, against the index, and any
difference fails closed. The engine that runs a person's statement never sees a file, nor a row that is not here.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from artifacts.engine import Engine, literal, read_parquet
from artifacts.files import PackFiles
from artifacts.layers import Piece
from artifacts.layout import TableSpec
from artifacts.schema import PARTITION, arrow_schema
from polyc.errors import CorruptError, RefusedError
from polyc.limits import ADMISSION_SIZE_BYTES_MAX, SCOPE_LITERALS_MAX

SCOPE_NAME: Final = "admitted_pairs"


class Admission:
    """What one table admits for one scope: counted before it is read, and again while it is read."""

    def __init__(
        self,
        files: PackFiles,
        engine: Engine,
        spec: TableSpec,
        *,
        pieces: Sequence[Piece],
        dead: Mapping[str, frozenset[str]],
        columns: Sequence[str],
    ) -> None:
        self._files = files
        self._engine = engine
        self._spec = spec
        self._columns = tuple(columns)
        self._expected: dict[str, int] = {}
        for piece in pieces:
            self._expected[piece.partition] = self._expected.get(piece.partition, 0) + piece.rows
        self._paths = {
            pack_id: str(files.table(pack_id, spec.name)) for pack_id in dict.fromkeys(p.pack_id for p in pieces)
        }
        self._pieces = pieces
        self._dead = dead

    @property
    def rows(self) -> int:
        """How many rows the index admits."""
        return sum(self._expected.values())

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that would be read."""
        return tuple(self._paths.values())

    @property
    def schema(self) -> pa.Schema:
        """The schema of what is handed over."""
        whole = arrow_schema(self._spec)
        return pa.schema([whole.field(name) for name in self._columns])

    @cached_property
    def size_bytes(self) -> int:
        """An estimate from the files' footers: their uncompressed columns, by the share of rows admitted."""
        live: dict[str, int] = {}
        for piece in self._pieces:
            live[piece.pack_id] = live.get(piece.pack_id, 0) + piece.rows
        total = 0
        for pack_id, rows in live.items():
            sizes = self._files.column_sizes(pack_id, self._spec.name)
            size = sum(sizes.bytes_by_column.get(column, 0) for column in self._columns)
            total += size * rows // max(1, sizes.rows)
        return total + 8 * self.rows * len(self._columns)

    def table(self, *, budget_bytes: int = ADMISSION_SIZE_BYTES_MAX) -> pa.Table:
        """All rows at once; RefusedError when they are estimated, or turn out, to exceed the budget."""
        if self.size_bytes > budget_bytes:
            raise _over_budget()
        batches, size = [], 0
        for batch in self.batches():
            size += batch.nbytes
            if size > 2 * budget_bytes:  # the estimate is an average: a scope may hold the longest texts
                raise _over_budget()
            batches.append(batch)
        return pa.Table.from_batches(batches, self.schema)

    def stream(self) -> "AdmittedStream":
        """An object engines can scan as often as they like; every scan reads, and counts, anew."""
        return AdmittedStream(self)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch; the last step raises CorruptError when they are not exactly the index's."""
        if not self._expected:
            return
        schema, counted = self.schema, dict.fromkeys(self._expected, 0)
        statement, registered = self._statement()
        for batch in self._engine.batches(statement, registered=registered):
            for item in pc.value_counts(batch.column(0)).to_pylist():
                name = item["values"]
                if name not in counted:
                    raise self._difference()
                counted[name] += item["counts"]
            yield batch.select(range(1, batch.num_columns)).cast(schema)
        if counted != self._expected:
            raise self._difference()

    def _statement(self) -> tuple[str, dict[str, pa.Table]]:
        """The fixed statement: the partition first (for counting), then the columns asked for."""
        chosen = ", ".join(f'"{name}"' for name in (PARTITION, *self._columns))
        paths = list(self._paths.values())
        clean = not any(self._dead.get(pack_id, frozenset()) & self._expected.keys() for pack_id in self._paths)
        if clean and len(self._expected) <= SCOPE_LITERALS_MAX:
            names = ", ".join(literal(name) for name in self._expected)
            return f'SELECT {chosen} FROM {read_parquet(paths)} WHERE "{PARTITION}" IN ({names})', {}
        pairs = pa.table(
            {
                "file": pa.array([self._paths[piece.pack_id] for piece in self._pieces], pa.string()),
                "name": pa.array([piece.partition for piece in self._pieces], pa.string()),
            }
        )
        statement = (
            f"SELECT {chosen} FROM {read_parquet(paths, filename=True)} AS f "
            f'SEMI JOIN {SCOPE_NAME} AS s ON f."{PARTITION}" = s.name AND f.filename = s.file'
        )
        return statement, {SCOPE_NAME: pairs}

    def _difference(self) -> CorruptError:
        return CorruptError("admitted rows are not the ones the index counts", place=self._spec.name, kind="admission")


class AdmittedStream:
    """A re-scannable Arrow stream (a bare RecordBatchReader is empty on its second scan)."""

    def __init__(self, source: Admission) -> None:
        self._source = source
        self.schema = source.schema

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self.schema, self._source.batches())
        return reader.__arrow_c_stream__(requested_schema)


def plan_admission(
    files: PackFiles,
    engine: Engine,
    spec: TableSpec,
    *,
    pieces: Sequence[Piece],
    dead: Mapping[str, frozenset[str]],
    columns: Sequence[str] | None,
) -> Admission:
    """The admission of these pieces; the columns are the table's, in the order asked for (none: the partition)."""
    chosen = spec.column_names if columns is None else tuple(columns) or (PARTITION,)
    unknown = set(chosen) - set(spec.column_names)
    assert not unknown, "columns were checked against the catalog"
    return Admission(files, engine, spec, pieces=pieces, dead=dead, columns=chosen)


def _over_budget() -> RefusedError:
    return RefusedError(
        "the scope holds more than can be admitted at once",
        code="resource_exhausted",
        hint="name fewer columns or conversations",
    )
