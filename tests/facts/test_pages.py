"""The pages about facts are true: the generated one is fresh, the guide runs, every name they link to exists."""

import doctest
import re
from pathlib import Path

import pytest

from facts.catalog import TABLES, VIEWS
from tools import tables_doc

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_of_tables_is_what_the_catalog_says():
    assert tables_doc.PAGE.read_text() == tables_doc.render(), "run python -m tools.tables_doc"


def test_the_check_notices_a_stale_page(tmp_path, monkeypatch, capsys):
    page = tmp_path / "tables.md"
    monkeypatch.setattr(tables_doc, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["tables_doc", "--check"])
    assert tables_doc.main() == 1
    monkeypatch.setattr("sys.argv", ["tables_doc"])
    assert tables_doc.main() == 0
    monkeypatch.setattr("sys.argv", ["tables_doc", "--check"])
    assert tables_doc.main() == 0
    page.write_text(page.read_text() + "x")
    assert tables_doc.main() == 1
    assert "stale" in capsys.readouterr().out


def test_the_guide_to_spending_runs():
    failed, tried = doctest.testfile(str(DOCS / "guide" / "spending.md"), module_relative=False)
    assert tried > 10
    assert failed == 0


@pytest.mark.parametrize("page", ["fact-model.md", "tables.md", "guide/spending.md"])
def test_every_link_leads_to_a_page(page):
    path = DOCS / page
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_fact_model_names_only_tables_that_there_are():
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", (DOCS / "fact-model.md").read_text()))
    words = {"turn_start", "turn_complete", "turn_id", "dispatch_id", "call_id", "tool_call_id", "request_id"}
    words |= {
        "apply_all",
        "input_tokens",
        "output_tokens",
        "input_uncached_tokens",
        "source_incarnation",
        "unsupported_format",
    }
    assert named - words <= TABLES.keys() | VIEWS.keys()
