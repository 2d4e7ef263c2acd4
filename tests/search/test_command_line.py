"""What a shell can hand to `polyc search`: bytes that are no text, words with dashes, other locales; and what it says."""

import io
import json
import os
import shlex
import subprocess
import sys

import pytest

from polyc.cli.main import main
from polyc.cli.parser import build_parser
from polyc.cli.sample import write_sample
from polyc.cli.searching import _body, _print_event, current_session
from tests.cli.runner import ask, polyc
from tests.search.archive import Archive, said


def run(root, *arguments: bytes | str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "polyc.cli.main", "--data-root", str(root), "search", "--admin", *arguments]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environment}, check=False)


@pytest.mark.parametrize("words", [b"\xff\xfe", b"caf\xc3\xa9\xff", b"\xed\xa0\x80", b"\x1b[2J"])
def test_bytes_that_are_no_text_are_searched_for_as_far_as_they_are(root, words):
    done = run(root, words, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"] == []


@pytest.mark.parametrize("option", ["--file", "--session", "--workspace", "--tool", "--term"])
def test_a_filter_of_bytes_that_are_no_text_fits_nothing(root, option):
    done = run(root, option, b"\xff", "--format", "json")
    assert b"a bug of ours" not in done.stderr
    assert done.returncode == (0 if option in {"--file", "--term"} else 1)


def test_the_locale_changes_neither_the_question_nor_the_answer(root, word):
    plain = run(root, word, "--format", "json")
    other = run(root, word, "--format", "json", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert other.returncode == 0, other.stderr
    assert json.loads(other.stdout)["results"] == json.loads(plain.stdout)["results"]
    asked = run(root, "caf\u00e9".encode(), "--format", "json", LC_ALL="C", PYTHONUTF8="0")
    assert json.loads(asked.stdout)["query"] == "caf\u00e9"


@pytest.mark.parametrize("arguments", [["--", "--no-verify"], ["--term=-rf"], ["--", "-"], ["--", "-1"]])
def test_words_with_dashes_are_searched_for(root, arguments):
    assert polyc(root, "search", "--admin", *arguments).code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--no-verify"], ["--no-verify"]),
        (["-rf"], ["-rf"]),
        (["fix", "--no-verify", "flag"], ["fix", "--no-verify", "flag"]),
        (["--limit", "3", "--frobnicate-shards", "--term=-x"], ["--frobnicate-shards"]),
        (["fix", "--limit", "3", "it"], ["fix", "it"]),
    ],
)
def test_what_is_no_option_is_a_word_and_a_note_says_so(arguments, words, capsys):
    """`--frobnicate-shards` is a thing to search for; a mistyped option is noticed by the note."""
    assert build_parser().parse_args(["search", *arguments]).words == words
    dashed = [word for word in words if word.startswith("-")]
    assert capsys.readouterr().err == (
        f"polyc: note: taken as words, since no option is called so: {' '.join(dashed)}\n" if dashed else ""
    )


def test_who_forgets_how_to_give_a_dash_to_an_option_is_told(capsys):
    with pytest.raises(SystemExit) as left:
        build_parser().parse_args(["search", "--term", "-rf"])
    assert left.value.code == 2
    assert "after --" in capsys.readouterr().err


def test_a_command_that_takes_no_words_takes_none_for_one():
    with pytest.raises(SystemExit):
        build_parser().parse_args(["show", "conv-a@1", "--no-verify"])


def test_what_writes_to_a_text_of_its_own_is_let_be(root, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert main(["--data-root", str(root), "search", "--admin", "points"]) == 0


def test_a_weight_that_is_no_number_is_refused(root):
    assert "semantic weight" in polyc(root, "search", "--admin", "--semantic-weight", "nan", "points").err


@pytest.mark.parametrize(
    "asked",
    [
        {"text": "points"},
        {"text": "-points"},
        {"text": "--no-verify points"},
        {"text": 'it\'s "points" $HOME `x` \\ !'},
        {"text": "points", "terms": ("--all", "it's", "-rf")},
        {"text": "", "terms": ("points", "x y")},
        {"text": " points\nmore\x1b[2J\u202e"},
    ],
)
def test_a_suggested_search_asks_the_same_within_the_conversation(asked):
    archive = Archive().tick(said("conv-a", "points no verify rf all it's x y more home"))
    hit = archive.search(**asked, verbose=True).results[0]
    command = hit.suggested_next_commands[-1]
    assert command.isprintable()
    arguments = build_parser().parse_args(shlex.split(command)[1:])
    again = _body(arguments, {})
    found = archive.search(again.query, terms=again.terms).results[0]
    assert found.retrieval_score == hit.retrieval_score
    assert again.filters.sessions == (hit.session,)


def test_an_answer_says_on_stderr_what_its_results_do_not_show(root):
    many = " ".join(f"word{number}" for number in range(60))
    assert "more different words" in polyc(root, "search", "--admin", many).err
    assert "no word" in polyc(root, "search", "--admin", "--backend", "lexical", "...").err
    assert "no conversation" in polyc(root, "search", "--admin", "--session", "nobodys-own", "points").err
    assert polyc(root, "search", "--admin", "points").err == ""


def test_every_event_that_is_found_is_shown_when_it_is_opened(root):
    """A thought stands in its message's blocks, not in its text: it was found and not shown."""
    thought = ask(root, "SELECT text FROM blocks WHERE type = 'thinking' ORDER BY length(text) DESC LIMIT 1")[0]["text"]
    found = polyc(root, "search", "--admin", "--events", "--format", "json", "--event-type", "other", thought)
    hit = json.loads(found.out)["results"][0]
    assert hit["snippet"]["text"] in thought
    assert " ".join(thought.split()) in " ".join(polyc(root, "show", "--admin", hit["citation"]).out.decode().split())


def test_foreign_names_move_no_terminal_when_an_event_is_opened(capsys):
    row = {"partition": "conv-a", "position": 1, "event": "call", "who": "\x1b[2JEdit\u202e", "occurred_at": None}
    _print_event({**row, "text": "\x1b[2J"}, marked=None)
    shown = capsys.readouterr().out
    assert "\\x1b[2JEdit\\u202e" in shown
    assert "\x1b" not in shown


def test_waiting_where_nobody_serves_makes_what_is_waited_for(tmp_path):
    root, home = tmp_path / "root", tmp_path / "home"
    write_sample(home)
    assert polyc(root, "import", "--final", "--no-project", str(home)).code == 0
    assert (
        json.loads(polyc(root, "search", "--admin", "--format", "json", "ferry").out or b"{}").get("results", []) == []
    )
    answer = json.loads(polyc(root, "search", "--admin", "--refresh", "wait", "--format", "json", "ferry").out)
    assert answer["freshness"]["outcome"] == "waited"
    assert answer["results"]


def test_a_session_within_a_session_is_ambiguous_and_leaves_everything_in():
    assert current_session({"CLAUDE_CODE_SESSION_ID": "abc", "CODEX_THREAD_ID": "def"}) == ()
