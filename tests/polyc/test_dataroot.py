"""Where a deployment keeps its state; sockets whose path fits whatever the folders are called."""

import tempfile

import pytest

from polyc.dataroot import SOCKET_PATH_BYTES_MAX, DataRoot, default_data_root
from polyc.errors import CorruptError, RefusedError


def test_a_sockets_path_fits_however_deep_the_runtime_folder_is(tmp_path, monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as shallow:  # pytest's own folders may be too deep already
        monkeypatch.setenv("XDG_RUNTIME_DIR", shallow)
        assert DataRoot(tmp_path / "root").socket("journal").is_relative_to(shallow)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("d" * 100)))
    deep = DataRoot(tmp_path / "root").socket("journal")
    assert len(str(deep).encode()) <= SOCKET_PATH_BYTES_MAX
    assert deep.parent.stat().st_mode & 0o077 == 0
    deep.parent.rmdir()


def test_two_data_roots_have_two_sockets_and_one_has_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    assert DataRoot(tmp_path / "a").socket("journal") != DataRoot(tmp_path / "b").socket("journal")
    assert DataRoot(tmp_path / "a").socket("journal") == DataRoot(tmp_path / "a").socket("journal")


def test_no_deployment_and_a_broken_policy_are_told_apart(tmp_path):
    root = DataRoot(tmp_path / "root")
    assert not root.exists
    with pytest.raises(RefusedError):
        root.policy()
    root.make()
    root.policy_file.write_text("{")
    with pytest.raises(CorruptError):
        root.policy()


def test_the_option_beats_the_variable_and_the_variable_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYC_HOME", str(tmp_path / "variable"))
    assert default_data_root(str(tmp_path / "option")).path == tmp_path / "option"
    assert default_data_root().path == tmp_path / "variable"
    monkeypatch.delenv("POLYC_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_data_root().path == tmp_path / ".local" / "share" / "polychrome"
