"""`polyc watch`: follow the agents' files and import what they write, as they write it.

A round reads the files that changed; once a minute all of them are looked at, for those that have become still. Places
that do not exist yet are waited for. With a projector running (`polyc up`) a turn is queryable a moment after its end
was written.
"""

import os
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from control.local import default_persona
from polyc.cli.console import note
from polyc.cli.deployment import Deployment, opened, root_of
from polyc.cli.import_loop import ImportLoop
from polyc.cli.serving import stop_event
from polyc.clock import Clock
from polyc.errors import UnavailableError
from polyc.ids import PersonaId, check_persona
from sources import Cursors, Following, standard_places
from sources.watching import changes

STILL_LOOKED_FOR_S: Final = 60.0  # a file counts as still after five minutes; looking once a minute is soon enough


def run(arguments: Namespace) -> int:
    """Watch until SIGTERM or SIGINT."""
    persona = check_persona(arguments.persona) if arguments.persona else PersonaId(default_persona())
    places = [Path(name).absolute() for name in arguments.paths] or [*standard_places(Path.home(), os.environ)]
    with opened(root_of(arguments), create=True) as deployment:
        watch(deployment, places, persona=persona, stop=stop_event())
    return 0


def watch(deployment: Deployment, places: Sequence[Path], *, persona: PersonaId, stop: threading.Event) -> None:
    """Import round after round; a round without news says nothing."""
    if not any(place.exists() for place in places):
        note("no agent histories yet: they are imported when they appear")
    waiting: set[Path] = set()
    with closing(Cursors.open(deployment.root.sources / "cursors.sqlite")) as cursors:
        loop = ImportLoop(deployment, cursors, persona=persona, following=Following())
        for changed in rounds(places, clock=deployment.clock, stop=stop):
            waiting.update(changed)
            if not waiting:
                continue
            try:
                report = loop.look(sorted(waiting), final=False)
            except UnavailableError as error:  # another import, or the journal is away: the next round tries again
                note(f"polyc: warning: {error.message}; trying again")
                continue
            waiting.clear()
            if report.events:
                note(f"{report.events:,} events, {report.turns:,} turns ended, {report.unfinished:,} unfinished")


def rounds(places: Sequence[Path], *, clock: Clock, stop: threading.Event) -> Iterator[frozenset[Path]]:
    """What each round must look at: what changed, nothing at a pause, and once a minute everything that exists."""
    looked_at_s = clock.monotonic_s()
    for changed in changes(places, stop=stop):
        if clock.monotonic_s() - looked_at_s >= STILL_LOOKED_FOR_S:
            looked_at_s = clock.monotonic_s()
            yield changed.union(place for place in places if place.exists())
        else:
            yield changed
