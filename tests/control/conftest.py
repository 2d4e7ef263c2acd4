"""A Control over a journal in memory, with real keys in a real data root."""

from dataclasses import dataclass

import msgspec
import pytest

from control.context import ControlContext
from control.local import LocalControl
from facts import codec
from facts.events import ConversationOpened
from polyc.appending import Author, Expected
from polyc.dataroot import DataRoot
from polyc.durable import create_file
from polyc.ids import uuid7
from tests.control.deployment_processes import running
from tests.control.harness_programs import DEPLOYED, harnesses
from tests.control.serving import close_clients
from tests.facts.payment import listed, signer
from tests.support.control_journal import ControlJournal
from tests.support.deployment_keys import DeploymentKeys


@dataclass
class Deployment:
    keys: DeploymentKeys
    journal: ControlJournal
    root: DataRoot

    @property
    def clock(self):
        return self.keys.clock

    def local(self) -> LocalControl:
        """A Control process as it starts."""
        return LocalControl(self.journal, self.root, clock=self.keys.clock, ids=self.keys.ids)

    def author(self, role: str) -> Author:
        return Author(self.journal, self.keys.signers[role], clock=self.keys.clock, ids=self.keys.ids)

    def open_conversation(self, partition: str, *, role: str = "control", origin: str = "live") -> None:
        event = ConversationOpened(id=uuid7(self.keys.clock, self.keys.ids), origin=origin, conversation_id=partition)
        self.author(role).append(partition, [codec.encode(event)], expected=Expected.NEW)


@pytest.fixture
def deployment(tmp_path) -> Deployment:
    keys = DeploymentKeys()
    root = DataRoot(tmp_path / "root")
    root.make()
    create_file(root.policy_file, msgspec.json.encode(keys.policy))
    for role in ("control", "grant", "harness", "edge"):
        create_file(root.keys / f"{role}.pem", keys.signers[role].private_pem(), mode=0o600)
    keys.publish(root.published)
    return Deployment(keys, ControlJournal(keys), root)


@pytest.fixture
def local(deployment) -> LocalControl:
    return deployment.local()


@pytest.fixture
def context(local) -> ControlContext:
    return local.context


@pytest.fixture(scope="session")
def processes(tmp_path_factory):
    """A whole deployment in processes of its own, shared by the scenarios."""
    folder = tmp_path_factory.mktemp("deployment")
    (folder / "root").mkdir()
    create_file(folder / "root" / "receipt-signers.json", listed(signer()), mode=0o600)
    with running(folder / "root", harnesses=harnesses(folder, programs=DEPLOYED)) as deployment:
        yield deployment
        close_clients()
