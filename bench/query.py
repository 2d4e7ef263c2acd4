"""Asking: the whole path of a query (grant, intent, gate, admission, sealed worker, outcome) against bare DuckDB.

Bare DuckDB reads the same Parquet files in this process, with no grant, no gate and no record of who asked: the
ratio is what safety costs. Asked twice: of a running edge, and from a cold start as `polyc query` does.
"""

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from bench.deployment import embedded
from bench.measure import Measurement, best_s
from polyc.cli.deployment import Deployment
from polyc.cli.import_loop import import_paths
from polyc.cli.projecting import project
from polyc.cli.sample import write_sample
from polyc.cli.supervising import LOOPBACK, Supervisor, children_of
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.ids import PersonaId
from query_plane.client import Client
from query_plane.local import run_local

SQL = "SELECT model, COUNT(*) AS calls FROM model_call GROUP BY model ORDER BY model"
ASKED = 20


def measure() -> list[Measurement]:
    """One small aggregate, asked by an admin and by a participant, of a running edge and from a cold start."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with embedded(path / "ours") as deployment:
            import_paths(deployment, write_sample(path / "home"), final=True, persona=PersonaId("bench"))
            project(deployment)
            tokens = {"admin": _token(deployment, admin=True), "participant": _token(deployment, admin=False)}
            files = [str(file) for file in (path / "ours" / "artifacts").rglob("model_call.parquet")]
            peer = 1 / best_s(lambda: _bare(files))
            cold = {who: 1 / best_s(lambda who=who: _cold(deployment, admin=who == "admin")) for who in tokens}
        with _edge(DataRoot(path / "ours")) as base_url:
            warm = {who: ASKED / best_s(lambda token=token: _warm(base_url, token)) for who, token in tokens.items()}
    return [
        Measurement(
            what=f"one small aggregate, {who}, {how}",
            unit="queries/s",
            ours=rates[who],
            peer=peer,
            peer_name="duckdb, bare",
            note="ours records intent and outcome, admits rows, uses a sealed worker once",
        )
        for how, rates in (("of a running edge", warm), ("from a cold start", cold))
        for who in tokens
    ]


def _token(deployment: Deployment, *, admin: bool) -> str:
    control = deployment.control()
    token, _ = control.mint_grant(admin=True) if admin else control.mint_grant(persona="bench")
    return token


def _bare(files: list[str]) -> None:
    with duckdb.connect() as engine:
        assert engine.execute(SQL.replace("model_call", f"read_parquet({files})")).fetchall()


def _cold(deployment: Deployment, *, admin: bool) -> None:
    token = _token(deployment, admin=admin)
    journal, clock, ids = deployment.journal, deployment.clock, deployment.ids
    assert run_local(deployment.root, token, SQL, port=journal, clock=clock, ids=ids).rows


def _warm(base_url: str, token: str) -> None:
    client = Client(base_url, token)
    for _ in range(ASKED):
        assert client.query(SQL).rows


@contextmanager
def _edge(root: DataRoot) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = probe.getsockname()[1]
    supervisor = Supervisor(children_of(root, port=port), clock=SystemClock(), stop=threading.Event())
    try:
        supervisor.start()
        yield f"http://{LOOPBACK}:{port + 1}"
    finally:
        supervisor.stop_all()
