"""Puts a journal in memory into a deployment's real one, each event signed with the key of its role."""

from pathlib import Path

from journal import boot
from polyc.appending import Author, Draft
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.ids import SystemIds
from polyc.signing import load_signer
from polyc.vocabulary import may_author
from tests.facts.journal import SIGNERS, Journal
from tests.facts.payment import listed, signer

ROLES = {signer.key_id: role for role, signer in SIGNERS.items()}


def issued_now() -> int:
    """The second in which a receipt is issued that is recorded now."""
    return SystemClock().now_us() // 1_000_000


def append(root: Path, *journals: Journal) -> None:
    """Append the events of the journals, one by one; those that the door would refuse of their role are left out."""
    clock, ids = SystemClock(), SystemIds()
    with boot.open_embedded(DataRoot(root), clock=clock, ids=ids) as port:
        for journal in journals:
            for record in journal.records:
                role = ROLES[record.key_id]
                if not may_author(role, code=record.event_type, partition=journal.partition):
                    continue
                signer = load_signer(root / "keys" / f"{role}.pem")
                assert record.payload is not None
                author = Author(port, signer, clock=clock, ids=ids)
                author.append(journal.partition, [Draft(record.event_type, record.payload)])


def trust_receipts(root: Path) -> None:
    """Name the tests' shop as one that may sign receipts."""
    signers = root / "receipt-signers.json"
    signers.write_bytes(listed(signer()))
    signers.chmod(0o600)
