"""A use-once process: it judges one text, is given the rows that text may read, answers, and is gone.

    1. Judge the text with the first parser (query_plane.gate) and say which relations it reads.
    2. Take the sources and fill the engine; ask the engine's own parser (query_plane.tree), before anything is bound.
    3. Lock the engine, then this process: the kernel leaves it nothing but the named files.
    4. Bind, execute, send; interrupt at the deadline. The edge kills what is left a second later.

It holds no key, no environment and no socket but the one to the edge; whatever goes wrong in it ends it.
"""

import os
import socket
import threading
from dataclasses import dataclass
from typing import Final

import duckdb

from polyc.errors import PolycError, RefusedError
from polyc.limits import ENGINE_MEMORY_BYTES_MAX, WORKER_MEMORY_BYTES_MAX
from query_plane import engine, faults, gate, seal, tree, wire
from query_plane.lexing import check_bounds
from query_plane.probing import probe
from query_plane.results import Answer, Limits
from query_plane.seal import Sandbox

_INTERRUPT_LATER_MS: Final = 50  # max_execution_time first, interrupt() for what does not look at it


def serve_one(connection: socket.socket, *, sandbox: Sandbox) -> None:
    """Answer the one question that comes over the socket."""
    database = engine.open_engine(memory_limit_bytes=ENGINE_MEMORY_BYTES_MAX)
    engine.warm_up(database)
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
        received = wire.receive(connection)
        if received is None or not isinstance(received[0], wire.Run):
            return
        job = _Job(check=check, run=received[0], descriptors=received[1], explain=statement.explain)
        relations = frozenset(statement.relations)
        answer_job(connection, database, job, relations=relations, sandbox=sandbox)
    except PolycError as error:
        refused = isinstance(error, RefusedError)
        message = wire.Refused(code=error.code, message=error.message, hint=error.hint, refused=refused)
        wire.send(connection, message)
    except Exception as error:  # the process's one catch-all: the class goes to the edge, the text nowhere
        columns = sorted({column for names in check.relations.values() for column in names})
        wire.send(connection, faults.explain(error, sql=check.sql, columns=columns))


def answer_job(
    connection: socket.socket,
    database: duckdb.DuckDBPyConnection,
    job: "_Job",
    *,
    relations: frozenset[str],
    sandbox: Sandbox,
) -> None:
    """Steps 2 to 4."""
    # 2
    sql, run = job.check.sql, job.run
    tree.check_tree(engine.serialize(database, _inner(sql) if job.explain else sql), relations=relations)
    engine.fill(database, run.sources, job.descriptors)
    # 3
    engine.seal(database, paths=run.paths, deadline_ms=run.deadline_ms, threads=run.threads)
    seal.restrict(run.paths, sandbox=sandbox)
    # 4
    timer = threading.Timer((run.deadline_ms + _INTERRUPT_LATER_MS) / 1000, database.interrupt)
    timer.daemon = True
    timer.start()
    answer = Answer(database.sql(sql, params=job.check.parameters or None), want=run.want)
    limits = Limits(row_limit=run.row_limit, byte_limit=run.byte_limit)
    answer.send(limits, trailer=run.trailer, send=lambda message: wire.send(connection, message))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    check: wire.Check
    run: wire.Run
    descriptors: list[int]
    explain: bool


def main(connection: socket.socket, *, sandbox: Sandbox) -> None:
    """Live and die: never returns."""
    status = 0
    try:
        serve_one(connection, sandbox=sandbox)
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
