"""Real files of other projects import without a crash, and nothing of them vanishes silently.

They are data of other projects: read where they are, skipped where they are not, never committed.
"""

import re
from pathlib import Path

import pytest

from tests.cli.runner import ask, polyc
from tests.support.shared import shared_path


@pytest.mark.parametrize("provider", ["claude-code", "codex"])
def test_every_file_imports_and_each_unreadable_line_is_reported(provider: str, tmp_path: Path) -> None:
    folder = shared_path("fixtures", provider)
    said = polyc(tmp_path, "import", "--final", "--report", str(folder))
    assert said.code == 0, said.err
    assert ask(tmp_path, "SELECT COUNT(*) AS n FROM turns")[0]["n"] > 0
    quarantined = ask(tmp_path, "SELECT * FROM import_quarantine")
    piece = rf"{re.escape(str(folder))}.*: (line \d+, )?byte \d+: [a-z_]+$"
    reported = [line for line in said.err.splitlines() if re.match(piece, line)]
    assert len(reported) == len(quarantined) > 0
    assert set(quarantined[0]) >= {"path", "byte_offset", "reason"}
