"""The sealed engine of one worker: opened, filled, locked, read-only (query-plane.md, "Worker").

The order matters and was tried on DuckDB 2.0.1: open with every option spelled out; then the kernel's walls, before
the engine has a thread that could stay outside of them; register the admitted rows and create our views, then take
away files, then lock the configuration, then begin the one read-only transaction. A setting that is set later, or
before the views, protects nothing (B08).
"""

import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from query_plane.scanning import Scanned
from query_plane.seal import Sandbox, restrict
from query_plane.wire import Run, Source

# What the engine looks up before it starts threads that read files; no statement may name them (`allowed_paths`).
_PROCESSOR_LIMITS: Final = ("/proc/self/cgroup", "/sys/fs/cgroup")
SERIALIZE: Final = "SELECT json_serialize_sql(CAST(? AS VARCHAR))"


def open_engine(*, memory_limit_bytes: int) -> duckdb.DuckDBPyConnection:
    """A fresh in-memory engine that extends, finds and remembers nothing by itself, and starts no thread.

    Without a thread of its own it survives a fork; whatever threads it gets later are behind the walls of `seal`.
    """
    return duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "async_threads": 0,
            "memory_limit": f"{memory_limit_bytes}B",
            "temp_directory": "",
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "allow_community_extensions": "false",
            "allow_unsigned_extensions": "false",
            "allow_persistent_secrets": "false",
            "python_enable_replacements": "false",
            "python_scan_all_frames": "false",
        },
    )


def warm_up(engine: duckdb.DuckDBPyConnection) -> None:
    """Load what the first statement would load, while files can still be read."""
    serialize(engine, "SELECT 1")
    engine.execute("SET GLOBAL TimeZone='UTC'")
    rows = pa.table({"i": pa.array([1], pa.int64()), "t": pa.array([0], pa.timestamp("us", tz="UTC"))})
    engine.register("warm_up", _Rows(rows))
    relation = engine.sql(
        "SELECT i::VARCHAR AS a, t, strftime(t, '%Y') AS y FROM warm_up WHERE i = $i", params={"i": 1}
    )
    relation.to_arrow_reader(1).read_all()
    engine.unregister("warm_up")


def serialize(engine: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The engine's own tree of a text, as JSON; nothing is bound."""
    ((tree,),) = engine.execute(SERIALIZE, [sql]).fetchall()  # all: an unread end keeps the connection busy
    return str(tree)


def lock(engine: duckdb.DuckDBPyConnection, run: Run, descriptors: Sequence[int], *, sandbox: Sandbox) -> list[Scanned]:
    """Lock the process, fill the engine, lock the engine: what is not in it or not admitted is out of reach now.

    Returns the sources that each scan reads anew.
    """
    limits = [path for path in _PROCESSOR_LIMITS if Path(path).exists()] if run.paths else []
    restrict([*run.paths, *limits], sandbox=sandbox)
    scanned = fill(engine, run.sources, descriptors)
    seal(engine, paths=run.paths, deadline_ms=run.deadline_ms, threads=run.threads)
    return scanned


def fill(engine: duckdb.DuckDBPyConnection, sources: Sequence[Source], descriptors: Sequence[int]) -> list[Scanned]:
    """Make each source: admitted rows from their memory file or through their door, or a view of ours."""
    scanned: list[Scanned] = []
    for source in sources:
        name = '"' + source.name.replace('"', '""') + '"'
        if source.descriptor is not None and source.schema is not None:
            schema = pa.ipc.read_schema(pa.py_buffer(source.schema))
            scanned.append(Scanned(descriptors[source.descriptor], schema))
            engine.register(source.name, scanned[-1])
        elif source.descriptor is not None:
            engine.register(source.name, _Rows(_admitted(descriptors[source.descriptor])))
        else:
            engine.execute(f"CREATE TEMP VIEW {name} AS {source.view}")
    return scanned


def seal(engine: duckdb.DuckDBPyConnection, *, paths: Sequence[str], deadline_ms: int, threads: int) -> None:
    """Lock the engine; what it can read from here on is what `fill` made."""
    if paths:
        # On a machine whose limits cannot be looked up, files are read by `threads` alone.
        with suppress(duckdb.IOException):
            engine.execute(f"SET async_threads={4 * threads:d}")  # the engine's own default; they wait for files
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    engine.execute(
        f"SET threads={threads:d};"
        f"SET max_execution_time={deadline_ms:d};"
        "SET errors_as_json=true;"
        + (f"SET allowed_paths=[{listed}];" if paths else "")
        + "SET enable_external_access=false;"
        + ("" if paths else "SET disabled_filesystems='LocalFileSystem';")
        + "SET lock_configuration=true;"
        "BEGIN TRANSACTION READ ONLY"
    )


class _Rows:
    """Admitted rows as a re-scannable Arrow stream: a self join scans twice, LIMIT pulls one batch.

    Handed over as a stream, not as a table: the engine then filters by itself and nothing is pushed into Arrow.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def _admitted(descriptor: int) -> pa.Table:
    """The rows of a memory file, mapped and not copied."""
    size = os.fstat(descriptor).st_size
    buffer = pa.py_buffer(mmap.mmap(descriptor, size, prot=mmap.PROT_READ))
    os.close(descriptor)
    return pa.ipc.open_stream(buffer).read_all()
