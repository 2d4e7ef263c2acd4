"""A real deployment for the Query plane's tests: real journal, folds, artifacts, grants; a system clock, seeded ids.

Two conversations of two people: `conv-a` is ada's, `conv-b` is bob's; each has one committed turn, and `conv-a` an
unfinished one, too. `SECRET` stands in bob's text: no answer to ada may ever hold it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from artifacts.store import DirectoryStore
from control.local import LocalControl
from facts import events as e
from facts.codec import encode
from journal.boot import create_deployment, open_embedded
from journal.store import SqliteJournal
from polyc.appending import Author
from polyc.clock import Clock, SystemClock
from polyc.dataroot import DataRoot
from polyc.ids import IdSource, SystemIds, uuid7
from polyc.signing import load_signer
from projector.publish import Projector

SECRET = "bob's marked text zvxq"
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@dataclass(kw_only=True)
class Deployment:
    """What a test needs of it."""

    root: DataRoot
    journal: SqliteJournal
    control: LocalControl
    clock: Clock
    ids: IdSource

    def author(self, role: str) -> Author:
        return Author(self.journal, load_signer(self.root.keys / f"{role}.pem"), clock=self.clock, ids=self.ids)

    def id(self) -> str:
        return uuid7(self.clock, self.ids)

    def project(self):
        signer = load_signer(self.root.keys / "projector.pem")
        projector = Projector(
            self.journal, DirectoryStore(self.root.artifacts), signer=signer, clock=self.clock, ids=self.ids
        )
        return projector.run_once()

    def grant(self, persona: str | None = None, *, admin: bool = False) -> str:
        if persona is not None and not admin:
            self.control.ensure_persona(persona)
        return self.control.mint_grant(persona=persona, admin=admin)[0]

    def turn(self, partition: str, turn_id: str, texts: list[str], *, end: bool = True) -> None:
        """One turn of a person's and the assistant's messages, with usage and a tool call."""
        control, harness = self.author("control"), self.author("harness")
        ref = e.TurnRef(conversation_id=partition, turn_id=turn_id)
        control.append(partition, [encode(e.TurnStart(id=self.id(), occurred_at=NOON, turn=ref))])
        drafts = []
        for i, text in enumerate(texts):
            role = "user" if i % 2 == 0 else "assistant"
            origin = "human_authored" if role == "user" else "assistant_authored"
            drafts.append(
                encode(
                    e.Message(
                        id=self.id(),
                        occurred_at=NOON,
                        turn_id=turn_id,
                        message_id=f"m-{turn_id}-{i}",
                        role=role,
                        material_origin=origin,
                        blocks=(e.Block(type="text", text=text),),
                        model=None if role == "user" else "model-x",
                    )
                )
            )
        drafts.append(
            encode(
                e.ModelCall(id=self.id(), occurred_at=NOON, turn_id=turn_id, call_id=f"c-{turn_id}", model="model-x")
            )
        )
        drafts.append(
            encode(e.Usage(id=self.id(), turn_id=turn_id, call_id=f"c-{turn_id}", input_tokens=700, output_tokens=14))
        )
        drafts.append(
            encode(
                e.ToolCall(
                    id=self.id(),
                    occurred_at=NOON,
                    turn_id=turn_id,
                    tool_call_id=f"t-{turn_id}",
                    name="shell",
                    action="shell",
                    arguments='{"cmd":"ls"}',
                )
            )
        )
        harness.append(partition, drafts)
        if end:
            control.append(
                partition, [encode(e.TurnComplete(id=self.id(), occurred_at=NOON, turn=ref, status="completed"))]
            )


def open_deployment(path: Path) -> Deployment:
    """The deployment that is there, or an empty one."""
    clock, ids = SystemClock(), SystemIds()
    root = DataRoot(path)
    create_deployment(root, clock=clock, ids=ids)
    journal = open_embedded(root, clock=clock, ids=ids)
    control = LocalControl(journal, root, clock=clock, ids=ids)
    return Deployment(root=root, journal=journal, control=control, clock=clock, ids=ids)


def make_deployment(path: Path) -> Deployment:
    """The deployment of the module's docstring, projected."""
    made = open_deployment(path)
    control = made.control
    for partition, persona, text in (("conv-a", "ada", "hello from ada"), ("conv-b", "bob", SECRET)):
        opened = e.ConversationOpened(id=made.id(), occurred_at=NOON, origin="live", conversation_id=partition)
        made.author("control").append(partition, [encode(opened)])
        control.ensure_persona(persona)
        control.join(partition, persona)
        made.turn(partition, f"turn-{persona}", [text, f"answer to {persona}"])
    made.turn("conv-a", "turn-open", ["never finished"], end=False)
    control.ensure_persona("root-admin", admin=True)
    made.project()
    return made
