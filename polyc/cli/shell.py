"""`polyc sql`: a conversation with the Query plane, one statement after the other, each under a fresh grant.

A statement ends with `;`. Tab completes tables, columns and functions that the realm may name. The history of what was
typed lies in the data root (0600), for it may quote what nobody else should read.
"""

import readline
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Final

from polyc.cli.console import note, tell_error
from polyc.cli.deployment import Deployment, opened, root_of
from polyc.cli.granting import mint
from polyc.cli.output import chosen_format
from polyc.cli.querying import write_answer
from polyc.errors import CorruptError, PolycError
from query_plane.completion import completions
from query_plane.local import catalog_local, run_local

PROMPT: Final = "polyc> "
CONTINUED: Final = "  ...> "
HISTORY_LINES_MAX: Final = 2_000  # what a person scrolls back through


def run(arguments: Namespace) -> int:
    """Read statements until the end of input."""
    with opened(root_of(arguments)) as deployment:
        history = deployment.root.path / "cache" / "sql.history"
        if sys.stdin.isatty():
            _prepare(deployment, arguments)
            if history.exists():
                readline.read_history_file(history)
        for statement in statements():
            try:
                _ask(deployment, arguments, statement)
            except CorruptError:
                raise
            except PolycError as error:  # a refused statement ends itself, not the conversation
                tell_error(error)
        if sys.stdin.isatty():
            history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            history.touch(mode=0o600)
            readline.set_history_length(HISTORY_LINES_MAX)
            readline.write_history_file(history)
    return 0


def statements() -> Iterator[str]:
    """What is typed, cut at each line that ends with a semicolon; Ctrl-C forgets the statement, Ctrl-D ends."""
    lines: list[str] = []
    while True:
        try:
            line = input((CONTINUED if lines else PROMPT) if sys.stdin.isatty() else "")
        except EOFError:
            if "".join(lines).strip():
                yield "\n".join(lines)
            return
        except KeyboardInterrupt:
            lines.clear()
            note("")
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(lines)
            lines.clear()


def _ask(deployment: Deployment, arguments: Namespace, statement: str) -> None:
    token, _ = mint(deployment, admin=arguments.admin, persona=arguments.persona)
    answer = run_local(
        deployment.root, token, statement, port=deployment.journal, clock=deployment.clock, ids=deployment.ids
    )
    write_answer(answer, form=chosen_format(arguments.format))
    note(f"{answer.trailer.row_count} rows, {answer.trailer.elapsed_ms} ms")


def _prepare(deployment: Deployment, arguments: Namespace) -> None:
    token, _ = mint(deployment, admin=arguments.admin, persona=arguments.persona)
    catalog = catalog_local(deployment.root, token, port=deployment.journal, clock=deployment.clock, ids=deployment.ids)

    def complete(_text: str, state: int) -> str | None:
        found = completions(catalog, readline.get_line_buffer(), readline.get_endidx())
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n(),;=<>+-*/")
    readline.parse_and_bind("tab: complete")
