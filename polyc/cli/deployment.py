"""An opened deployment: the data root a command works on, its journal, and the keys by purpose.

The journal is the running server's when one is up, else this process becomes the one writer for the command
(ruling 5). Clock and chance enter here, once.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from control.local import LocalControl
from journal import boot
from journal.notices import record_torn_tail
from journal.port import JournalReader, Opened, PartitionHead
from polyc.appending import Ack, Author, JournalPort, SignedAppend
from polyc.clock import Clock, SystemClock
from polyc.dataroot import DataRoot, default_data_root
from polyc.ids import IdSource, SystemIds
from polyc.payloads import PayloadKey
from polyc.signing import KeyFile
from polyc.vocabulary import Role


class Journal(JournalPort, JournalReader, Protocol):
    """What commands do with the journal: append, one or many at a time, and read."""

    def append_many(self, appends: Sequence[SignedAppend]) -> list[Ack]:
        """Make several appends durable in one go, in this order; raises the first error among them."""

    def payload_key(self, partition: str, incarnation: bytes) -> PayloadKey | None:
        """The key that the incarnation's payloads are encrypted with, if they are (ruling 9)."""

    def partition_head(self, partition: str, *, incarnation: bytes | None = None) -> PartitionHead | None:
        """Where an incarnation (the current one) stands."""

    def opened(self) -> Opened:
        """What the journal's opening cut, if anything."""

    def receipt(self, partition: str, position: int, *, incarnation: bytes | None = None) -> str:
        """The receipt of one entry."""

    def consistency_proof(self, old_size: int, new_size: int) -> list[bytes]:
        """The proof that the smaller log is a beginning of the larger."""

    def add_cosignatures(self, size: int, lines: Sequence[str]) -> None:
        """Keep what a witness signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a command needs of an opened deployment."""

    root: DataRoot
    journal: Journal
    clock: Clock
    ids: IdSource

    def author(self, role: Role) -> Author:
        """Who appends with the key of this role."""
        return Author(self.journal, KeyFile(self.root.keys / f"{role}.pem"), clock=self.clock, ids=self.ids)

    def control(self) -> LocalControl:
        """Control's own acts, in this process."""
        return LocalControl(self.journal, self.root, clock=self.clock, ids=self.ids)


@contextmanager
def opened(root: DataRoot, *, create: bool = False) -> Iterator[Deployment]:
    """The deployment of this data root, made first when `create` allows it; RefusedError when there is none."""
    clock, ids = SystemClock(), SystemIds()
    if create:
        boot.create_deployment(root, clock=clock, ids=ids)
    root.policy()
    with boot.connect(root, clock=clock, ids=ids) as journal:
        deployment = Deployment(root=root, journal=journal, clock=clock, ids=ids)
        tell_torn_tail(deployment)
        yield deployment


def tell_torn_tail(deployment: Deployment) -> None:
    """A torn tail that the journal's opening cut becomes an event of Control: the journal's process has no such key."""
    found = deployment.journal.opened()
    if found.torn_bytes and (deployment.root.keys / "control.pem").exists():
        record_torn_tail(deployment.author("control"), found)


def root_of(arguments: Namespace) -> DataRoot:
    """The data root that the arguments or the environment name."""
    return default_data_root(arguments.data_root)
