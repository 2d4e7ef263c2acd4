"""What a tool does, from its name and arguments: the `action`, `command`, `path` and `server` of a call.

A table, not a guess: a name that is not listed is `other`. MCP tools (`mcp__server__tool`) and those of
extensions (`extension__tool`) name their server.
"""

import re
from typing import Any, Final, NamedTuple

from facts.events import Action

ACTIONS: Final[dict[str, Action]] = {
    "read": "file_read", "read_file": "file_read", "readfile": "file_read", "read_many_files": "file_read",
    "view": "file_read", "notebookread": "file_read", "view_image": "file_read", "cat": "file_read",
    "write": "file_write", "write_file": "file_write", "create": "file_write", "create_file": "file_write",
    "edit": "file_edit", "multiedit": "file_edit", "notebookedit": "file_edit", "apply_patch": "file_edit",
    "patch": "file_edit", "replace": "file_edit", "str_replace": "file_edit", "edit_file": "file_edit",
    "search_replace": "file_edit", "strreplace": "file_edit", "delete": "file_edit",
    "bash": "shell", "shell": "shell", "shell_command": "shell", "exec_command": "shell", "exec": "shell",
    "local_shell": "shell", "run_shell_command": "shell", "run_terminal_cmd": "shell", "write_stdin": "shell",
    "bashoutput": "shell", "killshell": "shell", "killbash": "shell", "container.exec": "shell",
    "powershell": "shell", "terminal": "shell", "python": "shell", "unified_exec": "shell",
    "grep": "search", "glob": "search", "ls": "search", "list": "search", "find": "search", "search": "search",
    "list_directory": "search", "search_file_content": "search", "codebase_search": "search",
    "grep_search": "search", "file_search": "search", "list_dir": "search", "rg": "search",
    "webfetch": "web", "websearch": "web", "web_search": "web", "web_fetch": "web", "web_run": "web",
    "google_web_search": "web", "fetch": "web", "browser": "web", "web.run": "web", "web_search_call": "web",
    "task": "subagent", "agent": "subagent", "spawn_agent": "subagent", "subagent": "subagent",
    "wait_agent": "agent", "send_input": "agent", "close_agent": "agent", "resume_agent": "agent",
    "wait": "agent", "skill": "agent", "todowrite": "agent", "update_plan": "agent", "todo": "agent",
    "exitplanmode": "agent", "enterplanmode": "agent", "askuserquestion": "agent",
}  # fmt: skip

_COMMAND_KEYS: Final = ("command", "cmd", "script", "input")
_PATH_KEYS: Final = ("file_path", "path", "notebook_path", "filePath", "absolute_path", "target_file", "filename")
_PATCH_PATH: Final = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_GIT: Final = re.compile(r"(?:^|&&|;)\s*(?:sudo\s+)?git\s")


class ToolUse(NamedTuple):
    """What is known of a call beside its name and arguments."""

    action: Action
    command: str | None = None
    path: str | None = None
    server: str | None = None


def tool_use(name: str, arguments: Any) -> ToolUse:
    """Classify a call.

    >>> tool_use("Bash", {"command": "git status"})
    ToolUse(action='git', command='git status', path=None, server=None)
    >>> tool_use("mcp__tracker__read", {"id": 7})
    ToolUse(action='file_read', command=None, path=None, server='tracker')
    """
    server, _, short = name.removeprefix("mcp__").partition("__") if "__" in name.strip("_") else ("", "", name)
    action = ACTIONS.get(short.lower(), "other")
    fields = arguments if isinstance(arguments, dict) else {}
    command = _command(fields) if action == "shell" else None
    if action == "shell" and command and _GIT.match(command):
        action = "git"
    path = _path(fields)
    if path is None and action == "file_edit":
        patch = arguments if isinstance(arguments, str) else fields.get("input")
        found = _PATCH_PATH.search(patch) if isinstance(patch, str) else None
        path = found[1].strip() if found else None
    return ToolUse(action, command, path, server or None)


def _path(fields: dict[str, Any]) -> str | None:
    for key in _PATH_KEYS:
        value = fields.get(key)
        if isinstance(value, str):
            return value
    return None


def _command(fields: dict[str, Any]) -> str | None:
    for key in _COMMAND_KEYS:
        value = fields.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return _of_words(value)
    return None


def _of_words(words: list[str]) -> str:
    """The command of an argument vector; `bash -lc TEXT` is TEXT."""
    if len(words) == 3 and words[0].rsplit("/", 1)[-1] in {"bash", "sh", "zsh"} and words[1] in {"-lc", "-c"}:
        return words[2]
    return " ".join(words)
