"""Sample agent histories of our own: what `make run` imports on a machine that has none.

`write_sample(home)` writes five conversations in the forms of Claude Code and Codex, as if a person had worked at
`home` in early November 2026. The same bytes every time: the README's transcripts are made from them.
"""

import os
from datetime import datetime
from pathlib import Path
from typing import Final

from polyc.cli.sample import claude_code, codex
from polyc.cli.sample.stories import STORIES

HOUR_S: Final = 3600.0


def write_sample(home: Path) -> list[Path]:
    """Write the five histories below `home`; give back the folders an importer would look into."""
    for story in STORIES:
        lines, path = claude_code.render(story) if story.form == "claude-code" else codex.render(story)
        target = home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(lines)
        ended_s = datetime.fromisoformat(story.started_at).timestamp() + HOUR_S  # nobody touched the file since
        os.utime(target, (ended_s, ended_s))
    return [home / ".claude" / "projects", home / ".codex" / "sessions"]
