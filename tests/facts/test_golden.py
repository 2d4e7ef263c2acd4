"""Golden journals give their golden rows, to the last cell."""

import pytest

from tests.facts.golden_journals import journals, read, render
from tests.facts.journal import TRUST


@pytest.mark.parametrize("path", journals(), ids=lambda path: path.stem)
def test_a_golden_journal_gives_its_rows(path):
    expected = path.with_suffix(".rows").read_text()
    assert render(read(path).rows(TRUST)) == expected, "python -m tests.facts.golden_journals writes it anew"


def test_there_are_golden_journals():
    assert {path.stem for path in journals()} == {"live", "imported", "hostile"}
