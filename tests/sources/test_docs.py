"""The page about sources says what the code does."""

import json
from pathlib import Path

from polyc.cli.importing import tell_report
from sources import Cursors
from sources.native import ALLOWED
from sources.native_schema import text
from sources.providers import BY_NAME
from sources.redaction import POLICY
from tests.sources.loop import Loop

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "sources.md").read_text()


def test_the_committed_schema_is_the_events():
    assert (DOCS / "native-events.schema.json").read_text() == text()


def test_the_schema_names_every_event_that_an_importer_may_write():
    definitions = json.loads(text())["$defs"]
    assert {
        definition["properties"]["type"]["enum"][0]
        for definition in definitions.values()
        if "type" in definition.get("properties", {})
        and "enum" in definition["properties"]["type"]
        and len(definition["properties"]["type"]["enum"]) == 1
    } >= set(ALLOWED)


def test_the_native_example_of_the_page_is_one_committed_turn(tmp_path):
    example = PAGE.split("```json\n")[1].split("```")[0]
    path = tmp_path / "lamp.ndjson"
    path.write_text(example)
    loop = Loop(Cursors.open(None))
    report, _ = loop.run(path, final=True)
    assert (report.conversations, report.turns, report.quarantined) == (1, 1, [])


def test_the_tool_lines_of_the_page_belong_to_the_turn(tmp_path):
    example, tools = (part.split("```")[0] for part in PAGE.split("```json\n")[1:3])
    lines = example.splitlines(keepends=True)
    path = tmp_path / "lamp.ndjson"
    path.write_text("".join([*lines[:-1], tools, lines[-1]]))
    loop = Loop()
    report, _ = loop.run(path, final=True)
    assert (report.records, report.turns, report.quarantined) == (9, 1, [])


def test_a_wrong_line_is_told_as_the_page_says(tmp_path, capsys):
    example = PAGE.split("```json\n")[1].split("```")[0]
    path = tmp_path / "lamp.ndjson"
    path.write_text(example.replace('"text":"Light the lamp."', '"text":7'))
    report, _ = Loop().run(path, final=True)
    tell_report(report, every_line=True)
    wanted = next(line for line in PAGE.splitlines() if line.startswith("lamp.ndjson: line"))
    assert wanted.removeprefix("lamp.ndjson") in capsys.readouterr().err


def test_the_toy_provider_of_the_page_is_one(tmp_path, monkeypatch):
    toy: dict = {}
    exec(compile(PAGE.split("```python\n")[1].split("```")[0], "toy", "exec"), toy)
    monkeypatch.setattr("sources.recognition.PROVIDERS", (toy["TOY"],))
    monkeypatch.setitem(BY_NAME, "toy", toy["TOY"])
    path = tmp_path / "talk.txt"
    content = "toy\n> Is the lamp lit?\n< It is.\n> And now?\n< Still.\n"
    path.write_text(content)
    whole = Loop()
    assert whole.run(path, final=True)[0].turns == 2
    for cut in range(len(content)):
        loop = Loop()
        path.write_text(content[:cut])
        loop.run(path, now_us=0)
        path.write_text(content)
        loop.run(path, final=True)
        assert loop.journal.current() == whole.journal.current()
        assert loop.run(path, final=True)[1] == 0


def test_the_page_names_the_policy():
    assert POLICY in PAGE
