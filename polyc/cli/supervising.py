"""`polyc up`: one machine's deployment in the foreground: journal, projector, Control on N, Query edge on N+1.

Each is a process of its own. The journal starts first and the others when it answers; a process that dies is started
again, and one that keeps dying ends the whole with its name on stderr and exit 1. SIGTERM and SIGINT stop everything,
the journal last.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from control.local import default_persona
from polyc.cli.console import note
from polyc.cli.deployment import Deployment, opened, root_of
from polyc.cli.serving import SUPERVISED_VARIABLE
from polyc.clock import Clock, SystemClock
from polyc.dataroot import DataRoot
from polyc.errors import RefusedError, UnavailableError
from polyc.limits import RESTART_WINDOW_S, RESTARTS_MAX, START_DEADLINE_S, STOP_DEADLINE_S

LOOPBACK: Final = "127.0.0.1"
POLL_S: Final = 0.05
SOCKETS: Final = ("journal", "audit", "line")  # of the journal's process; the last is the edge's
PYTHON: Final = (sys.executable, "-P")  # a module that lies in the working folder is nobody's to run


@dataclass(slots=True)
class Child:
    """A process of the deployment: how it is started, how one knows that it answers, and when it was started before."""

    name: str
    command: list[str]
    answers: Callable[[], bool]
    process: subprocess.Popen[bytes] | None = None
    starts_s: list[float] = field(default_factory=list)


def run(arguments: Namespace) -> int:
    """Serve until told to stop."""
    root, port = root_of(arguments), arguments.port
    for number in (port, port + 1):
        check_free(number)
    with opened(root, create=True):
        pass  # makes the deployment when there is none, and shows at once that no other writer holds it
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    children = children_of(root, port=port)
    if not arguments.no_watch:
        children.append(watcher_of(root))
    supervisor = Supervisor(children, clock=SystemClock(), stop=stop)
    try:
        supervisor.start()
        if not stop.is_set():
            with opened(root) as deployment:
                print(welcome(deployment, port=port), flush=True)
        return supervisor.watch()
    finally:
        supervisor.stop_all()


def children_of(root: DataRoot, *, port: int) -> list[Child]:
    """The four processes in the order of their start."""
    base = [*PYTHON, "-m", "polyc.cli.main", "--data-root", str(root.path), "serve"]
    return [
        Child("journal", [*base, "journal"], lambda: all(answers_unix(root, name) for name in SOCKETS)),
        Child("projector", [*base, "projector"], lambda: True),
        Child("control", [*base, "control", "--port", str(port)], lambda: answers_tcp(port)),
        Child("query", [*base, "query", "--port", str(port + 1)], lambda: answers_tcp(port + 1)),
    ]


def watcher_of(root: DataRoot) -> Child:
    """The fifth: what agents write is imported as they write it, also when the first history is yet to come."""
    command = [*PYTHON, "-m", "polyc.cli.main", "--data-root", str(root.path), "watch"]
    return Child("watch", command, lambda: True)


class Supervisor:
    """Keeps the children alive until told to stop."""

    def __init__(self, children: list[Child], *, clock: Clock, stop: threading.Event) -> None:
        self._children = children
        self._clock = clock
        self._stop = stop

    def start(self) -> None:
        """Start the journal, wait until it answers, then the others; UnavailableError names one that does not."""
        first, *others = self._children
        for group in ([first], others):
            for child in group:
                self._spawn(child)
            for child in group:
                self._await(child)

    def watch(self) -> int:
        """Restart what dies until stopped (0) or until one dies too often (1)."""
        while not self._stop.wait(POLL_S * 4):
            for child in self._children:
                if child.process is not None and child.process.poll() is not None and not self._restart(child):
                    return 1
        return 0

    def stop_all(self) -> None:
        """SIGTERM in reverse order of the start, each awaited; SIGKILL for one that does not end in time."""
        for child in reversed(self._children):
            if child.process is not None:
                if child.process.poll() is None:
                    _end(child.name, child.process)
                _release(child.process)

    def _spawn(self, child: Child) -> None:
        child.starts_s.append(self._clock.monotonic_s())
        environment = {**os.environ, SUPERVISED_VARIABLE: "1"}
        # A session of its own, so that Ctrl-C reaches us alone and the order of stopping is ours.
        child.process = subprocess.Popen(child.command, stdin=subprocess.PIPE, env=environment, start_new_session=True)

    def _await(self, child: Child) -> None:
        assert child.process is not None
        deadline_s = self._clock.monotonic_s() + START_DEADLINE_S
        while not child.answers():
            if child.process.poll() is not None:
                raise UnavailableError(f"{child.name} ended with code {child.process.returncode} before it answered")
            if self._clock.monotonic_s() > deadline_s:
                raise UnavailableError(f"{child.name} does not answer after {START_DEADLINE_S:.0f} s")
            if self._stop.wait(POLL_S):
                return

    def _restart(self, child: Child) -> bool:
        assert child.process is not None
        code, now_s = child.process.returncode, self._clock.monotonic_s()
        recent = [moment for moment in child.starts_s if moment > now_s - RESTART_WINDOW_S]
        if len(recent) > RESTARTS_MAX:
            often = f"{len(recent)} times in {RESTART_WINDOW_S:.0f} s"
            note(f"polyc: error: unavailable: {child.name} ended with code {code} {often}")
            return False
        note(f"polyc: warning: {child.name} ended with code {code} and is started again")
        child.starts_s = recent
        _release(child.process)
        self._spawn(child)
        return True


def _end(name: str, process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        note(f"polyc: warning: {name} did not stop in {STOP_DEADLINE_S:.0f} s and was killed")
        process.kill()
        process.wait()


def _release(process: subprocess.Popen[bytes]) -> None:
    """Close our end of an ended child's stdin."""
    if process.stdin is not None:
        process.stdin.close()


def welcome(deployment: Deployment, *, port: int) -> str:
    """What to open and what to paste; the session is printed once and kept as a hash only."""
    persona = default_persona()
    session = deployment.control().create_session(persona)
    control, edge = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{port + 1}"
    ask = f'curl -sS {edge}/polychrome.query.v1.QueryService/Execute -H "authorization: Bearer $TOKEN"'
    return f"""
Open {control}/ and log in with this session (polyc session create --admin makes an admin's); ask {edge}:
export POLYCHROME_SESSION={session.bearer}
GRANT=$(curl -sS -X POST {control}/api/query/grant -H "authorization: Bearer $POLYCHROME_SESSION"); echo "$GRANT"
TOKEN=$(sed 's/.*"token": *"\\([^"]*\\)".*/\\1/' <<< "$GRANT")
{ask} -d '{{"sql":"SELECT model, COUNT(*) AS turns FROM model_call GROUP BY model"}}'
Ctrl-C stops everything."""


def check_free(port: int) -> None:
    """RefusedError when the port is taken, before anything was started."""
    if not 0 < port < 65536:
        raise RefusedError(f"{port} is not a port", hint="1 to 65534")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            raise RefusedError(
                f"port {port} is taken", code="failed_precondition", hint="polyc up --port N uses N and N+1"
            ) from None


def answers_tcp(port: int) -> bool:
    """Whether something accepts connections on the loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def answers_unix(root: DataRoot, name: str) -> bool:
    """Whether something accepts connections on the deployment's socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(root.socket(name))) == 0
