"""Large synthetic archives for the benches: `python -m bench.archive DATA_ROOT CONVERSATIONS` makes, or grows, one.

Conversations have two or three turns of 18 events each; many are appended in one commit, so that ten million events
take minutes. They go through the journal's door like any others: signed, chained, verified, sealed.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.deployment import embedded
from polyc.appending import Head, SignedAppend, sign_append
from polyc.cli.deployment import Deployment
from polyc.entry import genesis
from polyc.errors import RefusedError
from polyc.ids import uuid7_bytes
from polyc.signing import Signer, load_signer
from tests.support.conversations import conversation, partition_of

GROUP = 64  # conversations of one commit
PATIENCE = 100  # how often a group is offered again when the journal says that too many conversations are being opened
PAUSE_S = 0.1
WORDS = 60


def turns_of(number: int) -> int:
    """How many turns a conversation has at first."""
    return 2 + number % 2


def fill(deployment: Deployment, conversations: int, *, turns: int | None = None, calls: int = 3) -> int:
    """Append conversations until there are that many; returns how many events were added."""
    before = deployment.journal.size()
    first = sum(1 for head in deployment.journal.partitions() if head.partition.startswith("conv-"))
    signer = load_signer(deployment.root.keys / "importer.pem")
    group: list[SignedAppend] = []
    for signed in _signed(deployment, signer, range(first, conversations), turns=turns, calls=calls):
        group.append(signed)
        if len(group) == GROUP:
            _append(deployment, group)
            group = []
    if group:
        _append(deployment, group)
    return deployment.journal.size() - before


def _append(deployment: Deployment, group: list[SignedAppend]) -> None:
    """Append the group at the pace the journal allows: what of it was taken already is recognised, and taken once."""
    for _ in range(PATIENCE):
        try:
            deployment.journal.append_many(group)
        except RefusedError as error:
            if error.code != "resource_exhausted":
                raise
            time.sleep(PAUSE_S)
        else:
            return
    raise AssertionError("the journal opens no more conversations")


def _signed(
    deployment: Deployment, signer: Signer, numbers: range, *, turns: int | None, calls: int
) -> Iterator[SignedAppend]:
    clock, ids, origin = deployment.clock, deployment.ids, deployment.journal.origin
    for number in numbers:
        partition, incarnation = partition_of(number), uuid7_bytes(clock, ids)
        head = Head(partition, incarnation, 0, genesis(origin, partition, incarnation))
        drafts = list(conversation(number, turns=turns or turns_of(number), words=WORDS, calls=calls))
        yield sign_append(
            drafts,
            head=head,
            origin=origin,
            signer=signer,
            append_id=uuid7_bytes(clock, ids),
            recorded_at_us=clock.now_us(),
            ids=ids,
        )


def main() -> int:
    """Make an archive."""
    root, conversations = Path(sys.argv[1]), int(sys.argv[2])
    small = {"turns": 1, "calls": 1} if "--small" in sys.argv else {}
    with embedded(root) as deployment:
        print(f"{fill(deployment, conversations, **small):,} events")
    return 0


if __name__ == "__main__":
    sys.exit(main())
