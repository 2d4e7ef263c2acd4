"""`polyc sql`: a conversation with the Query plane, one statement after the other, each under a fresh grant.

A statement ends with `;`; a line that begins with a dot is a word to the shell itself (`.help` lists them). Tab
completes tables, columns and functions that the realm may name; Ctrl-C stops a statement that runs. The history of what
was typed lies in the data root (0600), for it may quote what nobody else should read.
"""

import readline
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from polyc.cli.console import note, tell_error
from polyc.cli.deployment import Deployment, opened, root_of
from polyc.cli.granting import mint
from polyc.cli.output import FORMATS, Format, chosen_format, write_rows
from polyc.cli.querying import write_answer
from polyc.errors import CorruptError, PolycError, RefusedError
from query_plane.answer import Catalog
from query_plane.completion import completions
from query_plane.local import LocalSession, plan_text

PROMPT: Final = "polyc> "
CONTINUED: Final = "  ...> "
WELCOME: Final = "end statements with ;   .help lists the shell's own words   Ctrl-D ends"
HISTORY_LINES_MAX: Final = 2_000  # what a person scrolls back through
HELP: Final = (
    (".help", "this list"),
    (".tables", "the tables and views that you may name"),
    (".schema TABLE", "the columns of one of them"),
    (".explain SELECT …", "the engine's plan of a statement, for admins"),
    (".format table|json|csv", "how answers are written"),
    (".quit", "end, as Ctrl-D does"),
)


def run(arguments: Namespace) -> int:
    """Read statements until the end of input."""
    with opened(root_of(arguments)) as deployment:
        history = deployment.root.path / "cache" / "sql.history"
        root, journal, clock, ids = deployment.root, deployment.journal, deployment.clock, deployment.ids
        with LocalSession(root, port=journal, clock=clock, ids=ids) as session:
            shell = Shell(deployment, session, arguments)
            if sys.stdin.isatty():
                note(WELCOME)
                _complete_from(shell.catalog())
                if history.exists():
                    readline.read_history_file(history)
            shell.converse()
        if sys.stdin.isatty():
            history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            history.touch(mode=0o600)
            readline.set_history_length(HISTORY_LINES_MAX)
            readline.write_history_file(history)
    return 0


class Shell:
    """One conversation."""

    def __init__(self, deployment: Deployment, session: LocalSession, arguments: Namespace) -> None:
        self._deployment = deployment
        self._session = session
        self._arguments = arguments
        self._form: Format = chosen_format(arguments.format)
        self._words: dict[str, Callable[[str], None]] = {
            "help": lambda _rest: self._tell(("word", "what it does"), HELP),
            "tables": lambda _rest: self._tables(),
            "schema": self._schema,
            "explain": self._explain,
            "format": self._format,
        }

    def converse(self) -> None:
        """Answer until the end of input; what is refused ends itself, not the conversation."""
        for statement in statements():
            if statement.strip() in {".quit", ".exit"}:
                return
            try:
                self._answer(statement)
            except CorruptError:
                raise
            except PolycError as error:
                tell_error(error)
            except KeyboardInterrupt:
                note("polyc: note: stopped")

    def catalog(self) -> Catalog:
        """What the grant may name."""
        return self._session.catalog(self._token())

    def _answer(self, statement: str) -> None:
        if statement.lstrip().startswith("."):
            word, _, rest = statement.strip().rstrip(";").lstrip(".").partition(" ")
            if word not in self._words:
                raise RefusedError(f"the shell has no .{word}", code="not_found", hint=".help lists its words")
            self._words[word](rest.strip())
            return
        answer = self._session.run(self._token(), statement)
        write_answer(answer, form=self._form)
        count = answer.trailer.row_count
        note(f"{count} {'row' if count == 1 else 'rows'}, {answer.trailer.elapsed_ms} ms")

    def _token(self) -> str:
        return mint(self._deployment, admin=self._arguments.admin, persona=self._arguments.persona)[0]

    def _tell(self, columns: tuple[str, ...], rows: Iterable[Sequence[Any]]) -> None:
        form: Format = "table" if self._form == "arrow" else self._form
        write_rows(columns, rows, form=form)

    def _tables(self) -> None:
        self._tell(("table", "kind", "description"), [(t.name, t.kind, t.description) for t in self.catalog().tables])

    def _schema(self, name: str) -> None:
        found = [table for table in self.catalog().tables if table.name == name.lower()]
        if not found:
            raise RefusedError(f"no table {name}", code="not_found", hint=".tables lists them")
        columns = ("column", "type", "unit", "description")
        self._tell(columns, [(c.name, c.type, c.unit or None, c.description) for c in found[0].columns])

    def _explain(self, statement: str) -> None:
        print(plan_text(self._session.run(self._token(), f"EXPLAIN {statement}")))

    def _format(self, name: str) -> None:
        if name not in FORMATS or name == "arrow":
            raise RefusedError(f"no format {name}", hint="table, json and csv are written here")
        self._form = name


def statements() -> Iterator[str]:
    """What is typed, cut at each line that ends with a semicolon; a line with a dot stands alone.

    Ctrl-C forgets the statement, Ctrl-D ends.
    """
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
        if not lines and not line.strip():
            continue
        lines.append(line)
        if line.rstrip().endswith(";") or (len(lines) == 1 and line.lstrip().startswith(".")):
            yield "\n".join(lines)
            lines.clear()


def _complete_from(catalog: Catalog) -> None:
    def complete(_text: str, state: int) -> str | None:
        found = completions(catalog, readline.get_line_buffer(), readline.get_endidx())
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n(),;=<>+-*/")
    readline.parse_and_bind("tab: complete")
