"""The process that forks workers and admitters: it imports and opens an engine once, and knows no statement and no row.

A worker is a copy of it: its engine is opened, empty and warm. That is a fork of a few milliseconds instead of an
opening of sixty (docs/adr/0006). The engine has no thread until it is behind the worker's walls: a thread does not
survive a fork, and one that had started before them would stay outside.

One byte on its socket asks for a worker, another for an admitter (`query_plane.admitter`); the answer is the pid with
two descriptors, the new process's socket and its pidfd. It ends when the edge does (end of file), and the kernel kills
what it forked with it.

Started as `python -m query_plane.zygote FD SANDBOX` with an empty environment.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn, cast

import duckdb

from query_plane import seal, worker
from query_plane.seal import Sandbox
from query_plane.wire import FORK, FORK_ADMITTER, PID


def serve(control: socket.socket, prepared: duckdb.DuckDBPyConnection, *, sandbox: Sandbox) -> None:
    """Fork on request until the edge is gone."""
    while True:
        readable, _, _ = select.select([control], [], [], 1.0)
        _reap()
        if not readable:
            continue
        asked = control.recv(1)
        if asked not in {FORK, FORK_ADMITTER}:
            return
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            control.close()
            theirs.close()
            seal.die_with_parent()
            if asked == FORK_ADMITTER:
                _be_admitter(ours)
            worker.main(ours, prepared, sandbox=sandbox)
        ours.close()
        pidfd = os.pidfd_open(pid)
        socket.send_fds(control, [PID.pack(pid)], [theirs.fileno(), pidfd])
        theirs.close()
        os.close(pidfd)


def _be_admitter(connection: socket.socket) -> NoReturn:
    from query_plane import admitter  # noqa: PLC0415 workers never read artifacts, and must not wait for this import

    admitter.main(connection)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def main() -> None:
    """The process's entry."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's ^C is the edge's business
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    seal.die_with_parent()
    sandbox = cast("Sandbox", sys.argv[2])
    if sandbox != "off":
        seal.leave_network()
    threads = _threads()
    prepared = worker.prepare()
    assert _threads() == threads, "the engine has no thread before the fork"
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])), prepared, sandbox=sandbox)


if __name__ == "__main__":
    main()
