"""`polyc project`: make the tables of what the journal holds, and publish them as one signed generation."""

from argparse import Namespace

from artifacts.store import DirectoryStore
from control.receipt_trust import load_receipt_signers
from facts.trust import Trust
from polyc.cli.console import note, progress
from polyc.cli.deployment import Deployment, opened, root_of
from polyc.signing import load_signer
from projector.meaning import meaning_of_facts
from projector.publish import Projector, Published


def run(arguments: Namespace) -> int:
    """Project once."""
    with opened(root_of(arguments)) as deployment:
        published = project(deployment, rebuild=arguments.rebuild, compact=arguments.compact)
    tell(published)
    return 0


def projector_of(deployment: Deployment) -> Projector:
    """The projector over this deployment's journal and store."""
    signers = load_receipt_signers(deployment.root)
    return Projector(
        deployment.journal,
        DirectoryStore(deployment.root.artifacts),
        signer=load_signer(deployment.root.keys / "projector.pem"),
        clock=deployment.clock,
        ids=deployment.ids,
        meaning=meaning_of_facts(trust_of=lambda keys: Trust(keys=keys, receipt_signers=signers)),
    )


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
