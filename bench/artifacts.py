"""Artifacts: rebuilding, publishing, admitting and reading at several archive sizes, each against a bare peer.

`python -m bench.artifacts 2000 20000 200000` prints the table for these numbers of conversations (synthetic, two turns
each). `measure()` is the small one that `make bench` runs. Search packs are left out: tables are what is compared.
"""

import gc
import hashlib
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from artifacts.layout import LayoutParameters, spec_of
from artifacts.reader import Reader
from artifacts.rowgroups import TableWriter
from artifacts.store import DirectoryStore
from bench.deployment import embedded
from bench.measure import Measurement
from facts.catalog import TABLES
from facts.codec import DECODERS
from facts.partition import open_fold
from facts.trust import Trust
from polyc.appending import Author
from polyc.cli.deployment import Deployment
from polyc.signing import load_signer
from projector.publish import Projector
from tests.support.conversations import conversation, partition_of, turn

TURNS = 2
SPECS = {name: spec_of(table) for name, table in TABLES.items()}
MODEL_COUNT = "SELECT model, count(*) FROM model_call GROUP BY model ORDER BY model"
RECENT = "SELECT * FROM turns LIMIT 5"


def measure() -> list[Measurement]:
    """The lines of `make bench`, at 500 conversations."""
    figures = run(500, rounds=2)
    return [
        Measurement(
            what="rebuild all tables",
            unit="events/s",
            ours=figures["events"] / figures["rebuild_s"],
            peer=figures["events"] / figures["bare_rebuild_s"],
            peer_name="bare loop: read, hash, decode, Arrow, Parquet",
            note="ours also folds, digests contents, indexes, signs and syncs",
        ),
        Measurement(
            what="count model calls of the fleet",
            unit="queries/s",
            ours=1 / figures["fleet_s"],
            peer=1 / figures["bare_fleet_s"],
            peer_name="DuckDB on the same files",
            note="ours reads live rows only, through our view",
        ),
    ]


