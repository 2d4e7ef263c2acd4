"""What a person finds in a fresh clone."""

import re
import subprocess
from pathlib import Path

import pytest

from tools import transcripts

ROOT = Path(__file__).resolve().parents[2]


def test_make_has_at_most_eight_targets_and_lists_them() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^make (\w+)", listed, re.MULTILINE)
    assert {"help", "run", "test"} <= set(targets)
    assert len(targets) <= 8


def test_the_readme_begins_with_two_commands_within_thirty_lines() -> None:
    screen = (ROOT / "README.md").read_text().split("\nPolychrome keeps")[0].splitlines()
    assert len(screen) <= 30
    assert sum(line.startswith("$ ") for line in screen) >= 2


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_dependency_has_hashes(name: str) -> None:
    text = (ROOT / name).read_text()
    pinned = re.findall(r"^([\w.\-\[\]]+)==", text, re.MULTILINE)
    assert len(pinned) > 10
    for block in re.split(r"\n(?=[\w.\-\[\]]+==)", text)[1:]:
        assert "--hash=sha256:" in block
    assert "://" not in text


def test_continuous_integration_runs_make_test() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_the_licence_is_the_apache_licence() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_architecture_fits_two_screens() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 80


def test_the_transcript_of_make_test_lists_its_steps() -> None:
    said = transcripts.make_test()
    assert said.startswith("$ make test\nformat        ok\n")
    assert said.count(" ok\n") >= 8


def test_a_command_may_go_on_in_the_next_line() -> None:
    body = "$ one \\\n  and more\noutput\n$ two\n"
    assert transcripts.commands_of(body) == ["one \\\n  and more", "two"]


def test_tokens_and_times_are_masked() -> None:
    text = 'eyJhbGc.eyJzdWI.c2ln POLYCHROME_SESSION=pcs_x "expires_at_ms":1795999000000 took 1.25 s, 12 ms'
    for pattern, mask in transcripts.MASKS:
        text = pattern.sub(mask, text)
    assert text == 'eyJ… POLYCHROME_SESSION=… "expires_at_ms":1796000000000 took … s, … ms'
