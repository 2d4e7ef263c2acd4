"""A journal, a store and the projector between them, with the counting meaning: what tests of artifacts start from."""

import functools
import shutil
import tempfile
import weakref
from pathlib import Path

import duckdb
import pyarrow as pa

from artifacts.layout import LayoutParameters, TableSpec
from artifacts.memory import MemoryStore
from artifacts.reader import Generation, Reader
from artifacts.store import DirectoryStore, Store
from polyc.ids import SeededIds
from projector.meaning import Meaning
from projector.publish import Projector
from tests.support import counting_meaning
from tests.support.memory_journal import MemoryJournal


class Archive:
    def __init__(
        self,
        path: Path | None = None,
        *,
        store: Store | None = None,
        journal: MemoryJournal | None = None,
        layout: LayoutParameters | None = None,
        meaning: Meaning | None = None,
        cache: Path | None = None,
    ) -> None:
        self.journal = journal or MemoryJournal()
        self.store: Store = store or (MemoryStore(self.journal.clock) if path is None else DirectoryStore(path))
        self.cache = cache or Path(tempfile.mkdtemp(prefix="polyc-cache-"))
        if cache is None:
            weakref.finalize(self, shutil.rmtree, self.cache, ignore_errors=True)
        self.layout = layout
        self.meaning = meaning or counting_meaning.meaning()
        self.projector = self.new_projector("projector")

    def new_projector(self, seed: str, *, store: Store | None = None, meaning: Meaning | None = None) -> Projector:
        return Projector(
            self.journal,
            store or self.store,
            signer=self.journal.keys.signers["projector"],
            clock=self.journal.clock,
            ids=SeededIds(seed),
            meaning=meaning or self.meaning,
            layout=self.layout,
            cache=self.cache,
            search=False,
        )

    def new_reader(self, seed: str = "reader", *, store: Store | None = None) -> Reader:
        return Reader(
            store or self.store,
            keys=self.journal.keyring,
            clock=self.journal.clock,
            ids=SeededIds(seed),
            origin=self.journal.origin,
            cache=self.cache,
        )

    def latest(self) -> Generation:
        return self.new_reader().latest()

    def converse(self, partition: str, *texts: str, commit: bool = True) -> None:
        drafts = [counting_meaning.say(text) for text in texts]
        self.journal.say(partition, *drafts, *([counting_meaning.COMMIT] if commit else []))

    def publish(self) -> Generation:
        assert self.projector.run_once() is not None
        return self.latest()


def texts(generation: Generation, *partitions: str) -> list[str]:
    """The admitted note texts, in order of partition and position."""
    table = generation.admit(counting_meaning.NOTES, partitions=partitions)
    return [row["text"] for row in in_order(table)]


def in_order(table: pa.Table) -> list[dict[str, object]]:
    keys = [(name, "ascending") for name in ("partition", "position") if name in table.column_names]
    return table.sort_by(keys).to_pylist()


def fleet(generation: Generation, spec: TableSpec) -> list[dict[str, object]]:
    """The fleet's rows of a table, read by an engine of the test's own."""
    source = generation.fleet_sources(spec)
    cursor = _engine().cursor()
    if source.dead_name:
        cursor.register(source.dead_name, source.dead)
    return in_order(cursor.sql(f'SELECT * FROM ({source.view_sql()}) AS "{spec.name}"').to_arrow_table())


@functools.cache
def _engine() -> duckdb.DuckDBPyConnection:
    engine = duckdb.connect(config={"threads": 1})
    engine.execute("SET GLOBAL TimeZone = 'UTC'")
    return engine


def contents(generation: Generation) -> dict[str, tuple[str, int, bytes, bytes]]:
    """Incarnation, position and content digests of every partition."""
    rows = {name: generation.layers.newest(name) for name in generation.partitions()}
    return {name: (r.incarnation, r.to_position, r.content, r.state) for name, r in rows.items() if r is not None}
