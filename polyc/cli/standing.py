"""`polyc status`: where the journal and the tables stand, and how far apart they are."""

from argparse import Namespace

from artifacts.store import DirectoryStore
from polyc.cli.deployment import opened, root_of
from polyc.cli.output import write_object
from projector.status import status


def run(arguments: Namespace) -> int:
    """Print the state."""
    with opened(root_of(arguments)) as deployment:
        store = DirectoryStore(deployment.root.artifacts)
        state = status(deployment.journal, store, clock=deployment.clock)
    if arguments.json:
        write_object(state.to_json())
        return 0
    lag = "" if state.lag_s is None else f", {state.lag_s:.1f} s"
    generation = (
        "none yet" if state.generation is None else f"{state.generation} (through event {state.frontier_size:,})"
    )
    print(f"journal     {state.head:,} events sealed")
    print(f"generation  {generation}")
    print(f"lag         {state.lag_events:,} events{lag}")
    for fault in state.faults:
        print(f"fault       {fault.partition}: {fault.kind} at {fault.place}")
    return 0
