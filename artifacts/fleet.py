"""The fleet's rows as files: what a sealed engine that may see everything is given (artifacts.md, "Admission").

Files without superseded rows are read as they are; the others through an anti-join on (filename, partition), which
is exact for row tables and for state tables (the newest pack of a partition holds all its state rows).
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow as pa

from artifacts.engine import literal, read_parquet
from artifacts.files import PackFiles
from artifacts.layers import Layers
from artifacts.layout import TableSpec
from artifacts.schema import PARTITION
from polyc.limits import DEAD_LITERALS_MAX

DEAD_PREFIX: Final = "superseded_"


class FleetSource(msgspec.Struct, frozen=True, kw_only=True):
    """A table's files; `dead` are the (filename, partition) pairs of `dirty` files whose rows are superseded."""

    spec: TableSpec
    clean: tuple[str, ...]
    dirty: tuple[str, ...]
    dead: pa.Table

    @property
    def paths(self) -> tuple[str, ...]:
        """All files that are read: what the sandbox must allow."""
        return (*self.clean, *self.dirty)

    @property
    def dead_name(self) -> str | None:
        """The name `dead` must be registered under, or None when the view carries the pairs itself."""
        return f"{DEAD_PREFIX}{self.spec.name}" if self.dead.num_rows > DEAD_LITERALS_MAX else None

    def view_sql(self, columns: Sequence[str] | None = None) -> str:
        """The SELECT of all live rows, for `CREATE VIEW … AS`."""
        chosen = ", ".join(f'"{name}"' for name in columns or self.spec.column_names)
        parts = []
        if self.clean:
            parts.append(f"SELECT {chosen} FROM {read_parquet(list(self.clean))}")
        if self.dirty:
            parts.append(
                f"SELECT {chosen} FROM {read_parquet(list(self.dirty), filename=True)} AS f "
                f'ANTI JOIN {self._dead_relation()} AS d ON f.filename = d.dead_file AND f."{PARTITION}" = d.dead_name'
            )
        return " UNION ALL ".join(parts) if parts else self._empty(columns or self.spec.column_names)

    def _dead_relation(self) -> str:
        if self.dead_name is not None:
            return f'"{self.dead_name}"'
        pairs = zip(self.dead.column(0).to_pylist(), self.dead.column(1).to_pylist(), strict=True)
        values = ", ".join(f"({literal(file)}, {literal(name)})" for file, name in pairs)
        return f"(SELECT * FROM (VALUES {values}) AS v(dead_file, dead_name))"

    def _empty(self, columns: Sequence[str]) -> str:
        types = {column.name: column.type for column in self.spec.columns}
        chosen = ", ".join(f'CAST(NULL AS {types[name]}) AS "{name}"' for name in columns)
        return f"SELECT {chosen} WHERE false"


def plan_fleet(files: PackFiles, layers: Layers, spec: TableSpec) -> FleetSource:
    """Sort the table's files into clean ones and ones with superseded rows; drop those with nothing live."""
    dead_by_pack = layers.dead(spec.family)
    clean: list[str] = []
    dirty: list[str] = []
    dead_files: list[str] = []
    dead_names: list[str] = []
    for pack_id, index in layers.packs():
        if spec.name not in files.description(pack_id).files:
            continue
        counts = {name: index.count(spec.name, index.row_of[name]) for name in dead_by_pack.get(pack_id, ())}
        dead = sorted(name for name, rows in counts.items() if rows)
        if dead and sum(counts.values()) == files.description(pack_id).files[spec.name].rows:
            continue
        path = str(files.table(pack_id, spec.name))
        (dirty if dead else clean).append(path)
        dead_files += [path] * len(dead)
        dead_names += dead
    pairs = pa.table({"dead_file": pa.array(dead_files, pa.string()), "dead_name": pa.array(dead_names, pa.string())})
    return FleetSource(spec=spec, clean=tuple(clean), dirty=tuple(dirty), dead=pairs)
