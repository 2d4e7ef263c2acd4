"""The Query plane on a large archive and under load; the issue's four bounds, in one run.

    python -m bench.query_load FOLDER [ROWS]       the first run prepares FOLDER (minutes), later ones measure

1. A fleet aggregate over ten million rows, end to end over HTTP, against bare DuckDB on the same files with the same
threads, and against datasette on the same rows in SQLite. 2. A point query of one conversation in that archive: p50 end
to end of a warm edge, and the share of it that the HTTP layer takes (the same statement through a core without doors,
asked by turns). 3. Sixteen callers: the others' p99 beside two running bombs against their p99 alone.

The edge, the journal and Control are processes of their own, as `polyc up` starts them; the callers are one more.
"""

import asyncio
import contextlib
import json
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import duckdb

from bench.large_archive import name_of, plant
from journal.line import LineClient
from polyc import grants
from polyc.cli.supervising import LOOPBACK, Supervisor, children_of
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.errors import PolycError
from polyc.grants import Everything, Grant, Inline
from polyc.ids import SystemIds, uuid7
from polyc.signing import load_signer
from query_plane.client import Client
from query_plane.pool import WorkerPool
from query_plane.runtime import Settings, open_core
from tests.query_plane.cores import ask
from tests.query_plane.deployment import make_deployment

AGGREGATE = "SELECT model, COUNT(*) AS n, SUM(input_tokens) AS t FROM usage GROUP BY model ORDER BY model"
POINT = "SELECT position, model, input_tokens FROM usage WHERE turn_id = 't7' ORDER BY position"
TEXTS = "SELECT role, text FROM messages WHERE turn_id = 'turn-ada' ORDER BY position"
BOMB = "SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c"
CALLERS, SECONDS, ROUNDS, POINTS = 16, 10.0, 7, 50


def main() -> None:
    folder, rows = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    if not (folder / "ready.json").exists():
        prepare(folder, rows)
        return
    files = json.loads((folder / "ready.json").read_text())
    root = DataRoot(folder / "root")
    with edge(root) as url:
        aggregate(url, root, files, folder)
        points(
            url, root, POINT, partition=name_of(7), what="a turn's 10 usage rows of 5 000, in an archive of all those"
        )
        points(url, root, TEXTS, partition="conv-a", what="a turn's two messages, in a small table")
        beside_bombs(url, root)


def prepare(folder: Path, rows: int) -> None:
    """The archive, and the same rows in SQLite."""
    deployment = make_deployment(folder / "root")
    files = plant(deployment, rows=rows)
    deployment.journal.close()
    with duckdb.connect() as engine, contextlib.closing(sqlite3.connect(folder / "usage.db")) as peer:
        peer.execute("CREATE TABLE usage (partition TEXT, turn_id TEXT, position INT, model TEXT, input_tokens INT)")
        reader = engine.sql(
            f"SELECT partition, turn_id, position, model, input_tokens FROM read_parquet({files})"
        ).to_arrow_reader(100_000)
        for batch in reader:
            peer.executemany("INSERT INTO usage VALUES (?, ?, ?, ?, ?)", zip(*batch.to_pydict().values(), strict=True))
        peer.execute("CREATE INDEX by_turn ON usage (partition, turn_id)")
        peer.commit()
    (folder / "ready.json").write_text(json.dumps(files))


def aggregate(url: str, root: DataRoot, files: list[str], folder: Path) -> None:
    """Ours, bare and datasette by turns."""
    bare_statement = AGGREGATE.replace("FROM usage", f"FROM read_parquet({files})")
    with Client(url, lambda: token(root, None)) as client, datasette(folder / "usage.db") as ask_peer:
        expected = [tuple(row) for row in client.rows(AGGREGATE)]
        assert expected == bare(bare_statement)
        ours, peer = [], []
        for _ in range(ROUNDS):
            ours.append(timed(lambda: client.query(AGGREGATE)))
            peer.append(timed(lambda: bare(bare_statement)))
        count = sum(row[1] for row in expected)
        print(
            f"fleet aggregate over {count:,} rows: ours over HTTP {min(ours) * 1000:.0f} ms, bare DuckDB "
            f"{min(peer) * 1000:.0f} ms, ratio {min(ours) / min(peer):.2f} (medians {statistics.median(ours) * 1000:.0f} "
            f"and {statistics.median(peer) * 1000:.0f} ms)",
            flush=True,
        )
        slow = [timed(lambda: ask_peer(AGGREGATE)) for _ in range(2)]
    print(f"datasette on the same rows: {min(slow) * 1000:.0f} ms, {min(slow) / min(ours):.1f} times ours", flush=True)


def points(url: str, root: DataRoot, sql: str, *, partition: str, what: str) -> None:
    """One conversation's turn: over HTTP and through a core without doors, by turns."""
    grant = token(root, partition)  # of the next question; minted before the clock starts, for both
    whole, inside = [], []

    async def by_turns(client: Client) -> None:
        nonlocal grant
        async with core_on(root) as core:
            for number in range(POINTS + 10):
                grant = token(root, partition)
                started = time.perf_counter()
                await asyncio.to_thread(client.query, sql)
                over_http = time.perf_counter() - started
                await asyncio.sleep(0.1)
                started = time.perf_counter()
                await ask(core, grant, sql)
                within = time.perf_counter() - started
                await asyncio.sleep(0.1)
                if number >= 10:
                    whole.append(over_http)
                    inside.append(within)

    with Client(url, lambda: grant) as client:
        assert client.rows(sql)
        asyncio.run(by_turns(client))
    a, b = statistics.median(whole), statistics.median(inside)
    print(
        f"point query, {what}: p50 {a * 1000:.1f} ms over HTTP, p99 {quantile(whole, 0.99) * 1000:.1f} ms; "
        f"a core without doors p50 {b * 1000:.1f} ms: the RPC layer is {max(0.0, 1 - b / a):.0%}"
    )


