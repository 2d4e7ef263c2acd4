"""The journals of the contract suite: the plain model, the SQLite store, and the store behind its socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from journal import boot
from journal.client import JournalClient
from journal.server import JournalServicer, start_full
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.ids import SystemIds
from tests.journal.log import ORIGIN, Log
from tests.journal.model import MemoryJournal
from tests.journal.running import Running


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.fixture
def journal(log: Log) -> Iterator[object]:
    """The SQLite store alone."""
    with log.open() as opened:
        yield opened


@pytest.fixture(params=["memory", "sqlite", "grpc"])
def any_journal(request: pytest.FixtureRequest, log: Log) -> Iterator[object]:
    """Every implementation of the two ports, with the keys of every role."""
    if request.param == "memory":
        memory = MemoryJournal(
            origin=ORIGIN,
            root_public_key=log.signers["root"].public_key,
            log_signer=log.signers["log"],
            clock=log.clock,
        )
        log.found(memory)
        yield memory
        return
    with log.open() as store:
        if request.param == "sqlite":
            yield store
            return
        socket = log.folder / "j.sock"
        server = start_full(JournalServicer(store, on_keys=lambda: None), socket)
        try:
            with JournalClient(socket, root_public_key=log.signers["root"].public_key) as client:
                yield client
        finally:
            server.stop(None).wait()


@pytest.fixture
def root(tmp_path: Path, monkeypatch) -> DataRoot:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    root = DataRoot(tmp_path / "root")
    boot.create_deployment(root, clock=SystemClock(), ids=SystemIds())
    return root


@pytest.fixture
def running(root: DataRoot) -> Iterator[Running]:
    running = Running(root)
    yield running
    running.stop()
