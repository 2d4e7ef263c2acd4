"""A use-once process: it judges one text, is given the rows that text may read, answers, and is gone.

    1. Judge the text with the first parser (query_plane.gate) and say which relations it reads.
    2. Ask the engine's own parser (query_plane.tree), before anything is bound and while the edge admits rows.
    3. Lock this process: the kernel leaves it nothing but the named files, and every thread it starts from here on
       is born behind the same walls. Then fill the engine with the sources, and lock it, too.
    4. Bind, execute, send; interrupt at the deadline. The edge kills what is left a second later.

It holds no key, no environment and no socket but the one to the edge; whatever goes wrong in it ends it.
"""

import os
import socket
import threading
from dataclasses import dataclass
from typing import Final, NoReturn

import duckdb

from polyc.errors import PolycError, RefusedError, UnavailableError
from polyc.limits import ENGINE_MEMORY_BYTES_MAX, WORKER_MEMORY_BYTES_MAX
from query_plane import engine, faults, gate, seal, tree, wire
from query_plane.lexing import check_bounds
from query_plane.probing import probe
from query_plane.results import Answer, Limits
from query_plane.seal import Sandbox

_USUAL: Final = "SELECT a, count(*) AS n FROM t WHERE b = $x GROUP BY a ORDER BY n DESC LIMIT 5"
_INTERRUPT_LATER_MS: Final = 50  # max_execution_time first, interrupt() for what does not look at it


def prepare() -> duckdb.DuckDBPyConnection:
    """The engine and the parsers, warm: made once in the process that forks workers, each of which gets a copy."""
    database = engine.open_engine(memory_limit_bytes=ENGINE_MEMORY_BYTES_MAX)
    _warm_up(database)
    return database


def _warm_up(database: duckdb.DuckDBPyConnection) -> None:
    engine.warm_up(database)
    statement = gate.check(_USUAL, relations={"t": ["a", "b"]}, parameters=frozenset({"x"}))
    tree.check_tree(engine.serialize(database, _USUAL), relations=statement.relations)


def serve_one(connection: socket.socket, prepared: duckdb.DuckDBPyConnection, *, sandbox: Sandbox) -> None:
    """Answer the one question that comes over the socket."""
    database = prepared.cursor()  # a connection of its own: chance is seeded anew
    _warm_up(database)  # the pages a statement will write to become this process's own ahead of need
    seal.limit_resources(memory_size_bytes=WORKER_MEMORY_BYTES_MAX)
    received = wire.receive(connection)
    if received is not None and isinstance(received[0], wire.Probe):
        wire.send(connection, probe(database, received[0], received[1], sandbox=sandbox))
    if received is None or not isinstance(received[0], wire.Check):
        return
    check = received[0]
    try:
        # 1
        statement = gate.check(
            check.sql,
            relations=check.relations,
            parameters=frozenset(check.parameters),
            may_explain=check.may_explain,
        )
        wire.send(connection, wire.Checked(relations=statement.relations, explain=statement.explain))
        # 2
        refusal = _second_refusal(database, check.sql, statement)
        received = wire.receive(connection)
        if received is None or not isinstance(received[0], wire.Run):
            return
        if refusal is not None:
            raise refusal
        answer_job(connection, database, _Job(check=check, run=received[0], descriptors=received[1]), sandbox=sandbox)
    except PolycError as error:
        refused = isinstance(error, RefusedError)
        message = wire.Refused(code=error.code, message=error.message, hint=error.hint, refused=refused)
        wire.send(connection, message)
    except Exception as error:  # the process's one catch-all: the class goes to the edge, the text nowhere
        columns = sorted({column for names in check.relations.values() for column in names})
        wire.send(connection, faults.explain(error, sql=check.sql, columns=columns))


def _second_refusal(database: duckdb.DuckDBPyConnection, sql: str, statement: gate.Statement) -> Exception | None:
    """What the second parser has against the text; it is told when the edge has its rows and asks for the answer."""
    try:
        tree.check_tree(
            engine.serialize(database, _inner(sql) if statement.explain else sql), relations=statement.relations
        )
    except Exception as error:  # whatever it is: the edge hears of it in its turn
        return error
    return None


def answer_job(
    connection: socket.socket, database: duckdb.DuckDBPyConnection, job: "_Job", *, sandbox: Sandbox
) -> None:
    """Steps 3 and 4."""
    sql, run = job.check.sql, job.run
    # 3
    scanned = engine.lock(database, run, job.descriptors, sandbox=sandbox)
    # 4
    timer = threading.Timer((run.deadline_ms + _INTERRUPT_LATER_MS) / 1000, database.interrupt)
    timer.daemon = True
    timer.start()
    limits = Limits(row_limit=run.row_limit, byte_limit=run.byte_limit)
    try:
        answer = Answer(database.sql(sql, params=job.check.parameters or None), want=run.want)
        answer.send(limits, trailer=run.trailer, send=lambda message: wire.send(connection, message))
    except Exception:
        if any(source.is_broken for source in scanned):
            raise UnavailableError("the rows of the scope could not be read to their end", hint="try again") from None
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    check: wire.Check
    run: wire.Run
    descriptors: list[int]


def main(connection: socket.socket, prepared: duckdb.DuckDBPyConnection, *, sandbox: Sandbox) -> NoReturn:
    """Live and die: never returns."""
    status = 0
    try:
        serve_one(connection, prepared, sandbox=sandbox)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        status = 1  # the edge hung up; nobody is left to tell
    except BaseException:  # a worker has no parent frame to raise into
        status = 2
    finally:
        os._exit(status)


def _inner(sql: str) -> str:
    """The statement that EXPLAIN is asked about; places stay as they are."""
    end = check_bounds(sql).first_word_end
    return " " * end + sql[end:]
