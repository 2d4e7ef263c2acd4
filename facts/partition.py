"""Which fold a partition has: conversations have one, every deployment-wide partition its own."""

from typing import Final

from facts import eip712
from facts.conversation import ConversationFold
from facts.deployment import DeploymentFold
from facts.fold import Fold
from facts.trust import Trust

# Changes whenever the rows of any log could change: snapshots and artifacts of another version are rebuilt. Where the
# extra for EIP-712 receipts is installed, verdicts are others than where it is not.
FOLD_VERSION: Final = "6+eip712" if eip712.available() else "6"


def open_fold(partition: str, trust: Trust) -> Fold:
    """A fold at the start of the partition."""
    return ConversationFold(partition, trust) if is_conversation(partition) else DeploymentFold(partition, trust)


def resume_fold(partition: str, trust: Trust, snapshot: bytes) -> Fold:
    """The fold as it was when the snapshot was taken; CorruptError when the bytes are not a snapshot of it.

    A snapshot belongs to one `FOLD_VERSION` and one Trust: whoever keeps it, keeps those beside it.
    """
    if is_conversation(partition):
        return ConversationFold.resume(partition, trust, snapshot)
    return DeploymentFold.resume(partition, trust, snapshot)


def is_conversation(partition: str) -> bool:
    """Whether the partition holds one conversation."""
    return partition.startswith("conv-")
