"""Real files of other projects: each is told, or named with what it is instead; none vanishes."""

import pytest

from sources.recognition import is_part
from tests.sources.loop import Loop
from tests.support.shared import shared_path

FIXTURES = 241
TOLD = 105  # the others are documents about formats, single values, and histories of programs that are not read


def test_each_of_the_fixtures_is_told_or_named():
    folder = shared_path("fixtures")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert len(files) == FIXTURES
    told = 0
    for path in files:
        report, _new = Loop().run(path, final=True)
        told += report.events > 0
        named = report.unrecognised or report.empty or report.quarantined or report.incomplete
        kept_out = report.skipped or report.unknown
        assert report.events or named or kept_out or is_part(path), path
        assert not [bad.reason for _path, bad in report.quarantined if bad.reason.startswith("reader_failed")], path
    assert told == TOLD


@pytest.mark.parametrize("folder", ["claude-code", "codex", "copilot-cli", "cursor", "gemini", "goose", "chatgpt"])
def test_a_folder_of_fixtures_is_imported_once(folder):
    loop = Loop()
    report, new = loop.run(shared_path("fixtures", folder), final=True)
    assert report.events > 0
    assert new > 0
    loop.lose_cursors()
    assert loop.run(shared_path("fixtures", folder), final=True)[1] == 0
