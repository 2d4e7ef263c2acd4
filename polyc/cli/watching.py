"""`polyc watch`: follow the agents' files and import what they write, as they write it.

A round reads the files that changed; at a pause, now and then, all of them are looked at, for those that have become
still. With a projector running (`polyc up`) a turn is queryable a moment after its end was written.
"""

import os
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from control.local import default_persona
from polyc.cli.console import note
from polyc.cli.deployment import Deployment, opened, root_of
from polyc.cli.import_loop import import_round
from polyc.cli.serving import stop_event
from polyc.errors import RefusedError
from polyc.ids import PersonaId, check_persona
from sources import Cursors, default_paths
from sources.watching import changes

STILL_LOOKED_FOR_S: Final = 60.0  # a file counts as still after five minutes; looking once a minute is soon enough


def run(arguments: Namespace) -> int:
    """Watch until SIGTERM or SIGINT."""
    persona = check_persona(arguments.persona) if arguments.persona else PersonaId(default_persona())
    paths = [Path(name) for name in arguments.paths] or list(default_paths(Path.home(), os.environ))
    if not paths:
        raise RefusedError("no agent histories on this machine", code="not_found", hint="name the folders to watch")
    with opened(root_of(arguments), create=True) as deployment:
        watch(deployment, paths, persona=persona, stop=stop_event())
    return 0


def watch(deployment: Deployment, paths: list[Path], *, persona: PersonaId, stop: threading.Event) -> None:
    """Import round after round; a round without news says nothing."""
    deployment.control().ensure_persona(persona)
    with closing(Cursors.open(deployment.root.sources / "cursors.sqlite")) as cursors:
        for files in rounds(deployment, paths, stop=stop):
            report = import_round(deployment, cursors, files, final=False, persona=persona)
            if report.events:
                note(f"{report.events:,} events, {report.turns:,} turns ended, {report.unfinished:,} unfinished")


def rounds(deployment: Deployment, paths: list[Path], *, stop: threading.Event) -> Iterator[list[Path]]:
    """What each round must look at: everything first, then what changes, and everything again once a minute."""
    yield paths
    looked_at_s = deployment.clock.monotonic_s()
    for changed in changes(paths, stop=stop):
        if changed:
            yield sorted(changed)
        elif deployment.clock.monotonic_s() - looked_at_s >= STILL_LOOKED_FOR_S:
            looked_at_s = deployment.clock.monotonic_s()
            yield paths
