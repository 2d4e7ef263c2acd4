"""Artifacts: rebuilding, publishing, admitting and reading at several archive sizes, each against a bare peer.

    python -m bench.artifacts 2000 20000          archives of these sizes, made and thrown away
    python -m bench.artifacts DATA_ROOT           an archive that `bench.archive` made; its artifacts are made anew
    … --serve                                     without the rebuild: publishing and reading, of artifacts that stand
    … --processes 2                               the rebuild by so many processes

Conversations are synthetic, two or three turns each. `measure()` is the small one that `make bench` runs. Search packs
are left out: tables are what is compared.
"""

import argparse
import gc
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from artifacts.layout import spec_of
from artifacts.reader import Reader
from artifacts.store import DirectoryStore
from bench.archive import fill, turns_of
from bench.bare_replay import replay_bare
from bench.deployment import embedded
from bench.measure import Measurement
from facts.catalog import TABLES
from polyc.appending import Author
from polyc.cli.deployment import Deployment, opened
from polyc.cli.projecting import journal_in, workers_of
from polyc.dataroot import DataRoot
from polyc.signing import load_signer
from projector.publish import Projector
from tests.support.conversations import partition_of, turn

SPECS = {name: spec_of(table) for name, table in TABLES.items()}
MODEL_COUNT = "SELECT model, count(*) FROM model_call GROUP BY model ORDER BY model"
RECENT = "SELECT * FROM turns LIMIT 5"
Figures = dict[str, float]


