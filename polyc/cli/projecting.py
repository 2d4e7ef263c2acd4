"""`polyc project`: make the tables of what the journal holds, and publish them as one signed generation."""

import functools
import os
from argparse import Namespace
from pathlib import Path

from artifacts.store import DirectoryStore
from control.receipt_trust import load_receipt_signers
from facts.trust import Trust
from journal.reading import SqliteReader
from journal.store import SqliteJournal
from polyc.cli.console import note, progress
from polyc.cli.deployment import Deployment, opened, root_of
from polyc.dataroot import DataRoot
from polyc.signing import KeyFile
from projector.meaning import Meaning, meaning_of_facts
from projector.publish import Projector, Published
from projector.workers import Workers


def run(arguments: Namespace) -> int:
    """Project once."""
    with opened(root_of(arguments)) as deployment:
        published = project(deployment, rebuild=arguments.rebuild, compact=arguments.compact)
    tell(published)
    return 0


def projector_of(deployment: Deployment) -> Projector:
    """The projector over this deployment's journal and store."""
    return Projector(
        deployment.journal,
        DirectoryStore(deployment.root.artifacts),
        signer=KeyFile(deployment.root.keys / "projector.pem"),
        clock=deployment.clock,
        ids=deployment.ids,
        meaning=meaning_in(deployment.root.path),
        workers=workers_of(deployment.root),
    )


def workers_of(root: DataRoot) -> Workers | None:
    """One process a core for rebuilds; none on a single core."""
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        return None
    return Workers(
        count=cores,
        open_journal=functools.partial(journal_in, root.path),
        open_store=functools.partial(DirectoryStore, root.artifacts),
        open_meaning=functools.partial(meaning_in, root.path),
    )


def journal_in(path: Path) -> SqliteReader:
    """A reader of the journal's file in this data root, beside whoever writes it."""
    root = DataRoot(path)
    policy = root.policy()
    return SqliteJournal.open_read_only(
        root.journal_file,
        origin=policy.origin,
        root_public_key=bytes.fromhex(policy.root_key),
        log_public_key=bytes.fromhex(policy.log_key),
    )


def meaning_in(path: Path) -> Meaning:
    """The folds with what this data root says of receipt signers."""
    signers = load_receipt_signers(DataRoot(path))
    return meaning_of_facts(trust_of=lambda keys: Trust(keys=keys, receipt_signers=signers))


def project(deployment: Deployment, *, rebuild: bool = False, compact: bool = False) -> Published | None:
    """Bring the tables up to the journal's head; None when they were."""
    projector = projector_of(deployment)
    with progress("projecting") as bar:

        def moved(done: int, total: int) -> None:
            bar.expect(total)
            bar.reach(done)

        published = projector.rebuild(progress=moved) if rebuild else projector.run_once(progress=moved)
    if compact and projector.compact():
        note("all packs are merged")
    return published


def tell(published: Published | None) -> None:
    """One line of what was published."""
    if published is None:
        note("tables are up to date")
        return
    note(
        f"generation {published.generation}: {published.rows:,} rows of {published.partitions:,} partitions, "
        f"through event {published.frontier_size:,}"
    )
    if published.faults:
        note(f"polyc: warning: {published.faults} partitions could not be folded and keep their last good rows")
        note("polyc: hint: polyc status names them")
