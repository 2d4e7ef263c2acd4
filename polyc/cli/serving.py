"""`polyc serve …`: one process of a deployment, in the foreground, until SIGTERM or SIGINT.

A supervised process (`polyc up` sets POLYC_SUPERVISED) also stops when its stdin closes: it never outlives a
supervisor that was killed.
"""

import os
import signal
import threading
from argparse import Namespace
from typing import TYPE_CHECKING, Final

from polyc.cli.deployment import root_of
from polyc.clock import SystemClock
from polyc.ids import SystemIds

if TYPE_CHECKING:
    from uvicorn import Server

SUPERVISED_VARIABLE: Final = "POLYC_SUPERVISED"
STDIN: Final = 0


def stop_event() -> threading.Event:
    """Set by SIGTERM, by SIGINT, and by the supervisor's end."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    if os.environ.get(SUPERVISED_VARIABLE):
        threading.Thread(target=_stop_at_end_of_stdin, args=(stop,), daemon=True).start()
    return stop


def journal(arguments: Namespace) -> int:
    """The log, as its only writer; refused when a manifest has seen more than it holds."""
    from journal.backup import check_not_behind
    from journal.server import serve
    from polyc.cli.pins import pins_of, size_of

    root = root_of(arguments)
    check_not_behind(size_of(root), pins_of(root))
    serve(root, clock=SystemClock(), ids=SystemIds(), stop=stop_event())
    return 0


def projector(arguments: Namespace) -> int:
    """Follow the journal and publish."""
    from polyc.cli.deployment import opened
    from polyc.cli.embedding import embedding
    from polyc.cli.projecting import projector_of
    from projector.service import follow

    stop = stop_event()
    root = root_of(arguments)
    with opened(root) as deployment, embedding(root, clock=deployment.clock) as wake:
        follow(projector_of(deployment), stop=stop, on_published=lambda _: wake())
    return 0


def control(arguments: Namespace) -> int:
    """Sessions, personas, turns and grants over HTTP."""
    from control.ports import RedactionPolicy
    from control.serve import Listen, server_of
    from polyc.cli.deployment import opened
    from sources.redaction import REDACTION, Redactor

    # Control knows no source: the one policy by which secrets are struck is handed in here (ruling 18).
    redaction = RedactionPolicy(
        policy=REDACTION.policy, version=REDACTION.version, clean=lambda texts: Redactor().clean(texts)
    )
    stop = stop_event()
    with opened(root_of(arguments)) as deployment:
        server = server_of(
            deployment.journal,
            deployment.root,
            clock=deployment.clock,
            ids=deployment.ids,
            redaction=redaction,
            listen=Listen(port=arguments.port),
        )
        threading.Thread(target=lambda: _exit_when(stop, server), daemon=True).start()
        server.run()
    return 0


def query(arguments: Namespace) -> int:
    """The Query edge: it reaches the journal's append-only socket and nothing else of it."""
    from journal.line import LineClient
    from polyc.cli.edge import announced
    from query_plane.serve import serve

    root = root_of(arguments)
    audit = LineClient(root.socket("line"))
    control_port = arguments.port - 1  # ruling 31: Control on N, the edge on N + 1; its pages ask from there
    origins = (f"http://127.0.0.1:{control_port}", f"http://localhost:{control_port}")
    with announced(root) as ready:
        serve(
            root,
            port=arguments.port,
            journal=audit,
            clock=SystemClock(),
            ids=SystemIds(),
            stop=stop_event(),
            origins=origins,
            ready=ready,
        )
    return 0


def _exit_when(stop: threading.Event, server: "Server") -> None:
    stop.wait()
    server.should_exit = True


def _stop_at_end_of_stdin(stop: threading.Event) -> None:
    while os.read(STDIN, 4096):  # not sys.stdin: its lock would be held when the interpreter ends
        pass
    stop.set()
