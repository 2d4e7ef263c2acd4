"""The process that forks workers: it imports once, holds no engine and no thread, and knows no statement.

One byte on its socket asks for a worker; the answer is the worker's pid with two descriptors, the worker's socket and
its pidfd. It ends when the edge does (end of file), and the kernel kills the workers with it.

Started as `python -m query_plane.zygote FD SANDBOX` with an empty environment.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from typing import cast

import sqlglot

from query_plane import seal, worker
from query_plane.seal import Sandbox
from query_plane.wire import FORK, PID


def serve(control: socket.socket, *, sandbox: Sandbox) -> None:
    """Fork on request until the edge is gone."""
    while True:
        readable, _, _ = select.select([control], [], [], 1.0)
        _reap()
        if not readable:
            continue
        asked = control.recv(1)
        if asked != FORK:
            return
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            control.close()
            theirs.close()
            seal.die_with_parent()
            worker.main(ours, sandbox=sandbox)
        ours.close()
        pidfd = os.pidfd_open(pid)
        socket.send_fds(control, [PID.pack(pid)], [theirs.fileno(), pidfd])
        theirs.close()
        os.close(pidfd)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def main() -> None:
    """The process's entry."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's ^C is the edge's business
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    seal.die_with_parent()
    sandbox = cast("Sandbox", sys.argv[2])
    if sandbox != "off":
        seal.leave_network()
    sqlglot.parse_one("SELECT 1", dialect="duckdb")  # builds its tables once, before the first fork
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])), sandbox=sandbox)


if __name__ == "__main__":
    main()
