"""Admins and suspended personas from the shell: what they may do ends when the mark or the persona does."""

from pathlib import Path

import pytest

from tests.cli.runner import polyc


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    assert polyc(root, "init").code == 0
    return root


def test_an_admins_mark_can_be_given_and_taken(root: Path) -> None:
    assert polyc(root, "persona", "create", "ada").code == 0
    assert polyc(root, "admin", "add", "ada").code == 0
    listed = {row["persona"]: row["admin"] for row in polyc(root, "persona", "list", "--format", "json").rows}
    assert listed["ada"] is True
    assert polyc(root, "admin", "remove", "ada").code == 0
    listed = {row["persona"]: row["admin"] for row in polyc(root, "persona", "list", "--format", "json").rows}
    assert listed["ada"] is False


def test_a_suspended_persona_gets_no_session_until_it_is_resumed(root: Path) -> None:
    assert polyc(root, "persona", "create", "ada").code == 0
    assert polyc(root, "session", "create", "--persona", "ada").code == 0
    assert polyc(root, "persona", "suspend", "ada").code == 0
    assert polyc(root, "session", "list", "--format", "json").out == b""
    assert polyc(root, "session", "create", "--persona", "ada").code == 1
    assert polyc(root, "persona", "resume", "ada").code == 0
    assert polyc(root, "session", "create", "--persona", "ada").code == 0


@pytest.mark.parametrize("command", [("persona", "suspend"), ("persona", "resume"), ("admin", "remove")])
def test_nobody_of_the_name_is_told(root: Path, command: tuple[str, str]) -> None:
    said = polyc(root, *command, "nobody")
    assert said.code == 1
    assert "no such persona" in said.err