def beside_bombs(url: str, root: DataRoot) -> None:
    """Sixteen callers, and fourteen beside two bombs."""
    alone = callers(url, root, bombs=0)
    bombed = callers(url, root, bombs=2)
    a, b = quantile(alone, 0.99), quantile(bombed, 0.99)
    print(
        f"{CALLERS} callers: p99 alone {a * 1000:.0f} ms ({len(alone)} answers, p50 "
        f"{statistics.median(alone) * 1000:.0f} ms), beside two bombs {b * 1000:.0f} ms ({len(bombed)} answers, p50 "
        f"{statistics.median(bombed) * 1000:.0f} ms), ratio {b / a:.2f}"
    )


def callers(url: str, root: DataRoot, *, bombs: int) -> list[float]:
    """The waiting times of everybody who runs no bomb."""
    times: list[float] = []
    until, pause = time.perf_counter() + SECONDS, threading.Event()

    def reads(number: int) -> None:
        with Client(url, lambda: token(root, name_of(number), subject=f"person-{number}")) as client:
            while time.perf_counter() < until:
                times.append(timed(lambda: client.query(POINT)))
                pause.wait(0.3)  # people think

    def bombards(number: int) -> None:
        with Client(url, lambda: token(root, name_of(number), subject=f"bomber-{number}")) as client:
            while time.perf_counter() < until:
                with contextlib.suppress(PolycError):
                    client.query(BOMB, timeout_s=max(0.1, until - time.perf_counter()))
                pause.wait(0.05)

    with ThreadPoolExecutor(CALLERS) as threads:
        running = [threads.submit(bombards if number < bombs else reads, number) for number in range(CALLERS)]
    for each in running:
        each.result()
    return times


def token(root: DataRoot, partition: str | None, *, subject: str = "admin:bench") -> str:
    """A grant as Control mints it: the fleet's, or one conversation's."""
    now_s = int(time.time())
    grant = Grant(
        credential_id=uuid7(SystemClock(), SystemIds()),
        subject=subject,
        realm="fleet" if partition is None else "participant",
        scope=Everything() if partition is None else Inline(partitions=(partition,)),
        issued_at_s=now_s,
        expires_at_s=now_s + 60,
    )
    return grants.mint(grant, signer=load_signer(root.keys / "grant.pem"))


@contextlib.asynccontextmanager
async def core_on(root: DataRoot):
    """A core in this process; its audit goes to the same journal server as the edge's."""
    pool, clock, ids = WorkerPool(spares=2), SystemClock(), SystemIds()
    audit = LineClient(root.socket("line"))
    try:
        async with open_core(root, journal=audit, clock=clock, ids=ids, settings=Settings(), pool=pool) as opened:
            await pool.prefork()
            await opened.admitter.start()
            yield opened.core
    finally:
        await pool.close()


@contextmanager
def edge(root: DataRoot) -> Iterator[str]:
    """The journal, Control and the edge; no projector, for what was planted is in no journal."""
    port = free_port(2)
    children = [child for child in children_of(root, port=port) if child.name != "projector"]
    supervisor = Supervisor(children, clock=SystemClock(), stop=threading.Event())
    try:
        supervisor.start()
        yield f"http://{LOOPBACK}:{port + 1}"
    finally:
        supervisor.stop_all()


@contextmanager
def datasette(database: Path) -> Iterator[Callable[[str], object]]:
    """datasette over a database, and how to ask it."""
    port = free_port(1)
    options = ["--setting", "sql_time_limit_ms", "120000", "--setting", "max_returned_rows", "10000"]
    command = [sys.executable, "-m", "datasette", str(database), "-p", str(port), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ) as process:
        base = f"http://{LOOPBACK}:{port}/{database.stem}.json?_shape=arrays&sql="

        def ask_peer(sql: str) -> object:
            with urllib.request.urlopen(base + urllib.parse.quote(sql), timeout=120) as response:
                return json.load(response)["rows"]

        try:
            for _ in range(200):
                with contextlib.suppress(OSError):
                    ask_peer("SELECT 1")
                    break
                time.sleep(0.1)
            yield ask_peer
        finally:
            process.terminate()


def free_port(count: int) -> int:
    """The first of so many ports in a row that nobody listens on, most likely."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port - port % 2 if count == 2 else port


def bare(statement: str) -> list[tuple]:
    """The statement in a fresh DuckDB with as many threads as the fleet's statements have."""
    with duckdb.connect(config={"threads": os.cpu_count() or 1}) as engine:
        return engine.execute(statement).fetchall()


def timed(work: Callable[[], object]) -> float:
    """Seconds of wall time."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def quantile(times: list[float], q: float) -> float:
    """The q-quantile."""
    return statistics.quantiles(times, n=100)[int(q * 100) - 1]


if __name__ == "__main__":
    main()