def measure() -> list[Measurement]:
    """The lines of `make bench`, at the smallest size the issue names."""
    with _made(2000) as deployment:
        figures = rebuild(deployment) | serve(deployment, rounds=2)
    return [
        Measurement(
            what="rebuild all tables",
            unit="events/s",
            ours=figures["events"] / figures["rebuild_s"],
            peer=figures["events"] / figures["bare_s"],
            peer_name="bare loop: read, hash, decode, Arrow, Parquet",
            note="ours also folds, digests contents, indexes, signs and syncs, into packs by week",
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


def rebuild(deployment: Deployment, *, processes: int = 1) -> Figures:
    """From the journal to finished packs in CPU seconds, of us and of the bare loop, and how large each is."""
    shutil.rmtree(deployment.root.artifacts, ignore_errors=True)
    store = DirectoryStore(deployment.root.artifacts)
    workers = workers_of(deployment.root)
    if processes > 1 and workers is not None:
        workers = msgspec.structs.replace(workers, count=processes, events_min=0)
    projector = _projector(deployment, store, workers=workers if processes > 1 else None)
    figures: Figures = {"events": deployment.journal.size()}
    figures |= _cost(projector.rebuild, "rebuild")
    hashed: list[int] = []
    with tempfile.TemporaryDirectory(prefix="polyc-bare-") as folder, journal_in(deployment.root.path) as reader:
        figures |= _cost(lambda: hashed.append(replay_bare(reader, Path(folder))), "bare")
        figures["bare_bytes"] = sum(file.stat().st_size for file in Path(folder).iterdir())
    generation = projector.artifacts.latest()
    figures["packs"] = len(generation.layers.base.packs)
    figures["rows"] = sum(generation.row_count(spec) for spec in SPECS.values())
    figures["packs_bytes"] = sum(entry.size_bytes for entry in store.list("packs/"))
    figures["content_bytes"] = hashed[0]
    figures["journal_bytes"] = deployment.root.journal_file.stat().st_size
    return figures


def serve(deployment: Deployment, *, rounds: int = 3) -> Figures:
    """Publishing one turn at a time, opening, refreshing and reading, of artifacts that stand."""
    store = DirectoryStore(deployment.root.artifacts)
    projector = _projector(deployment, store)
    projector.run_once()
    reader = _reader(deployment, store)
    figures: Figures = {
        "conversations": sum(name.startswith("conv-") for name in reader.latest().partitions()),
        "cold_open_s": sorted(_wall(lambda: _opened(deployment, store)) for _ in range(3))[1],
    }
    signer = load_signer(deployment.root.keys / "importer.pem")
    author = Author(deployment.journal, signer, clock=deployment.clock, ids=deployment.ids)
    publishes, refreshes = [], []
    for number in range(15):
        author.append(partition_of(number), turn(number, 100 + turns_of(number) + deployment.journal.size()))
        publishes.append(_wall(projector.run_once))
        refreshes.append(_wall(reader.latest))
    figures["publish_s"], figures["refresh_s"] = sorted(publishes)[7], sorted(refreshes)[7]
    figures |= _queries(reader, rounds)
    figures["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return figures


@contextmanager
def _made(conversations: int) -> Iterator[Deployment]:
    with tempfile.TemporaryDirectory(prefix="polyc-bench-") as folder, embedded(Path(folder)) as deployment:
        fill(deployment, conversations)
        yield deployment


def _projector(deployment: Deployment, store: DirectoryStore, **options: Any) -> Projector:
    signer = load_signer(deployment.root.keys / "projector.pem")
    return Projector(
        deployment.journal, store, signer=signer, clock=deployment.clock, ids=deployment.ids, search=False, **options
    )


def _reader(deployment: Deployment, store: DirectoryStore) -> Reader:
    return Reader(store, keys=deployment.journal.keyring, clock=deployment.clock, ids=deployment.ids)


def _opened(deployment: Deployment, store: DirectoryStore) -> None:
    """What a reader that starts does before its first row."""
    _reader(deployment, store).latest().pieces(SPECS["turns"], [partition_of(1)])


def _queries(reader: Reader, rounds: int) -> Figures:
    """The best of many, taken in turns, so that all three meet the same machine."""
    generation = reader.latest()
    source = generation.fleet_sources(SPECS["model_call"])
    engine = duckdb.connect(config={"threads": 1})
    if source.dead_name:
        engine.register(source.dead_name, source.dead)
    engine.execute(f"CREATE VIEW model_call AS {source.view_sql()}")
    files = ", ".join(f"'{path}'" for path in source.paths)
    bare = MODEL_COUNT.replace("model_call", f"read_parquet([{files}])")

    def participant() -> None:
        engine.register("turns", generation.admit(SPECS["turns"], partitions=[partition_of(1)]))
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


def _cost(work: Callable[[], Any], name: str) -> Figures:
    """CPU seconds of this process and of those it waited for, and wall seconds."""
    gc.collect()
    before, started = os.times(), time.perf_counter()
    work()
    wall_s, after = time.perf_counter() - started, os.times()
    return {f"{name}_s": sum(after[:4]) - sum(before[:4]), f"{name}_wall_s": wall_s}


def _wall(work: Callable[[], Any]) -> float:
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def _told_rebuild(figures: Figures, processes: int) -> str:
    per_event_us = figures["rebuild_s"] / figures["events"] * 1e6
    return (
        f"  rebuild, {processes} process(es): {figures['events']:,.0f} events, {figures['rows']:,.0f} rows, "
        f"{figures['packs']:.0f} packs: CPU {figures['rebuild_s']:.1f} s ({per_event_us:.1f} us/event), bare loop "
        f"{figures['bare_s']:.1f} s, ratio {figures['bare_s'] / figures['rebuild_s']:.2f}; "
        f"wall {figures['rebuild_wall_s']:.1f} s (bare {figures['bare_wall_s']:.1f} s)\n"
        f"  bytes: packs {figures['packs_bytes']:,.0f} = {figures['packs_bytes'] / figures['content_bytes']:.2f} of the "
        f"journal's content, {figures['packs_bytes'] / figures['journal_bytes']:.2f} of its compressed file "
        f"({figures['journal_bytes']:,.0f}), {figures['packs_bytes'] / figures['bare_bytes']:.2f} of the bare loop's"
    )


def _told_serve(figures: Figures) -> str:
    return (
        f"  {figures['conversations']:,.0f} conversations: publish one turn {figures['publish_s'] * 1000:.1f} ms; "
        f"refresh {figures['refresh_s'] * 1000:.1f} ms; cold open {figures['cold_open_s'] * 1000:.0f} ms; participant "
        f"LIMIT 5 {figures['participant_s'] * 1000:.1f} ms; fleet count {figures['fleet_s'] * 1000:.1f} ms (bare "
        f"{figures['bare_fleet_s'] * 1000:.1f} ms, {figures['fleet_s'] / figures['bare_fleet_s']:.2f}x); "
        f"peak RSS {figures['peak_rss_bytes'] / 2**20:,.0f} MiB"
    )


def main() -> int:
    """Figures of each archive."""
    parser = argparse.ArgumentParser(prog="python -m bench.artifacts")
    parser.add_argument("archives", nargs="*", default=["2000"], help="numbers of conversations, or data roots")
    parser.add_argument("--serve", action="store_true", help="no rebuild")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    for archive in arguments.archives:
        print(archive, flush=True)
        where = _made(int(archive)) if archive.isdecimal() else opened(DataRoot(Path(archive)))
        with where as deployment:
            if not arguments.serve:
                print(
                    _told_rebuild(rebuild(deployment, processes=arguments.processes), arguments.processes), flush=True
                )
            print(_told_serve(serve(deployment)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
