"""The command line's manners: what goes where, and which code says what."""

import argparse
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from polyc.cli import main as entry
from polyc.cli import output
from polyc.cli.importing import tell_report
from polyc.cli.parser import build_parser
from polyc.errors import CorruptError, RefusedError, UnavailableError
from sources.report import Report


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                below = list(leaves(child))
                yield from below or [child]


@pytest.mark.parametrize("leaf", list(leaves(build_parser())), ids=lambda leaf: leaf.prog)
def test_every_command_has_an_example_in_its_help(leaf: argparse.ArgumentParser) -> None:
    assert f"example:\n  {leaf.prog}" in (leaf.epilog or "")


@pytest.mark.parametrize("leaf", list(leaves(build_parser())), ids=lambda leaf: leaf.prog)
def test_every_option_explains_itself(leaf: argparse.ArgumentParser) -> None:
    assert all(action.help for action in leaf._actions)


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        (["query"], "polyc query"),
        (["query", "--admin", "--persona", "a", "SELECT 1"], "polyc query"),
        (["nonsense"], "polyc"),
        (["query", "--format", "xml", "SELECT 1"], "polyc query"),
        (["prove", "conv-a", "1", "-o", "file"], "polyc prove"),
        (["keys", "list", "--bad"], "polyc keys list"),
        ([], "polyc"),
    ],
)
def test_wrong_usage_exits_2_and_names_the_page_that_says_more(
    arguments: list[str], page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        entry.main(arguments)
    said = capsys.readouterr()
    assert raised.value.code == 2
    assert said.out == ""
    assert said.err.startswith("polyc: error: invalid_argument: ")
    assert said.err.endswith(f"polyc: hint: {page} --help\n")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RefusedError("no", hint="try yes"), 1, "polyc: error: invalid_argument: no\npolyc: hint: try yes\n"),
        (UnavailableError("later"), 1, "polyc: error: unavailable: later\n"),
        (CorruptError("lies", place="conv-a/1"), 3, "polyc: error: data_loss: conv-a/1: lies\n"),
        (KeyboardInterrupt(), 130, "polyc: interrupted\n"),
    ],
)
def test_each_family_of_errors_has_its_exit_code(
    error: BaseException, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_arguments: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr("polyc.cli.commands.status", fails)
    assert entry.main(["status"]) == code
    assert capsys.readouterr() == ("", text)


def test_a_bug_of_ours_is_told_without_its_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_arguments: argparse.Namespace) -> int:
        raise ValueError("a payload")

    monkeypatch.setattr("polyc.cli.commands.status", fails)
    monkeypatch.delenv("POLYC_DEBUG", raising=False)
    assert entry.main(["status"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("polyc: error: internal: ValueError at test_manners.py:")
    assert "payload" not in said.err
    monkeypatch.setenv("POLYC_DEBUG", "1")
    with pytest.raises(ValueError, match="a payload"):
        entry.main(["status"])


def test_the_data_root_may_stand_before_and_after_the_command() -> None:
    parser = build_parser()
    assert parser.parse_args(["--data-root", "/a", "status"]).data_root == "/a"
    assert parser.parse_args(["status", "--data-root", "/b"]).data_root == "/b"
    assert parser.parse_args(["--data-root", "/a", "status", "--data-root", "/b"]).data_root == "/b"
    assert parser.parse_args(["status"]).data_root is None


def test_a_reader_that_closed_its_pipe_is_no_failure() -> None:
    code = "import sys; from polyc.cli.main import main; sys.exit(main(['tables', '--admin', '--format', 'json']))"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_help_loads_no_engine() -> None:
    code = (
        "import sys\n"
        "from polyc.cli.parser import build_parser\n"
        "build_parser()\n"
        "heavy = {'duckdb', 'pyarrow', 'grpc', 'sqlglot', 'apsw', 'rich', 'starlette'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def rows_as(form: output.Format, capsys: pytest.CaptureFixture[str]) -> str:
    output.write_rows(("name", "n", "flag", "many"), [("a,b", 1, True, [1, None]), (None, 22, False, [])], form=form)
    return capsys.readouterr().out


def test_json_is_one_object_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in rows_as("json", capsys).splitlines()]
    assert lines == [
        {"name": "a,b", "n": 1, "flag": True, "many": [1, None]},
        {"name": None, "n": 22, "flag": False, "many": []},
    ]


def test_csv_quotes_and_leaves_null_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert rows_as("csv", capsys) == 'name,n,flag,many\n"a,b",1,true,"[1,null]"\n,22,false,[]\n'


def test_a_table_lines_numbers_up_on_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    lines = rows_as("table", capsys).splitlines()
    assert [line.split() for line in lines[2:]] == [["a,b", "1", "true", "[1,null]"], ["22", "false", "[]"]]
    assert lines[2].index("1") == lines[3].index("22") + 1
    assert lines[2].index("true") == lines[3].index("false")
    assert all(line == line.rstrip() for line in lines)


def test_two_columns_of_one_name_cannot_be_keys(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RefusedError) as raised:
        output.write_rows(("a", "b", "a"), [(1, 2, 3)], form="json")
    assert "AS" in (raised.value.hint or "")
    output.write_rows(("a", "b", "a"), [(1, 2, 3)], form="csv")
    assert capsys.readouterr().out == "a,b,a\n1,2,3\n"


def test_a_cell_cannot_move_the_terminals_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_rows(("text",), [("a\x1b[2J\nb",)], form="table")
    assert "a\\x1b[2J\\nb" in capsys.readouterr().out


def test_a_statement_comes_from_stdin_for_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    from polyc.cli.querying import statement_of

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"SELECT 1")))
    assert statement_of("-") == "SELECT 1"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(RefusedError):
        statement_of("-")
    assert statement_of("SELECT 2") == "SELECT 2"


def test_a_file_that_is_no_history_is_not_passed_over_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    tell_report(Report(files=1, unrecognised=["holiday.png"]), every_line=False)
    said = capsys.readouterr().err
    assert "not a history of a known form: 1 of the files" in said
    assert "polyc import --report" in said
