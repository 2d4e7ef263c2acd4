"""The house rules hold, and every one of them can fail."""

from pathlib import Path

import pytest

from tools import commands_doc, tidy

REASONLESS = "x = 1  # no" + "qa: E501\n"
HOST = "pip install --index-url https://" + ".".join(("py" + "pi", "org")) + "/simple\n"

BREACHES = {
    "long module": lambda: tidy.breaches_of_module("facts/long.py", "x = 1\n" * 501),
    "long function": lambda: tidy.breaches_of_module("facts/long.py", "def f():\n" + "    x = 1\n" * 70),
    "vague name": lambda: tidy.breaches_of_module("facts/utils.py", "x = 1\n"),
    "suppression without a reason": lambda: tidy.breaches_of_module("facts/a.py", REASONLESS),
    "clock": lambda: tidy.breaches_of_module("facts/a.py", "import time\ntime.time()\n"),
    "sync": lambda: tidy.breaches_of_module("artifacts/a.py", "import os\nos.fsync(3)\n"),
    "chance": lambda: tidy.breaches_of_module("control/a.py", "import uuid\nuuid.uuid4()\n"),
    "print": lambda: tidy.breaches_of_module("journal/a.py", "print('x')\n"),
    "eval": lambda: tidy.breaches_of_module("journal/a.py", "eval('x')\n"),
    "an importer that appends": lambda: tidy.breaches_of_module("sources/a.py", "from polyc.appending import Author\n"),
    "not Python": lambda: tidy.breaches_of_module("facts/a.py", "def\n"),
    "todo without an issue": lambda: tidy.breaches_of_text("facts/a.py", "# TO" + "DO later\n"),
    "registry host": lambda: tidy.breaches_of_text("Makefile", HOST),
    "tests outside a package": lambda: tidy.breaches_of_folders(["tests/__init__.py", "tests/facts/test_a.py"]),
    "dead link": lambda: tidy.breaches_of_links({"docs/a.md": "[b](b.md)"}, {"docs/a.md"}),
    "undocumented command": lambda: tidy.breaches_of_docs("nothing here"),
}


@pytest.mark.parametrize("rule", BREACHES)
def test_the_rule_can_fail(rule: str) -> None:
    assert list(BREACHES[rule]())


def test_what_keeps_the_rules_is_not_reported() -> None:
    kept = '"""A module."""\n\nx = 1  # noqa: E501 the table is read by people\n# TODO(#12) later\n'
    assert not list(tidy.breaches_of_module("facts/a.py", kept))
    assert not list(tidy.breaches_of_text("facts/a.py", kept))
    assert not list(tidy.breaches_of_module("polyc/clock.py", "import time\ntime.time()\n"))
    assert not list(tidy.breaches_of_folders(["tests/__init__.py", "tests/facts/__init__.py", "tests/facts/test_a.py"]))
    pages = {"docs/a.md": "[b](b.md) [c](../C.md#part) [d](https://example.org/d) [e](#here) [f](spec/)"}
    assert not list(tidy.breaches_of_links(pages, {"docs/a.md", "docs/b.md", "C.md", "docs/spec/x.md"}))


def test_the_page_of_commands_is_fresh() -> None:
    from polyc.cli.parser import build_parser

    assert commands_doc.PAGE.read_text() == commands_doc.render(build_parser())


def test_a_changed_grammar_makes_the_page_stale() -> None:
    from polyc.cli.parser import build_parser

    parser = build_parser()
    parser._subparsers._group_actions[0].choices["import"].add_argument("--never-heard-of", help="x")
    assert commands_doc.PAGE.read_text() != commands_doc.render(parser)


def test_every_file_of_the_repository_is_looked_at() -> None:
    files = tidy.tracked_files(Path(tidy.ROOT))
    assert "tools/tidy.py" in files
    assert not [name for name in files if name.startswith(".venv/")]
