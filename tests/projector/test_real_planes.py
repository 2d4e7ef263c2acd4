"""The projector between the real journal and the real folds: what it publishes is what a fold says."""

import functools
import multiprocessing
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artifacts.layout import LayoutParameters, spec_of
from artifacts.reader import Reader
from artifacts.store import DirectoryStore
from facts.catalog import TABLES
from facts.partition import open_fold
from facts.trust import Trust
from journal.boot import create_deployment, open_embedded
from journal.store import SqliteJournal
from polyc.appending import Author
from polyc.clock import ManualClock
from polyc.dataroot import DataRoot
from polyc.errors import CorruptError, UnavailableError
from polyc.ids import SeededIds
from polyc.signing import load_signer
from projector.meaning import meaning_of_facts
from projector.publish import Projector
from projector.replay import StoppedError
from projector.status import status
from projector.verify import verify_artifacts
from projector.workers import Workers
from search import pack
from search.build import kept
from search.opened import OpenPack
from tests.support.archive import contents, fleet
from tests.support.conversations import conversation, partition_of, turn

SPECS = {name: spec_of(table) for name, table in TABLES.items()}


class Deployment:
    def __init__(self, path: Path) -> None:
        self.root = DataRoot(path)
        self.clock, self.ids = ManualClock(), SeededIds("deployment")
        create_deployment(self.root, clock=self.clock, ids=self.ids)
        self.journal = open_embedded(self.root, clock=self.clock, ids=self.ids)
        self.store = DirectoryStore(self.root.artifacts)
        importer = load_signer(self.root.keys / "importer.pem")
        self.importer = Author(self.journal, importer, clock=self.clock, ids=self.ids)
        self.projector = self.projector_into(self.store)

    def projector_into(self, store: DirectoryStore, **options: Any) -> Projector:
        signer = load_signer(self.root.keys / "projector.pem")
        return Projector(self.journal, store, signer=signer, clock=self.clock, ids=self.ids, **options)

    def reader(self, store: DirectoryStore | None = None) -> Reader:
        return Reader(store or self.store, keys=self.journal.keyring, clock=self.clock, ids=self.ids)

    def converse(self, number: int, *, turns: int = 2) -> None:
        self.importer.append(partition_of(number), list(conversation(number, turns=turns, words=12)))


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path / "root")
    with made.journal:
        for number in range(6):
            made.converse(number)
        yield made


def test_the_published_rows_are_the_folds(deployment: Deployment) -> None:
    deployment.projector.run_once()
    deployment.importer.append(partition_of(1), turn(1, 2, words=12))
    deployment.projector.run_once()
    trust = Trust(keys=deployment.journal.keyring())
    folded: dict[str, list[tuple[object, ...]]] = {name: [] for name in SPECS}
    for head in deployment.journal.partitions():
        fold = open_fold(head.partition, trust)
        for record in deployment.journal.read(head.partition):
            fold.apply(record)
        for name, rows in fold.rows().items():
            folded[name] += rows
    generation = deployment.reader().latest()
    assert generation.row_count(SPECS["messages"]) == (6 * 2 + 1) * 4
    for name, spec in SPECS.items():
        published = [tuple(row.values()) for row in fleet(generation, spec)]
        assert sorted(published, key=str) == sorted(folded[name], key=str), name


def test_honest_artifacts_verify_and_status_tells_the_lag(deployment: Deployment) -> None:
    before = status(deployment.journal, deployment.store, clock=deployment.clock)
    assert (before.generation, before.lag_events) == (None, deployment.journal.size())
    deployment.projector.run_once()
    deployment.clock.advance(seconds=3)
    deployment.converse(9)
    deployment.clock.advance(seconds=2)
    told = status(deployment.journal, deployment.store, clock=deployment.clock)
    assert (told.lag_events, told.lag_s) == (deployment.journal.size() - told.frontier_size, 2.0)
    assert told.to_json()["lag"] == {"events": told.lag_events, "seconds": 2.0}
    result = verify_artifacts(deployment.journal, deployment.store, clock=deployment.clock, ids=deployment.ids)
    assert result.difference is None
    deployment.projector.run_once()
    assert status(deployment.journal, deployment.store, clock=deployment.clock).lag_s == 0.0


