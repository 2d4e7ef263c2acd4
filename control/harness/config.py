"""Which harnesses there are: `harnesses.json` in the data root, which only its owner can write.

    {"echo":  {"kind":"subprocess","command":["python3","/srv/echo.py"],"environment":{},"deadline_s":600},
     "agent": {"kind":"http","url":"http://127.0.0.1:9000/turn"},
     "chat":  {"kind":"chat","url":"http://127.0.0.1:11434/v1","model":"llama","api_key_file":null}}

No HTTP operation writes it: whoever could would run programs here.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from polyc.dataroot import DataRoot
from polyc.errors import RefusedError
from polyc.limits import TURN_DEADLINE_S_DEFAULT, TURN_DEADLINE_S_MAX

HARNESSES_FILE: Final = "harnesses.json"


class _Config(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    deadline_s: float = Field(default=TURN_DEADLINE_S_DEFAULT, gt=0, le=TURN_DEADLINE_S_MAX)


class SubprocessConfig(_Config):
    """A program: the turn on its stdin, events on its stdout."""

    kind: Literal["subprocess"]
    command: list[str] = Field(min_length=1)
    folder: str | None = None
    environment: dict[str, str] = Field(default_factory=dict)


class HttpConfig(_Config):
    """A service: the turn as a POST, events as the NDJSON answer."""

    kind: Literal["http"]
    url: str = Field(pattern=r"^https?://")


class ChatConfig(_Config):
    """An OpenAI-compatible chat endpoint: one completion a turn. The key is read from a file, never stored here."""

    kind: Literal["chat"]
    url: str = Field(pattern=r"^https?://")
    model: str
    api_key_file: str | None = None
    system_prompt: str | None = None


HarnessConfig = Annotated[SubprocessConfig | HttpConfig | ChatConfig, Field(discriminator="kind")]
_adapter: Final = TypeAdapter(dict[str, HarnessConfig])


def load_harnesses(root: DataRoot) -> dict[str, SubprocessConfig | HttpConfig | ChatConfig]:
    """All of them, by name; none when there is no file."""
    file = root.path / HARNESSES_FILE
    return load_harness_file(file) if file.exists() else {}


def load_harness_file(file: Path) -> dict[str, SubprocessConfig | HttpConfig | ChatConfig]:
    """The file's harnesses, refused when others can write it."""
    if file.stat().st_mode & 0o022:
        raise RefusedError(
            "harnesses.json can be written by others", code="failed_precondition", hint=f"chmod 600 {file}"
        )
    try:
        return _adapter.validate_json(file.read_bytes())
    except ValidationError as error:
        places = sorted({".".join(str(part) for part in item["loc"]) for item in error.errors()})
        raise RefusedError(
            f"harnesses.json does not fit: {', '.join(places[:8])}", code="failed_precondition"
        ) from None


def find_harness(root: DataRoot, name: str) -> SubprocessConfig | HttpConfig | ChatConfig:
    """The harness of this name, or RefusedError."""
    found = load_harnesses(root).get(name)
    if found is None:
        raise RefusedError("no such harness", code="not_found", hint="harnesses.json in the data root lists them")
    return found
