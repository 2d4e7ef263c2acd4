"""Exactness: what is admitted is exactly the scope's live rows — over appends, replaces, compactions and joins.

The oracle is the journal folded by hand in this file. `SELF_JOIN` runs on the admitted rows in an engine without any
file, so a row too many or too few shows twice.
"""

import random
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from artifacts.layers import Layers
from artifacts.layout import LayoutParameters
from artifacts.reader import Generation
from artifacts.schema import arrow_schema
from polyc.errors import CorruptError, RefusedError
from polyc.limits import SCOPE_LITERALS_MAX
from tests.support import counting_meaning as cm
from tests.support.archive import Archive, fleet, in_order, texts

SELF_JOIN = (
    "SELECT count(*), count(DISTINCT a.partition) FROM t a JOIN t b ON a.partition = b.partition AND a.size = b.size"
)
LAYOUT = LayoutParameters(
    row_group_rows=16, row_group_text_bytes=400, pack_events=40, delta_events=10**9, delta_fan_in=3
)


class Story:
    """A growing archive and what its rows must be, kept by hand."""

    def __init__(self, archive: Archive, rng: random.Random, *, conversations: int) -> None:
        self.archive = archive
        self.rng = rng
        self.names = [f"conv-{number:03d}" for number in range(conversations)]
        self.notes: dict[str, list[str]] = {}

    def step(self) -> None:
        name = self.rng.choice(self.names)
        known = self.notes.get(name, [])
        kind = self.rng.random()
        if known and kind < 0.15:
            place = self.rng.randrange(len(known))
            self.notes[name] = [*known[:place], f"edited {place}", *known[place + 1 :]]
            self.archive.journal.say(name, cm.edit(place, f"edited {place}"))
        elif known and kind < 0.22:
            self.notes[name] = ["anew"]
            self.archive.journal.say(name, cm.say("anew"), cm.COMMIT, new_incarnation=True)
        elif kind < 0.3:
            self.archive.converse(name, "never committed", commit=False)
            self.archive.journal.say(name, cm.COMMIT)
            self.notes[name] = [*known, "never committed"]
        else:
            said = [
                f"{name} says {self.rng.random():.3f}" * self.rng.randrange(1, 4)
                for _ in range(self.rng.randrange(1, 4))
            ]
            self.notes[name] = [*known, *said]
            self.archive.converse(name, *said)

    def settle(self) -> None:
        self.archive.projector.run_once()
        kind = self.rng.random()
        if kind < 0.1:
            self.archive.projector.compact()
        elif kind < 0.4:
            self.archive.projector.maintain()

    def expected(self, scope: list[str]) -> list[str]:
        return [text for name in sorted(set(scope)) for text in self.notes.get(name, [])]


@pytest.fixture(scope="module")
def sealed() -> Iterator[duckdb.DuckDBPyConnection]:
    """An engine without any file access."""
    with duckdb.connect(config={"enable_external_access": False, "threads": 1}) as engine:
        yield engine


def joined(engine: duckdb.DuckDBPyConnection, table: pa.Table) -> tuple[object, ...]:
    engine.register("t", table)
    (answer,) = engine.execute(SELF_JOIN).fetchall()
    return answer


def self_joined(notes: dict[str, list[str]], scope: list[str]) -> tuple[int, int]:
    counts = [[len(text) for text in notes.get(name, [])] for name in set(scope)]
    return sum(sizes.count(size) for sizes in counts for size in sizes), sum(1 for sizes in counts if sizes)


@pytest.mark.parametrize("seed", range(14))
def test_every_scope_admits_exactly_its_rows(seed: int, tmp_path, sealed) -> None:
    rng = random.Random(seed)
    story = Story(Archive(tmp_path, layout=LAYOUT), rng, conversations=320 if seed % 6 == 0 else 40)
    for name in story.names if seed % 6 == 0 else ():
        story.notes[name] = [f"first of {name}"]
        story.archive.converse(name, f"first of {name}")
    checks, reader = 0, story.archive.new_reader()
    for _ in range(9):
        for _ in range(rng.randrange(1, 12)):
            story.step()
        story.settle()
        generation = reader.latest()
        for size in (1, 3, 40, 300):
            scope = [rng.choice([*story.names, "conv-absent"]) for _ in range(size)]
            table = generation.admit(cm.NOTES, partitions=scope)
            assert [row["text"] for row in in_order(table)] == story.expected(scope)
            assert joined(sealed, table) == self_joined(story.notes, scope)
            checks += 2
        assert [row["text"] for row in fleet(generation, cm.NOTES)] == story.expected(story.names)
        totals = {row["partition"]: row["notes"] for row in fleet(generation, cm.TOTALS)}
        assert totals == {name: len(notes) for name, notes in story.notes.items() if notes}
        checks += 2
    assert checks == 90  # times 14 seeds: 1 260


