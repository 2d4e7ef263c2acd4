"""One deployment and one serving edge for the whole folder: tests read, and what they append nobody else counts."""

import threading
from collections.abc import Iterator

import pytest

from control import revocations
from query_plane.runtime import Settings
from query_plane.serve import serve
from tests.query_plane.cores import Loop
from tests.query_plane.deployment import Deployment, make_deployment
from tests.query_plane.edge import Edge


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    made = make_deployment(tmp_path_factory.mktemp("query") / "root")
    stop = threading.Event()
    # Control's heartbeat: on a loaded machine a test outlives the list of revocations that its grant came with.
    beating = threading.Thread(target=revocations.beat, args=(made.control.context,), kwargs={"stop": stop})
    beating.start()
    yield made
    stop.set()
    beating.join()
    made.journal.close()


@pytest.fixture(scope="session")
def shared_loop(deployment: Deployment) -> Iterator[Loop]:
    made = Loop(deployment)
    yield made
    made.close()


@pytest.fixture
def loop(shared_loop: Loop) -> Loop:
    """The shared core with nothing in its journal's memory."""
    shared_loop.journal.fails = {}
    shared_loop.journal.events.clear()
    return shared_loop


@pytest.fixture(scope="session")
def edge(deployment: Deployment) -> Iterator[Edge]:
    stop, listening, ports = threading.Event(), threading.Event(), []

    def ready(port: int) -> None:
        ports.append(port)
        listening.set()

    def run() -> None:
        serve(
            deployment.root,
            port=0,
            journal=deployment.journal,
            clock=deployment.clock,
            ids=deployment.ids,
            settings=Settings(sandbox="require"),
            origins=["http://localhost:1"],
            ready=ready,
            stop=stop,
        )

    thread = threading.Thread(target=run)
    thread.start()
    assert listening.wait(60), "the edge serves"
    made = Edge(f"http://127.0.0.1:{ports[0]}", deployment)
    yield made
    made.close()
    stop.set()
    thread.join(20)
    assert not thread.is_alive(), "the edge ends when told"
