"""Where the programs keep their histories on a machine."""

from collections.abc import Iterator, Mapping
from pathlib import Path


def default_paths(home: Path, environment: Mapping[str, str]) -> list[Path]:
    """The standard places that exist here, each once."""
    return [place for place in dict.fromkeys(standard_places(home, environment)) if place.exists()]


def standard_places(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """All of them, whether or not they exist."""
    configured = environment.get("CLAUDE_CONFIG_DIR")
    if configured:
        yield from (Path(folder) / "projects" for folder in configured.split(",") if folder)
    else:
        yield home / ".claude" / "projects"
        yield home / ".config" / "claude" / "projects"
    codex = Path(environment.get("CODEX_HOME") or home / ".codex")
    yield codex / "sessions"
    yield codex / "archived_sessions"
    yield home / ".gemini" / "tmp"
    yield home / ".copilot" / "session-state"
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    yield data / "opencode" / "opencode.db"
    yield data / "opencode" / "storage" / "session"
    goose = environment.get("GOOSE_PATH_ROOT")
    yield Path(goose) / "data" / "sessions" if goose else data / "goose" / "sessions"
    yield home / ".cursor" / "projects"
    yield home / ".config" / "Cursor" / "User" / "globalStorage" / "state.vscdb"
    yield home / "Library" / "Application Support" / "Cursor" / "User" / "globalStorage" / "state.vscdb"