def test_search_packs_of_another_version_are_made_anew_by_whoever_projects(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment.projector.run_once()
    now = deployment.reader().latest()
    with monkeypatch.context() as earlier:
        earlier.setattr(pack, "ANALYZER", "agent-text/0")
        older = DirectoryStore(deployment.root.path / "older")
        deployment.projector_into(older).run_once()
    before = deployment.reader(older).latest()
    assert before.search_packs != now.search_packs
    with pytest.raises(pack.OtherVersionError):
        OpenPack(older, before.search_packs[0])
    texts = [text for _, _, text in kept(older, before.search_packs[0])]
    assert texts == [text for _, _, text in kept(deployment.store, now.search_packs[0])], (
        "they can be read all the same"
    )

    deployment.projector_into(older).run_once()

    after = deployment.reader(older).latest()
    assert after.number > before.number
    assert after.search_packs == now.search_packs
    assert deployment.projector_into(older).run_once() is None, "once"


def processes(deployment: Deployment, store: Path) -> Workers:
    policy = deployment.root.policy()
    return Workers(
        count=2,
        open_journal=functools.partial(
            SqliteJournal.open_read_only,
            deployment.root.journal_file,
            origin=policy.origin,
            root_public_key=bytes.fromhex(policy.root_key),
            log_public_key=bytes.fromhex(policy.log_key),
        ),
        open_store=functools.partial(DirectoryStore, store),
        open_meaning=meaning_of_facts,
        events_min=0,
    )


def in_packs_of_one_week(deployment: Deployment, store: DirectoryStore, *, workers: Workers | None) -> Projector:
    """A projector with something for several processes to do."""
    return deployment.projector_into(store, workers=workers, layout=LayoutParameters(span_events=1))


def test_processes_write_the_packs_that_one_process_writes(deployment: Deployment, tmp_path: Path) -> None:
    in_packs_of_one_week(deployment, deployment.store, workers=None).rebuild()
    other = DirectoryStore(tmp_path / "other")
    in_packs_of_one_week(deployment, other, workers=processes(deployment, tmp_path / "other")).rebuild()
    ours, theirs = deployment.reader().latest(), deployment.reader(other).latest()
    assert len(ours.layers.base.packs) > 1
    assert ours.manifest.body.base == theirs.manifest.body.base
    assert contents(ours) == contents(theirs)
    assert ours.search_packs == theirs.search_packs


def test_a_rebuild_by_processes_stops_when_asked_and_leaves_no_process(deployment: Deployment, tmp_path: Path) -> None:
    other = DirectoryStore(tmp_path / "other")
    projector = in_packs_of_one_week(deployment, other, workers=processes(deployment, tmp_path / "other"))
    asked = iter([False])  # then there are processes
    projector.stop_when(lambda: next(asked, True))
    with pytest.raises(StoppedError):
        projector.rebuild()
    assert other.list("gen/") == []
    assert multiprocessing.active_children() == []
    projector.stop_when(lambda: False)
    assert projector.rebuild() is not None


def test_a_fault_of_a_process_reaches_its_parent_as_it_is(deployment: Deployment, tmp_path: Path) -> None:
    lying = functools.partial(
        SqliteJournal.open_read_only,
        deployment.root.journal_file,
        origin="another/log",
        root_public_key=bytes(32),
        log_public_key=bytes(32),
    )
    workers = msgspec.structs.replace(processes(deployment, tmp_path / "other"), open_journal=lying)
    with pytest.raises(CorruptError) as caught:
        in_packs_of_one_week(deployment, DirectoryStore(tmp_path / "other"), workers=workers).rebuild()
    assert caught.value.kind == "origin"


def test_the_search_packs_of_a_rebuild_are_given_up_when_asked_to_stop(deployment: Deployment) -> None:
    deployment.projector.run_once()
    asked = 0

    def stopping() -> bool:
        nonlocal asked
        asked += 1
        return asked > bound

    bound = 10**6
    tables = deployment.projector_into(deployment.store, search=False)
    tables.stop_when(stopping)
    tables.rebuild()
    newest = deployment.reader().latest().number
    bound, asked = asked, 0
    deployment.projector.stop_when(stopping)
    with pytest.raises(StoppedError):
        deployment.projector.rebuild()
    assert asked == bound + 1, "the tables were written, and the first partition of search was not"
    assert deployment.reader().latest().number == newest


def test_what_is_published_while_search_packs_are_made_is_in_them_too(deployment: Deployment) -> None:
    deployment.projector.run_once(make_searchable=False)
    rival = deployment.projector_into(deployment.store)
    compactor = deployment.projector.compactor(deployment.projector.new_reader())
    make = compactor._searchable.make

    def overtaken(current):
        deployment.importer.append(partition_of(1), turn(1, 2, words=12))
        rival.run_once(make_searchable=False)
        return make(current)

    compactor._searchable.make = overtaken
    assert compactor.make_searchable()
    generation = deployment.reader().latest()
    assert (generation.number, len(generation.layers.deltas), len(generation.search_packs)) == (3, 1, 2)
    assert not compactor.make_searchable()


def test_search_packs_are_bound_in_the_generation_and_a_crash_between_is_healed(deployment: Deployment) -> None:
    deployment.projector.run_once()
    generation = deployment.reader().latest()
    assert generation.search_packs
    assert generation.number == 2
    without = deployment.reader().at(1)
    assert without.search_packs == ()
    assert without.manifest.body.base == generation.manifest.body.base
    deployment.store.delete("gen/000000000002.json")
    again = deployment.projector_into(deployment.store)
    again.run_once()
    assert deployment.reader().latest().search_packs == generation.search_packs
    assert again.run_once() is None


def test_an_erasure_under_a_rebuild_makes_it_look_again(deployment: Deployment) -> None:
    peek = deployment.journal.opening
    earlier = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1e6)
    deployment.journal.opening = lambda head: (earlier, None) if head.partition == partition_of(1) else peek(head)
    with pytest.raises(UnavailableError):
        deployment.projector.rebuild()
    del deployment.journal.opening
    deployment.projector.rebuild()
    assert deployment.reader().latest().row_count(SPECS["messages"]) == 6 * 2 * 4