@pytest.fixture
def archive(tmp_path) -> Archive:
    archive = Archive(tmp_path)
    archive.converse("conv-a", "alpha", "beta")
    archive.converse("conv-b", "gamma")
    archive.publish()
    return archive


def test_an_empty_scope_admits_nothing_with_the_schema(archive: Archive) -> None:
    table = archive.latest().admit(cm.NOTES, partitions=[])
    assert (table.num_rows, table.schema) == (0, arrow_schema(cm.NOTES))


def test_a_partition_named_twice_is_admitted_once(archive: Archive) -> None:
    assert texts(archive.latest(), "conv-b", "conv-b") == ["gamma"]


def test_a_hostile_partition_name_is_only_a_name(archive: Archive) -> None:
    for name in ("conv-a' OR '1'='1", "conv-a%", "conv-../conv-a", "CONV-A", "conv-a\x00"):
        assert archive.latest().admit(cm.NOTES, partitions=[name]).num_rows == 0


def test_columns_come_in_the_order_asked_for_and_none_means_the_partition(archive: Archive) -> None:
    generation = archive.latest()
    assert generation.admit(cm.NOTES, partitions=["conv-a"], columns=["size", "text"]).column_names == ["size", "text"]
    table = generation.admit(cm.NOTES, partitions=["conv-a"], columns=[])
    assert (table.column_names, table.num_rows) == (["partition"], 2)


def test_types_survive(archive: Archive) -> None:
    table = archive.latest().admit(cm.TOTALS, partitions=["conv-a"])
    assert table.schema == arrow_schema(cm.TOTALS)
    assert int(table.column("amount")[0].as_py()) == 10**30 + 2


def test_more_partitions_than_literals_go_by_a_scope_table(archive: Archive) -> None:
    scope = ["conv-a", "conv-b", *(f"conv-{n}" for n in range(SCOPE_LITERALS_MAX + 10))]
    for number in range(SCOPE_LITERALS_MAX + 5):
        archive.converse(f"conv-{number}", f"text {number}")
    generation = archive.publish()
    assert generation.admit(cm.NOTES, partitions=scope).num_rows == 3 + SCOPE_LITERALS_MAX + 5


def test_a_stream_can_be_scanned_again_and_again(archive: Archive) -> None:
    stream = archive.latest().admission(cm.NOTES, partitions=["conv-a"]).stream()
    first, second = pa.table(stream), pa.table(stream)
    assert first.equals(second)
    assert first.num_rows == 2
    with duckdb.connect(config={"enable_external_access": True}) as engine:
        engine.register("t", stream)
        assert engine.execute(SELF_JOIN).fetchall() == [(2, 1)]


def test_more_than_the_budget_is_refused_before_it_is_read(archive: Archive) -> None:
    generation = archive.latest()
    assert generation.admission(cm.NOTES, partitions=["conv-a"]).size_bytes > 0
    with pytest.raises(RefusedError) as caught:
        generation.admit(cm.NOTES, partitions=["conv-a"], budget_bytes=10)
    assert caught.value.code == "resource_exhausted"


class Lying(Layers):
    """Layers that count other rows than the files hold."""

    def __init__(self, layers: Layers, *, more: int) -> None:
        super().__init__(layers.base, layers.deltas)
        self._more = more

    def pieces(self, table, family, partitions):
        return [piece._replace(rows=piece.rows + self._more) for piece in super().pieces(table, family, partitions)]