def run(conversations: int, *, rounds: int = 3) -> dict[str, float]:
    """All figures of one archive size."""
    with tempfile.TemporaryDirectory(prefix="polyc-bench-") as folder, embedded(Path(folder)) as deployment:
        figures: dict[str, float] = {"conversations": conversations}
        figures["events"] = _fill(deployment, conversations)
        store = DirectoryStore(deployment.root.artifacts)
        projector = Projector(
            deployment.journal, store, signer=load_signer(deployment.root.keys / "projector.pem"),
            clock=deployment.clock, ids=deployment.ids, search=False,
        )  # fmt: skip
        figures["rebuild_s"] = _cpu(projector.rebuild)
        figures["bare_rebuild_s"] = _bare_rebuild(deployment, Path(folder))
        generation = projector.artifacts.latest()
        figures["rows"] = sum(generation.row_count(spec) for spec in SPECS.values())
        figures["packs_share"] = (
            sum(e.size_bytes for e in store.list("packs/")) / deployment.root.journal_file.stat().st_size
        )
        figures["cold_open_s"] = _best(
            lambda: _reader(deployment, store).latest().pieces(SPECS["turns"], [partition_of(1)]), rounds
        )
        author = _author(deployment)
        publishes, refreshes, reader = [], [], _reader(deployment, store)
        reader.latest()
        for number in range(7):
            author.append(partition_of(number), turn(number, TURNS, weeks=26))
            publishes.append(_wall(projector.run_once))
            refreshes.append(_wall(reader.latest))
        figures["publish_s"], figures["refresh_s"] = sorted(publishes)[3], sorted(refreshes)[3]
        figures |= _queries(reader, rounds)
        projector.compact()
        figures |= {"compacted_fleet_s": _queries(reader, rounds)["fleet_s"]}
        figures["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return figures


def _fill(deployment: Deployment, conversations: int) -> int:
    author, before = _author(deployment), deployment.journal.size()
    for number in range(conversations):
        author.append(partition_of(number), list(conversation(number, turns=TURNS, words=60)))
    return deployment.journal.size() - before


def _author(deployment: Deployment) -> Author:
    signer = load_signer(deployment.root.keys / "importer.pem")
    return Author(deployment.journal, signer, clock=deployment.clock, ids=deployment.ids)


def _reader(deployment: Deployment, store: DirectoryStore) -> Reader:
    return Reader(store, keys=deployment.journal.keyring, clock=deployment.clock, ids=deployment.ids)


def _bare_rebuild(deployment: Deployment, folder: Path) -> float:
    """The floor, in CPU seconds: read, hash, decode to typed events, Arrow, Parquet — nothing is folded or checked.

    The rows it writes were folded before the clock started: there is no other source of equal rows.
    """
    trust, rows = Trust(keys=deployment.journal.keyring()), dict[str, list[Any]]()
    heads = deployment.journal.partitions()
    for head in heads:
        fold = open_fold(head.partition, trust)
        for record in deployment.journal.read(head.partition):
            fold.apply(record)
        for name, table in fold.rows().items():
            rows.setdefault(name, []).append(table)

    def loop() -> None:
        for head in heads:
            for raw in deployment.journal.read_raw(head.partition):
                hashlib.sha256(b"\x00" + raw.header).digest()
                hashlib.sha256((raw.salt or b"") + (raw.payload or b"")).digest()
                decoder = DECODERS.get(int.from_bytes(raw.header[22:24], "big"))
                if decoder is not None:
                    decoder.decode(raw.payload or b"{}")
        for name, tables in rows.items():
            writer = TableWriter(folder / f"bare-{name}.parquet", SPECS[name], layout=LayoutParameters())
            for table in tables:
                writer.add_rows(table)
            writer.close()

    return _cpu(loop)


def _queries(reader: Reader, rounds: int) -> dict[str, float]:
    generation = reader.latest()
    scope = [partition_of(1)]
    source = generation.fleet_sources(SPECS["model_call"])
    engine = duckdb.connect(config={"threads": 1})
    engine.execute(f"CREATE VIEW model_call AS {source.view_sql()}")
    files = ", ".join(f"'{path}'" for path in source.paths)
    bare = MODEL_COUNT.replace("model_call", f"read_parquet([{files}])")

    def participant() -> None:
        engine.register("turns", generation.admit(SPECS["turns"], partitions=scope))
        engine.execute(RECENT).fetchall()

    def fleet() -> None:
        engine.execute(MODEL_COUNT).fetchall()

    def peer() -> None:
        engine.execute(bare).fetchall()

    try:
        times = [(_wall(participant), _wall(fleet), _wall(peer)) for _ in range(rounds * 8)]
    finally:
        engine.close()
    return dict(zip(("participant_s", "fleet_s", "bare_fleet_s"), map(min, zip(*times, strict=True)), strict=True))


def _cpu(work: Callable[[], Any]) -> float:
    gc.collect()
    before = time.process_time()
    work()
    return time.process_time() - before


def _wall(work: Callable[[], Any]) -> float:
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def _best(work: Callable[[], Any], rounds: int) -> float:
    return min(_wall(work) for _ in range(rounds))


def main() -> int:
    """One line of figures a size."""
    for size in [int(argument) for argument in sys.argv[1:]] or [2000]:
        figures = run(size)
        print(
            f"{size:>8,} conversations, {figures['events']:,.0f} events, {figures['rows']:,.0f} rows: "
            f"rebuild {figures['events'] / figures['rebuild_s']:,.0f} events/s CPU "
            f"(bare {figures['events'] / figures['bare_rebuild_s']:,.0f}, ratio {figures['bare_rebuild_s'] / figures['rebuild_s']:.2f}); "
            f"publish one turn {figures['publish_s'] * 1000:.1f} ms; refresh {figures['refresh_s'] * 1000:.1f} ms; "
            f"cold open {figures['cold_open_s'] * 1000:.0f} ms; participant LIMIT 5 {figures['participant_s'] * 1000:.1f} ms; "
            f"fleet count {figures['fleet_s'] * 1000:.1f} ms (bare {figures['bare_fleet_s'] * 1000:.1f}, "
            f"ratio {figures['fleet_s'] / figures['bare_fleet_s']:.2f}; compacted {figures['compacted_fleet_s'] * 1000:.1f} ms); "
            f"packs/journal {figures['packs_share']:.2f}; peak RSS {figures['peak_rss_bytes'] / 2**20:,.0f} MiB",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
