"""One imported sample for the folder, and one edge that serves it: tests read."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyc.cli.deployment import opened
from polyc.cli.edge import announced
from polyc.cli.sample import write_sample
from polyc.dataroot import DataRoot
from query_plane.runtime import Settings
from query_plane.serve import serve
from tests.cli.runner import ask, polyc


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    write_sample(home)
    root = tmp_path_factory.mktemp("data") / "root"
    done = polyc(root, "import", "--final", "--persona", "maren", str(home))
    assert done.code == 0, done.err
    return root


@pytest.fixture(scope="session")
def word(root: Path) -> str:
    """The longest word that a person said in the sample."""
    said = ask(root, "SELECT text FROM messages WHERE material_origin = 'human_authored'")
    return max((word for row in said for word in row["text"].split() if word.isalpha()), key=len)


class Served:
    """An edge over a data root, as `polyc serve query` announces it."""

    def __init__(self, root: DataRoot, port: int, deployment) -> None:
        self.root = root
        self.url = f"http://127.0.0.1:{port}"
        self._deployment = deployment

    def token(self, persona: str = "maren", *, admin: bool = False) -> str:
        return self._deployment.control().mint_grant(persona=None if admin else persona, admin=admin)[0]


@pytest.fixture(scope="session")
def served(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Over a copy: an edge holds the journal as long as it serves."""
    data = DataRoot(Path(shutil.copytree(root, tmp_path_factory.mktemp("served") / "root", symlinks=True)))
    stop, listening, ports = threading.Event(), threading.Event(), []
    with opened(data) as deployment, announced(data) as announce:

        def ready(port: int) -> None:
            announce(port)
            ports.append(port)
            listening.set()

        options = {"journal": deployment.journal, "clock": deployment.clock, "ids": deployment.ids}
        thread = threading.Thread(
            target=lambda: serve(data, port=0, settings=Settings(sandbox="auto"), ready=ready, stop=stop, **options)
        )
        thread.start()
        assert listening.wait(60), "the edge serves"
        yield Served(data, ports[0], deployment)
        stop.set()
        thread.join()