@pytest.mark.parametrize("more", [1, -1])
def test_rows_other_than_the_index_counts_fail_closed(archive: Archive, more: int) -> None:
    honest = archive.latest()
    lying = Generation(honest.manifest, Lying(honest.layers, more=more), honest.files, honest._engine)
    with pytest.raises(CorruptError) as caught:
        lying.admit(cm.NOTES, partitions=["conv-a"])
    assert caught.value.kind == "admission"
    with pytest.raises(pa.ArrowInvalid, match="not the ones the index counts"):
        pa.table(lying.admission(cm.NOTES, partitions=["conv-a"]).stream())


def test_a_missing_and_a_foreign_partition_are_not_exchanged_unseen(archive: Archive) -> None:
    honest = archive.latest()

    class Swapped(Layers):
        def pieces(self, table, family, partitions):
            return [piece._replace(partition="conv-b") for piece in super().pieces(table, family, ["conv-a"])]

    lying = Generation(honest.manifest, Swapped(honest.layers.base, honest.layers.deltas), honest.files, honest._engine)
    with pytest.raises(CorruptError):
        lying.admit(cm.NOTES, partitions=["conv-a"])


def test_a_statement_that_lets_other_rows_through_fails_closed(archive: Archive, monkeypatch) -> None:
    admission = archive.latest().admission(cm.NOTES, partitions=["conv-a"])
    honest, registered = admission._statement()
    assert "WHERE" in honest
    monkeypatch.setattr(admission, "_statement", lambda: (honest.split(" WHERE ")[0], registered))
    with pytest.raises(CorruptError) as caught:
        admission.table()
    assert caught.value.kind == "admission"
    assert "gamma" not in caught.value.message


def test_a_scope_that_holds_the_longest_texts_is_refused_while_it_is_read(archive: Archive) -> None:
    for number in range(50):
        archive.converse(f"conv-{number}", "short")
    rng = random.Random(1)
    archive.converse("conv-long", "".join(chr(rng.randrange(32, 1000)) for _ in range(60_000)))
    generation = archive.publish()
    admission = generation.admission(cm.NOTES, partitions=["conv-long"])
    assert admission.paths
    assert admission.size_bytes < 20_000  # an average: the file's columns by the share of its rows
    with pytest.raises(RefusedError):
        admission.table(budget_bytes=20_000)
    assert admission.table().num_rows == 1


def test_a_lookup_finds_the_fleets_rows_by_a_value(archive: Archive) -> None:
    archive.journal.say("conv-a", cm.edit(0, "delta"))
    generation = archive.publish()
    found = generation.lookup(cm.NOTES, column="text", value="delta", columns=["partition", "text"])
    assert found.to_pylist() == [{"partition": "conv-a", "text": "delta"}]
    assert generation.lookup(cm.NOTES, column="text", value="alpha").num_rows == 0
    assert generation.lookup(cm.NOTES, column="text", value="x' OR true --").num_rows == 0


def test_many_superseded_pairs_go_by_a_registered_table(archive: Archive, monkeypatch) -> None:
    monkeypatch.setattr("artifacts.fleet.DEAD_LITERALS_MAX", 0)
    archive.journal.say("conv-a", cm.edit(0, "delta"))
    generation = archive.publish()
    assert generation.fleet_sources(cm.NOTES).dead_name == "superseded_notes"
    assert [row["text"] for row in fleet(generation, cm.NOTES)] == ["delta", "beta", "gamma"]
    assert generation.lookup(cm.NOTES, column="text", value="delta").num_rows == 1


def test_a_table_without_any_row_is_an_empty_typed_view(tmp_path) -> None:
    archive = Archive(tmp_path)
    archive.converse("conv-a", "waiting", commit=False)
    generation = archive.publish()
    assert generation.fleet_sources(cm.TOTALS).paths == ()
    assert fleet(generation, cm.TOTALS) == []
    assert generation.row_count(cm.TOTALS) == 0


def test_row_counts_come_from_the_index(archive: Archive) -> None:
    generation = archive.latest()
    assert generation.row_count(cm.NOTES) == 3
    assert generation.row_count(cm.NOTES, ["conv-a"]) == 2
    assert generation.has("conv-a")
    assert not generation.has("conv-z")
