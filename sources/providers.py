"""The providers, in the order in which they are asked whether a file is theirs."""

from typing import Final

from sources.chatgpt import CHATGPT
from sources.claude_ai import CLAUDE_AI
from sources.claude_code import CLAUDE_CODE
from sources.codex import CODEX
from sources.copilot_cli import COPILOT_CLI
from sources.cursor import CURSOR
from sources.gemini_cli import GEMINI_CLI
from sources.goose import GOOSE
from sources.native import NATIVE
from sources.opencode import OPENCODE
from sources.otlp import OTLP
from sources.provider import Provider

PROVIDERS: Final[tuple[Provider, ...]] = (
    NATIVE,
    CLAUDE_CODE,  # before Codex: it says no sooner, and their records have no type in common
    CODEX,
    COPILOT_CLI,
    GEMINI_CLI,
    OPENCODE,
    GOOSE,
    OTLP,
    CHATGPT,
    CLAUDE_AI,
    CURSOR,
)
BY_NAME: Final[dict[str, Provider]] = {provider.name: provider for provider in PROVIDERS}
