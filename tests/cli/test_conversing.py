"""Commands that go on for a while: the SQL shell, a witness, an assistant."""

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import Said, polyc


def typed(root: Path, text: str, monkeypatch: pytest.MonkeyPatch, *options: str) -> Said:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return polyc(root, "sql", "--format", "json", *options)


def test_the_shell_answers_statement_after_statement(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = typed(root, "SELECT 1 AS a;\nSELECT\n  2 AS b;\nSELECT 3 AS c", monkeypatch, "--admin")
    assert said.rows == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_a_refused_statement_does_not_end_the_shell(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = typed(root, "SELECT * FROM signer_keys;\nSELECT 2 AS b;\n", monkeypatch, "--persona", "maren")
    assert said.rows == [{"b": 2}]
    assert "polyc: error: not_found: " in said.err


@pytest.fixture
def witness(root: Path, tmp_path: Path) -> Iterator[tuple[str, str]]:
    log = polyc(root, "witness", "vkey").out.decode().strip()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-m", "polyc.cli.main", "witness", "serve", str(tmp_path / "witness"), "example.org/w"]
    with subprocess.Popen([*command, "--log", log, "--port", port], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        vkey = process.stdout.readline().strip()
        yield f"http://127.0.0.1:{port}", vkey
        process.terminate()
        assert process.wait(30) == 0


def test_a_witness_anchors_the_log_outside_this_disk(copy: Path, witness: tuple[str, str]) -> None:
    url, vkey = witness
    for _ in range(ATTEMPTS_MAX):  # the witness prints its key a moment before it listens
        said = polyc(copy, "witness", "ask", url, vkey)
        if "unavailable" not in said.err:
            break
    assert said.code == 0, said.err
    report = json.loads(polyc(copy, "verify", "--json", "--witness", vkey).out)
    assert report["faults"] == []
    assert report["anchored_size"] > 0
    alone = json.loads(polyc(copy, "verify", "--json").out)
    assert alone["anchored_size"] == 0


ATTEMPTS_MAX = 50


def test_an_assistant_needs_a_session_from_the_environment(root: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "POLYCHROME_SESSION"}
    command = [sys.executable, "-m", "polyc.cli.main", "--data-root", str(root), "mcp"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("polyc: error: unauthenticated: POLYCHROME_SESSION is not set")
