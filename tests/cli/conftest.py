"""The sample, imported once a file of tests, and a copy of it for a test that changes something."""

import shutil
from pathlib import Path

import pytest

from polyc.cli.sample import write_sample
from tests.cli.runner import polyc


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    write_sample(home)
    return home


@pytest.fixture(scope="module")
def root(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data") / "root"
    said = polyc(root, "import", "--final", "--persona", "maren", str(home))
    assert said.code == 0, said.err
    assert said.out == b""
    return root


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(root, tmp_path / "root", symlinks=True))
