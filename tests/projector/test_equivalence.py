"""Any interleaving of appends, publications, merges, compactions and crashes says what one rebuild says.

Contents are compared by digest and by value; after full compaction the stores are compared byte by byte.
"""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from artifacts.layout import LayoutParameters
from artifacts.store import DirectoryStore
from polyc.errors import UnavailableError
from tests.support import counting_meaning as cm
from tests.support.archive import Archive, contents, fleet
from tests.support.faulty_store import FaultyStore

LAYOUT = LayoutParameters(row_group_rows=4, row_group_text_bytes=60, pack_events=12, delta_events=30, delta_fan_in=3)
NAMES = st.sampled_from([f"conv-{letter}" for letter in "abcdef"])
WORDS = st.text("abc é→😀 ", min_size=0, max_size=30)


def stored(archive: Archive) -> dict[str, bytes]:
    """Every pack and base list the newest generation names."""
    generation = archive.latest()
    packs = {pack_id for pack_id, _ in generation.layers.packs()}
    base = f"base/{generation.manifest.body.base}.json"
    names = [entry.name for entry in archive.store.list("packs/") if entry.name.split("/")[1] in packs]
    return {name: archive.store.read(name) for name in [*names, base]}


class Equivalence(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="polyc-equivalence-"))
        self.archive = Archive(self.folder / "one", layout=LAYOUT)
        self.reader = self.archive.new_reader()
        self.other = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def published(self) -> bool:
        return any(self.archive.store.list("gen/"))

    @rule(name=NAMES, texts=st.lists(WORDS, min_size=1, max_size=4), commit=st.booleans())
    def converse(self, name: str, texts: list[str], commit: bool) -> None:
        self.archive.converse(name, *texts, commit=commit)

    @rule(name=NAMES, note=st.integers(0, 3), text=WORDS)
    def change(self, name: str, note: int, text: str) -> None:
        self.archive.journal.say(name, cm.edit(note, text))

    @rule(name=NAMES, text=WORDS)
    def begin_anew(self, name: str, text: str) -> None:
        self.archive.journal.say(name, cm.say(text), cm.COMMIT, new_incarnation=True)

    @rule(budget=st.sampled_from([None, 1, 5]))
    def publish(self, budget: int | None) -> None:
        self.archive.projector.run_once(budget_events=budget)

    @rule()
    def restart(self) -> None:
        self.archive.projector = self.archive.new_projector("restarted")

    @rule(kept=st.booleans(), fail_at=st.integers(1, 4))
    def publish_and_crash(self, kept: bool, fail_at: int) -> None:
        store = FaultyStore(self.archive.store, fail_at=fail_at, kept=kept)
        try:
            self.archive.new_projector("crashing", store=store).run_once()
        except UnavailableError:
            self.restart()

    @precondition(published)
    @rule()
    def merge(self) -> None:
        self.archive.projector.maintain()

    @precondition(published)
    @rule()
    def compact(self) -> None:
        self.archive.projector.compact()

    @precondition(published)
    @rule()
    def collect(self) -> None:
        from artifacts.gc import collect

        collect(self.archive.store, keys=self.archive.journal.keyring, clock=self.archive.journal.clock)

    @precondition(published)
    @rule()
    def equals_one_rebuild(self) -> None:
        self.archive.projector.run_once()
        self.other += 1
        rebuilt = Archive(self.folder / f"other-{self.other}", journal=self.archive.journal, layout=LAYOUT)
        rebuilt.projector.run_once()
        ours, theirs = self.archive.latest(), rebuilt.latest()
        assert contents(ours) == contents(theirs)
        for spec in cm.TABLES:
            assert fleet(ours, spec) == fleet(theirs, spec)
        self.archive.projector.compact()
        assert stored(self.archive) == stored(rebuilt)

    @invariant()
    def the_newest_generation_reads(self) -> None:
        if self.published():
            generation = self.reader.latest()
            for spec in cm.TABLES:
                assert generation.admit(spec, partitions=generation.partitions()).num_rows == generation.row_count(spec)


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def test_any_interleaving_equals_one_rebuild() -> None:
    run_state_machine_as_test(
        Equivalence, settings=settings(max_examples=12, stateful_step_count=20, derandomize=True, **QUIET)
    )


@pytest.mark.soak
def test_many_interleavings_equal_one_rebuild() -> None:
    run_state_machine_as_test(Equivalence, settings=settings(max_examples=300, stateful_step_count=50, **QUIET))


def test_the_comparison_can_fail(tmp_path) -> None:
    archive = Archive(tmp_path / "a", layout=LAYOUT)
    archive.converse("conv-a", "one")
    archive.publish()
    other = Archive(tmp_path / "b", layout=LAYOUT)
    other.converse("conv-a", "two")
    other.publish()
    assert contents(archive.latest()) != contents(other.latest())
    assert stored(archive) != stored(other)


def test_equal_inputs_give_equal_bytes_in_any_store(tmp_path) -> None:
    archive = Archive(tmp_path / "a", layout=LAYOUT)
    for number in range(12):
        archive.converse(f"conv-{number}", *(f"words {n}" for n in range(number)))
    archive.publish()
    copy = Archive(journal=archive.journal, layout=LAYOUT)
    copy.publish()
    assert stored(archive) == stored(copy)
    assert isinstance(archive.store, DirectoryStore)
