"""The demonstration shows what it says, with the real planes."""

from pathlib import Path

from polyc.cli import demo
from tests.cli.runner import polyc


def test_the_demonstration_shows_each_law(tmp_path: Path) -> None:
    said = polyc(tmp_path / "unused", "demo")
    assert said.code == 0, said.err
    shown = said.out.decode()
    assert demo.TRUTH in shown
    assert "day ferry leaves" not in shown
    assert "no table signer_keys" in shown or "signer_keys" in shown
    assert f"{demo.CONVERSATION}" in shown.split("becomes")[-1]
    assert not (tmp_path / "unused").exists()
