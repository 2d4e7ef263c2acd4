"""House rules that no linter knows; prints one line a breach and exits 1 when there is any.

Rules: a module has at most 500 lines, a function at most 70 · a TODO carries an issue's number · no file names a
package registry's host · every folder with tests is a package · no module is called utils, helpers, manager, common,
data or info · a suppression (`noqa`, `type: ignore`) has its reason beside it · only polyc/clock.py reads a clock,
only polyc/durable.py syncs or replaces, only polyc/ids.py takes the machine's chance · sources never name an author ·
only the command line and tools print · the docs mention every command and every option, and their links lead somewhere.
"""

import argparse
import ast
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
MODULE_LINES_MAX: Final = 500
FUNCTION_LINES_MAX: Final = 70
# Put together here, so that this file does not break its own rule.
REGISTRY_HOSTS: Final = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("deb", "debian", "org"),
        ("proxy", "golang", "org"),
    )
)
VAGUE_NAMES: Final = {"utils", "helpers", "manager", "common", "data", "info", "misc"}
ONLY_IN: Final = {
    "time.time": "polyc/clock.py",
    "time.time_ns": "polyc/clock.py",
    "time.monotonic": "polyc/clock.py",
    "datetime.now": "polyc/clock.py",
    "datetime.utcnow": "polyc/clock.py",
    "datetime.datetime.now": "polyc/clock.py",
    "os.fsync": "polyc/durable.py",
    "os.fdatasync": "polyc/durable.py",
    "os.replace": "polyc/durable.py",
    "os.rename": "polyc/durable.py",
    "os.urandom": "polyc/ids.py",
    "uuid.uuid4": "polyc/ids.py",
}
PLANES: Final = (
    "polyc",
    "journal",
    "facts",
    "artifacts",
    "projector",
    "query_plane",
    "control",
    "search",
    "language",
    "sources",
    "web",
)
TODO: Final = re.compile(r"\bTODO\b(?!\(#\d+\)| #\d+)")
LINK: Final = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")
SUPPRESSION: Final = re.compile(
    r"#\s*(?:noqa(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)?|type:\s*ignore(?:\[[^\]]*\])?)\s*(?P<reason>.*)$"
)


def main() -> int:
    """Check the whole tree."""
    breaches = sorted(breaches_of_tree(ROOT))
    for breach in breaches:
        print(breach)
    return 1 if breaches else 0


def breaches_of_tree(root: Path) -> Iterator[str]:
    """Every breach of every rule below the root."""
    texts = {path: text for path in tracked_files(root) if (text := _text_of(root / path)) is not None}
    for path, text in texts.items():
        yield from breaches_of_text(path, text)
        if path.endswith(".py") and not path.startswith("proto/"):
            yield from breaches_of_module(path, text)
    yield from breaches_of_folders(list(texts))
    documented = "\n".join(
        text for path, text in texts.items() if path.endswith(".md") and path.startswith(("docs/", "README"))
    )
    yield from breaches_of_docs(documented)
    yield from breaches_of_links(
        {path: text for path, text in texts.items() if path.endswith(".md")}, set(tracked_files(root))
    )


def tracked_files(root: Path) -> list[str]:
    """What git tracks or would track: ignored files are nobody's code."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout.decode()
    return [name for name in output.split("\0") if name]


def breaches_of_text(path: str, text: str) -> Iterator[str]:
    """Rules for a file of any kind."""
    for number, line in enumerate(text.split("\n"), 1):
        if any(host in line for host in REGISTRY_HOSTS):
            yield f"{path}:{number}: names a package registry's host"
        if path != "tools/tidy.py" and path.endswith((".py", "Makefile")) and TODO.search(line) and '"TODO' not in line:
            yield f"{path}:{number}: a TODO carries an issue's number: TODO(#12)"


def breaches_of_module(path: str, text: str) -> Iterator[str]:
    """Rules for a Python module."""
    lines = text.count("\n")
    if lines > MODULE_LINES_MAX:
        yield f"{path}: {lines} lines, at most {MODULE_LINES_MAX}"
    if Path(path).stem in VAGUE_NAMES:
        yield f"{path}: a module is a noun a user could say aloud"
    for number, line in enumerate(text.split("\n"), 1):
        found = SUPPRESSION.search(line)
        if found and not found["reason"] and path != "tools/tidy.py":
            yield f"{path}:{number}: a suppression has its reason beside it"
    try:
        tree = ast.parse(text, path)
    except SyntaxError as error:
        yield f"{path}:{error.lineno}: {error.msg}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES_MAX:
                yield f"{path}:{node.lineno}: {node.name} has {size} lines, at most {FUNCTION_LINES_MAX}"
        if path.split("/", maxsplit=1)[0] in PLANES:
            yield from _breaches_of_plane(path, node)


def _breaches_of_plane(path: str, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        home = ONLY_IN.get(name)
        if home is not None and path != home:
            yield f"{path}:{node.lineno}: only {home} calls {name}"
        if name == "print" and not path.startswith("polyc/cli/"):
            yield f"{path}:{node.lineno}: only the command line prints"
        if name in ("eval", "exec", "compile"):
            yield f"{path}:{node.lineno}: {name} is banned"
    if path.startswith("sources/") and isinstance(node, ast.Name | ast.alias):
        name = node.id if isinstance(node, ast.Name) else node.name
        if name in ("Author", "JournalPort", "sign_append", "SignedAppend"):
            yield f"{path}:{node.lineno}: an importer parses; it never appends ({name})"


def breaches_of_folders(paths: list[str]) -> Iterator[str]:
    """Every folder below tests/ that holds a module, and every folder above it, is a package."""
    folders: set[str] = set()
    for path in paths:
        if path.startswith("tests/") and path.endswith(".py"):
            parts = path.split("/")[:-1]
            folders.update("/".join(parts[: depth + 1]) for depth in range(len(parts)))
    for folder in sorted(folders):
        if f"{folder}/__init__.py" not in paths:
            yield f"{folder}: has no __init__.py and would shadow a package of ours"


def breaches_of_docs(documented: str) -> Iterator[str]:
    """The docs mention every command, and every option near no particular place."""
    from polyc.cli.parser import build_parser  # noqa: PLC0415 the other rules work without an installed package

    for words, options in commands_of(build_parser()):
        if words not in documented:
            yield f"docs: `{words}` is not mentioned"
        yield from (f"docs: `{words} {option}` is not mentioned" for option in options if option not in documented)


def breaches_of_links(pages: dict[str, str], files: set[str]) -> Iterator[str]:
    """Every relative link of a page leads to a file."""
    for page, text in pages.items():
        for target in LINK.findall(text):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            if path not in files and not any(name.startswith(f"{path}/") for name in files):
                yield f"{page}: links to {target}, which is not there"


def commands_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """Each command as typed, with its long options."""
    options = []
    for action in parser._actions:  # noqa: SLF001 argparse offers no other way to list what it was told
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 same
            for child in dict.fromkeys(action.choices.values()):
                yield from commands_of(child)
        options += [option for option in action.option_strings if option.startswith("--") and option != "--help"]
    yield parser.prog, options


def _text_of(path: Path) -> str | None:
    """A file's text, or None for what is not text (or was just deleted)."""
    try:
        return path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
        return None


if __name__ == "__main__":
    sys.exit(main())
