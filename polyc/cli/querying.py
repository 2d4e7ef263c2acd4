"""`polyc query`: one statement, under a grant of its own, through the same code as the Query edge.

Rows go to stdout; that an answer was truncated goes to stderr, because a truncated answer is no total.
"""

import sys
from argparse import Namespace
from typing import Literal

from polyc.cli.console import note
from polyc.cli.deployment import opened, root_of
from polyc.cli.granting import mint
from polyc.cli.output import Format, chosen_format, write_rows
from polyc.errors import RefusedError
from polyc.limits import STATEMENT_SIZE_BYTES_MAX
from query_plane.answer import Answer
from query_plane.local import explain_local, run_local


def run(arguments: Namespace) -> int:
    """Ask and write the answer."""
    statement = statement_of(arguments.sql)
    form = chosen_format(arguments.format)
    with opened(root_of(arguments)) as deployment:
        token, _ = mint(deployment, admin=arguments.admin, persona=arguments.persona)
        root, journal, clock, ids = deployment.root, deployment.journal, deployment.clock, deployment.ids
        if arguments.explain:
            print(explain_local(root, token, statement, port=journal, clock=clock, ids=ids))
            return 0
        want: Literal["json", "arrow"] = "arrow" if form == "arrow" else "json"
        answer = run_local(
            root, token, statement, port=journal, clock=clock, ids=ids, row_limit=arguments.limit, want=want
        )
    write_answer(answer, form=form)
    return 0


def statement_of(argument: str) -> str:
    """The statement itself, or stdin's when it is `-`."""
    if argument != "-":
        return argument
    data = sys.stdin.buffer.read(STATEMENT_SIZE_BYTES_MAX + 1)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RefusedError("the statement is not UTF-8") from None


def write_answer(answer: Answer, *, form: Format) -> None:
    """Rows to stdout in this format, and on stderr when there would have been more."""
    if form == "arrow":
        _write_arrow(answer)
    else:
        write_rows([column.name for column in answer.columns], answer.rows, form=form)
    if answer.trailer.truncated:
        note(f"polyc: note: truncated after {answer.trailer.row_count} rows ({answer.trailer.reason})")
        note("polyc: hint: narrow the query, or use COUNT(*) for a total")


def _write_arrow(answer: Answer) -> None:
    """An Arrow IPC stream, as other programs read it from a pipe."""
    import pyarrow as pa

    if sys.stdout.isatty():
        raise RefusedError(
            "an Arrow stream is not for a terminal", hint="redirect it: polyc query --format arrow … > rows.arrows"
        )
    table = answer.arrow()
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as writer:
        writer.write_table(table)
