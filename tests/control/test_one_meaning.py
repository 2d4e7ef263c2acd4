"""Control's memory and the table `persona_participation` agree on who participates in what, whatever happened."""

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control.state import State
from facts import codec
from facts.catalog import TABLES
from facts.events import ConversationOpened, ParticipantJoined, ParticipantLeft
from facts.partition import open_fold
from facts.trust import Trust
from polyc.appending import Author
from polyc.keyring import KeyRing
from tests.support.control_journal import ControlJournal
from tests.support.deployment_keys import DeploymentKeys

PARTITIONS = ("conv-imp-a", "conv-imp-b")
PERSONAS = ("ada", "bob")
NAMES = TABLES["persona_participation"].column_names


@dataclass(frozen=True)
class Step:
    kind: str
    partition: str
    persona: str


STEPS = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(["join", "join", "leave", "anew"]),
        partition=st.sampled_from(PARTITIONS),
        persona=st.sampled_from(PERSONAS),
    ),
    max_size=14,
)


def journal_of(steps: list[Step]) -> ControlJournal:
    keys = DeploymentKeys()
    journal = ControlJournal(keys)
    authors = {
        role: Author(journal, keys.signers[role], clock=keys.clock, ids=keys.ids) for role in ("importer", "control")
    }

    def opened(partition: str, *, anew: bool) -> None:
        event = ConversationOpened(id="o", origin="codex", conversation_id=partition)
        authors["importer"].append(partition, [codec.encode(event)], new_incarnation=anew)

    for partition in PARTITIONS:
        opened(partition, anew=False)
    for step in steps:
        match step.kind:
            case "join":
                draft = codec.encode(ParticipantJoined(id="j", persona_id=step.persona))
                authors["control"].append(step.partition, [draft])
            case "leave":
                draft = codec.encode(ParticipantLeft(id="l", persona_id=step.persona))
                authors["control"].append(step.partition, [draft])
            case _:
                opened(step.partition, anew=True)
    return journal


def of_control(journal: ControlJournal) -> dict[str, list[str]]:
    keys, state = KeyRing(journal.keys.root.public_key), State()
    for record in journal.read_all(from_index=0):
        state.apply(record, keys)
    return {persona: state.personas.scope_of(persona) for persona in PERSONAS}


def of_facts(journal: ControlJournal) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {persona: [] for persona in PERSONAS}
    for partition in PARTITIONS:
        fold = open_fold(partition, Trust(keys=journal.keys))
        for record in journal.read(partition):
            fold.apply(record)
        for row in fold.rows().get("persona_participation", []):
            if row[NAMES.index("left_at")] is None:
                found[row[NAMES.index("persona_id")]].append(partition)
    return found


@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_control_and_the_fold_agree_on_participation(steps) -> None:
    journal = journal_of(steps)
    assert of_control(journal) == of_facts(journal)


def test_they_could_disagree() -> None:
    """The comparison sees a difference when there is one: a record that only one of them was told."""
    journal = journal_of([Step("join", "conv-imp-a", "ada")])
    before = of_facts(journal)
    keys = DeploymentKeys()
    keys.clock.advance(seconds=1)  # ids of its own
    author = Author(journal, keys.signers["control"], clock=keys.clock, ids=keys.ids)
    author.append("conv-imp-a", [codec.encode(ParticipantLeft(id="l", persona_id="ada"))])
    assert of_control(journal) != before
