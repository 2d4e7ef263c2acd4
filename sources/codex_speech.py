"""Who speaks in a Codex message, and which two records are one message."""

import re
from typing import Any, Final, NamedTuple

from facts.events import MaterialOrigin

PAIRS_MAX: Final = 64  # the two records of one message stand close together

_CONTEXT: Final = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions instructions|collaboration_mode|skills?_?\w*|"
    r"personality_spec|app-context|model_switch|subagent_notification|INSTRUCTIONS|plugins_instructions)\b"
    r"|# AGENTS\.md instructions)"
)
_COMMAND: Final = re.compile(r"\s*<user_shell_command>")
_PROTOCOL: Final = re.compile(r"\s*<(?:turn_aborted|turn_interrupted|system|system_notice|hook_prompt)\b")
_REQUEST: Final = re.compile(r"^## My request for Codex:?\s*$", re.MULTILINE)
_IDE: Final = "# Context from my IDE setup"


class Speech(NamedTuple):
    """A user message's text without what the harness put before it, that context, and whose words they are."""

    text: str
    context: str | None
    origin: MaterialOrigin


def classify(text: str) -> Speech:
    """Whose words a message of role `user` holds.

    >>> classify("<environment_context>x</environment_context>").origin
    'runtime_context'
    >>> classify("Convert the gauge.").origin
    'human_authored'
    """
    if _COMMAND.match(text):
        return Speech(text, None, "operator_command")
    if _PROTOCOL.match(text):
        return Speech(text, None, "runtime_protocol")
    if _CONTEXT.match(text):
        return Speech(text, None, "runtime_context")
    if text.startswith(_IDE) and (found := _REQUEST.search(text)):
        return Speech(text[found.end() :].strip(), text[: found.start()].strip(), "human_authored")
    return Speech(text, None, "human_authored")


def texts_of(content: Any) -> list[str]:
    """The texts of an item's content."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


class Pairs:
    """Finds the second record of a message that was told by its first.

    Each text waits on its side (`event` or `item`) for its twin on the other; a twin is used once, so a person who
    says the same twice has said it twice.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], list[str]] = {}

    def is_second(self, kind: str, side: str, text: str) -> bool:
        """Whether the other side told this text before; if not, it waits here for its twin."""
        other = "item" if side == "event" else "event"
        key = text.strip()
        waiting = self._waiting.get((kind, other), [])
        if key in waiting:
            waiting.remove(key)
            return True
        mine = self._waiting.setdefault((kind, side), [])
        mine.append(key)
        del mine[:-PAIRS_MAX]
        return False

    def forget(self) -> None:
        """A turn ended: no twin comes later."""
        self._waiting.clear()
