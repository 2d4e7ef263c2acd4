"""The worker's half of the start-up self-test: sealed exactly as for a query, it tries to get out (B08).

Runs in a use-once worker, after the same `engine.lock` as a real job. Whatever
succeeds is named; the edge then refuses to serve.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import duckdb

from query_plane import engine, wire
from query_plane.seal import Sandbox

_UDP_TARGET: Final = ("127.0.0.1", 9)


def probe(
    database: duckdb.DuckDBPyConnection, message: wire.Probe, descriptors: Sequence[int], *, sandbox: Sandbox
) -> wire.Passed:
    """Seal, try everything, and tell what passed."""
    python_variable = [1]  # what a replacement scan would find
    engine.lock(database, message.run, descriptors, sandbox=sandbox)
    del python_variable[:]
    attacks = [f"statement: {sql}" for sql in message.statements if _statement_passes(database, sql)]
    if message.try_kernel:
        attacks += [f"file: {path}" for path in message.files if _passes(partial(os.open, path, os.O_RDONLY))]
        attacks += [f"kernel: {name}" for name, attempt in _KERNEL if _passes(attempt)]
    return wire.Passed(attacks=attacks)


def _statement_passes(database: duckdb.DuckDBPyConnection, sql: str) -> bool:
    try:
        database.execute(sql).fetchall()
    except Exception:
        return False  # any refusal will do: this asks whether it passes, not why it does not
    finally:
        # An error ends the transaction; the next attack meets the same one again.
        with suppress(Exception):
            database.execute("ROLLBACK")
        with suppress(Exception):
            database.execute("BEGIN TRANSACTION READ ONLY")
    return True


def _passes(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def _send_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
        datagram.sendto(b"x", _UDP_TARGET)


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


_KERNEL: Final[tuple[tuple[str, Callable[[], object]], ...]] = (
    ("sends a datagram", _send_udp),
    ("opens a TCP socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)),
    ("lists a folder", lambda: list(os.scandir("/"))),
    ("starts a process", _fork),
    ("signals its parent", lambda: os.kill(os.getppid(), 0)),
    ("makes a memory file", lambda: os.memfd_create("x")),
)
