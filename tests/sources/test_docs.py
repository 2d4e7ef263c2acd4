"""The page about sources says what the code does."""

import json
from pathlib import Path

from sources import Cursors
from sources.native import ALLOWED
from sources.native_schema import text
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


def test_the_page_names_the_policy():
    assert POLICY in PAGE
