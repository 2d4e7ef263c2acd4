"""Commands that go on for a while: the SQL shell, a witness, an assistant."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyc.cli import paging
from tests.cli.runner import Said, polyc
from tests.support.ports import free_pair


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


def test_the_shells_own_words_need_no_semicolon(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = typed(root, ".help\n.tables\n.schema TURNS\n.explain SELECT 1\n.quit\nSELECT 9;\n", monkeypatch, "--admin")
    words, tables, columns = ([row[key] for row in rows_with(said, key)] for key in ("word", "table", "column"))
    assert ".schema TABLE" in words
    assert {"turns", "signer_keys"} <= set(tables)
    assert columns[:3] == ["partition", "source_incarnation", "position"]
    assert b"9" not in said.out.splitlines()[-1], "nothing after .quit"


def test_a_word_that_the_shell_has_not_is_refused_and_the_next_one_heard(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = typed(
        root, ".nothing\n.schema nowhere\n.format arrow\n.format csv\nSELECT 1 AS a;\n", monkeypatch, "--admin"
    )
    assert said.out == b"a\n1\n"
    assert said.err.count("polyc: error: ") == 3


def rows_with(said: Said, key: str) -> list[dict[str, str]]:
    rows = [json.loads(line) for line in said.out.splitlines() if line.startswith(b"{")]
    return [row for row in rows if key in row]


LONG = "".join(f"line {number}\n" for number in range(100))


def test_a_table_that_does_not_fit_the_screen_goes_through_the_pager(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAGER", "sed s/^/paged:/")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    paging.write("short\n")
    paging.write(LONG)
    shown = capfd.readouterr().out.splitlines()
    assert shown[0] == "short"
    assert shown[1:] == [f"paged:line {number}" for number in range(100)]


def test_a_pipe_is_never_paged_and_a_pager_that_is_missing_is_done_without(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAGER", "sed s/^/paged:/")
    paging.write(LONG)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("PAGER", "/nowhere/less -x")
    paging.write(LONG)
    assert capfd.readouterr().out == 2 * LONG


def test_an_assistants_server_is_told_of_a_session_that_is_none(root: Path) -> None:
    command = [sys.executable, "-m", "polyc.cli.main", "--data-root", str(root), "mcp"]
    environment = {**os.environ, "POLYCHROME_SESSION": "not a session"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("polyc: error: unauthenticated: POLYCHROME_SESSION holds no session")
    assert "not a session" not in done.stderr


@pytest.fixture
def witness(root: Path, tmp_path: Path) -> Iterator[tuple[str, str]]:
    log = polyc(root, "witness", "vkey").out.decode().strip()
    port = str(free_pair())
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
