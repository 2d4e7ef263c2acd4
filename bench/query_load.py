"""The Query plane under load: what a sealed worker costs on ten million rows, and what two bombs cost the others.

    python -m bench.query_load [ROWS]

Prints ratios: a fleet aggregate in a sealed worker against bare DuckDB on the same files with the same threads; a
point query end to end against the core alone (the share of the RPC layer); sixteen callers' p99 with and without two
of them running statements that never end.
"""

import asyncio
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb

from query_plane import wire
from query_plane.client import Client
from query_plane.pool import WorkerPool
from query_plane.serve import serve
from tests.query_plane.cores import Journal, ask, core_of
from tests.query_plane.deployment import make_deployment

AGGREGATE = "SELECT model, COUNT(*) AS n, SUM(input_tokens) AS t FROM usage GROUP BY model ORDER BY model"
POINT = "SELECT role, text FROM messages WHERE turn_id = 'turn-ada' ORDER BY position"
BOMB = "SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c"
CALLERS, SECONDS = 16, 8.0


def files_of(folder: Path, rows: int) -> list[str]:
    """Parquet files of this many usage rows, written by DuckDB."""
    made = []
    with duckdb.connect() as engine:
        for part in range(8):
            path = str(folder / f"usage-{part}.parquet")
            engine.execute(
                f"COPY (SELECT 'model-' || (i % 7) AS model, (i * 37 % 4000)::BIGINT AS input_tokens "
                f"FROM range({rows // 8}) t(i)) TO '{path}' (FORMAT parquet)"
            )
            made.append(path)
    return made


def bare_s(files: list[str], threads: int) -> float:
    with duckdb.connect(config={"threads": threads}) as engine:
        started = time.perf_counter()
        engine.execute(AGGREGATE.replace("FROM usage", f"FROM read_parquet({files})")).fetchall()
        return time.perf_counter() - started


async def sealed_s(pool: WorkerPool, files: list[str], threads: int) -> float:
    worker = await pool.acquire()
    view = f"SELECT * FROM read_parquet({files})"
    run = wire.Run(
        sources=[wire.Source(name="usage", view=view)], paths=files, want="arrow", row_limit=10_000,
        byte_limit=1 << 26, deadline_ms=60_000, threads=threads, trailer={},
    )  # fmt: skip
    started = time.perf_counter()
    check = wire.Check(sql=AGGREGATE, relations={"usage": ["model", "input_tokens"]}, parameters={}, may_explain=False)
    assert isinstance(await worker.check(check), wire.Checked)
    answers = [answer async for answer in worker.run(run, [])]
    assert isinstance(answers[-1], wire.Finished)
    elapsed = time.perf_counter() - started
    worker.close()
    return elapsed


def aggregate(rows: int) -> None:
    async def go(files: list[str]) -> tuple[float, float]:
        pool = WorkerPool(spares=2, sandbox="require")
        await pool.prefork()
        ours, peer = [], []
        for _ in range(5):
            peer.append(await asyncio.to_thread(bare_s, files, 2))
            ours.append(await sealed_s(pool, files, 2))
        await pool.close()
        return min(ours), min(peer)

    with tempfile.TemporaryDirectory() as folder:
        ours, peer = asyncio.run(go(files_of(Path(folder), rows)))
    print(
        f"fleet aggregate over {rows:,} rows: sealed {ours * 1000:.0f} ms, bare {peer * 1000:.0f} ms, ratio {ours / peer:.2f}"
    )


def quantile(times: list[float], q: float) -> float:
    return statistics.quantiles(times, n=100)[int(q * 100) - 1]


def load(client: Client, sql: str, times: list[float], until: float, pause: threading.Event) -> None:
    while time.perf_counter() < until:
        started = time.perf_counter()
        client.query(sql)
        times.append(time.perf_counter() - started)
        pause.wait(0.2)  # people think


def callers(url: str, tokens: list[str], *, bombs: int) -> list[float]:
    times: list[float] = []
    until, pause = time.perf_counter() + SECONDS, threading.Event()

    def bomb(bearer: str) -> None:
        with Client(url, bearer) as client:
            while time.perf_counter() < until:
                try:
                    client.query(BOMB, timeout_s=SECONDS)
                except Exception:
                    pause.wait(0.05)

    with ThreadPoolExecutor(CALLERS) as threads:
        for bearer in tokens[:bombs]:
            threads.submit(bomb, bearer)
        for number in range(CALLERS - bombs):
            client = Client(url, tokens[number])
            threads.submit(load, client, POINT, times, until, pause)
    return times


def served() -> None:
    with tempfile.TemporaryDirectory() as folder:
        deployment = make_deployment(Path(folder) / "root")
        stop, listening, ports = threading.Event(), threading.Event(), []

        def heartbeat() -> None:
            while not stop.wait(2):
                deployment.grant("ada")

        def ready(port: int) -> None:
            ports.append(port)
            listening.set()

        def run() -> None:
            root, journal, clock, ids = deployment.root, deployment.journal, deployment.clock, deployment.ids
            serve(root, port=0, journal=journal, clock=clock, ids=ids, ready=ready, stop=stop)

        thread = threading.Thread(target=run)
        thread.start()
        listening.wait()
        threading.Thread(target=heartbeat, daemon=True).start()
        url, token = f"http://127.0.0.1:{ports[0]}", deployment.grant("ada")
        with Client(url, token) as client:
            whole = []
            for _ in range(60):
                started = time.perf_counter()
                client.query(POINT)
                whole.append(time.perf_counter() - started)
                time.sleep(0.05)
        core = asyncio.run(core_times(deployment, token))
        share = 1 - statistics.median(core) / statistics.median(whole)
        print(
            f"point query: p50 {statistics.median(whole) * 1000:.1f} ms, p99 {quantile(whole, 0.99) * 1000:.1f} ms; core alone p50 {statistics.median(core) * 1000:.1f} ms; RPC layer {share:.0%}"
        )
        tokens = [deployment.grant(f"person-{number}") for number in range(CALLERS)]
        alone = callers(url, tokens, bombs=0)
        bombed = callers(url, tokens, bombs=2)
        a, b = quantile(alone, 0.99), quantile(bombed, 0.99)
        print(f"{CALLERS} callers: p99 alone {a * 1000:.0f} ms, beside two bombs {b * 1000:.0f} ms, ratio {b / a:.2f}")
        stop.set()
        thread.join()
        deployment.journal.close()


async def core_times(deployment, token) -> list[float]:
    times = []
    async with core_of(deployment, Journal(deployment.journal)) as core:
        for _ in range(60):
            started = time.perf_counter()
            await ask(core, token, POINT)
            times.append(time.perf_counter() - started)
            await asyncio.sleep(0.05)
    return times


if __name__ == "__main__":
    aggregate(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
    served()
