"""The text of a tool call, the files it names, and whether it is a search of this archive itself."""

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_ARGUMENT_DEPTH_MAX: Final = 6  # deeper values are shown as JSON: no recursion on foreign data beyond this


def render_call(row: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    r"""The canonical text of a call and the fields that contributed: the name, then `key: value` lines.

    >>> row = {"name": "Edit", "server": None, "arguments": '{"path":"a.py","edits":[{"new":"x"}]}'}
    >>> render_call(row)
    ('Edit\npath: a.py\nnew: x', ('name', 'arguments'))
    """
    name = f"{row['server']} {row['name']}" if row["server"] else (row["name"] or "tool")
    arguments = row["arguments"]
    if not arguments:
        return name, ("name",)
    lines = [name]
    try:
        _lines(msgspec.json.decode(arguments), "arguments", lines, depth=0)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        lines.append(arguments)
    return "\n".join(lines), ("name", "arguments")


def _lines(value: Any, key: str, lines: list[str], *, depth: int) -> None:
    if depth < _ARGUMENT_DEPTH_MAX and isinstance(value, dict):
        for name, item in value.items():
            _lines(item, str(name), lines, depth=depth + 1)
    elif depth < _ARGUMENT_DEPTH_MAX and isinstance(value, list):
        for item in value:
            _lines(item, key, lines, depth=depth + 1)
    elif isinstance(value, str):
        lines.append(f"{key}: {value}")
    else:
        lines.append(f"{key}: {msgspec.json.encode(value).decode()}")


_PATCHED: Final = re.compile(r"(?m)^\*\*\* (?:Add File|Update File|Delete File|Move to): (\S.*)$")
_PATHS_MAX: Final = 64  # of one call: a patch of a whole tree is no better found by its hundredth file


def patch_paths(row: Mapping[str, Any], text: str) -> tuple[str, ...]:
    """The files that a call names: its path, and those declared in the headers of a patch in its arguments."""
    paths = [row["path"]] if row["path"] else []
    if "*** Begin Patch" in text:
        paths += [match.group(1).strip() for match in _PATCHED.finditer(text)]
    return tuple(dict.fromkeys(paths))[:_PATHS_MAX]


_OWN_TOOLS: Final = frozenset({"conversation_recent_turns", "conversation_list_tool_calls"})
_OWN_SERVER: Final = "polychrome"
_OWN_COMMANDS: Final = frozenset({"search", "show", "query", "prove"})
_OPERATORS: Final = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "(", ")", "\n"})


def is_own_search(row: Mapping[str, Any]) -> bool:
    """Whether a call does nothing but read this archive: by its syntax, never by what it found.

    A pipe, a redirection or a second command makes it an ordinary call, whose output counts.
    """
    if row["name"] in _OWN_TOOLS or row["server"] == _OWN_SERVER:
        return True
    command = row["command"]
    if row["action"] != "shell" or not command or "polyc" not in command:
        return False
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>()\n")
        lexer.whitespace, lexer.whitespace_split = " \t\r", True
        words = list(lexer)
    except ValueError:
        return False
    simple = not any(word in _OPERATORS or "$(" in word or "`" in word for word in words)
    return simple and words[:1] == ["polyc"] and any(word in _OWN_COMMANDS for word in words[1:2])
