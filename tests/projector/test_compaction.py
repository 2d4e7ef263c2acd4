"""Compaction changes files and never rows; cohorts that did not move keep their packs."""

import pytest

from artifacts.layout import LayoutParameters
from projector.compaction import due_run
from projector.packing import base_groups
from tests.support import counting_meaning as cm
from tests.support.archive import Archive, contents, fleet, texts

LAYOUT = LayoutParameters(delta_fan_in=4, delta_events=10**9)


@pytest.fixture
def archive(tmp_path) -> Archive:
    return Archive(tmp_path, layout=LAYOUT)


def test_eight_deltas_of_a_class_become_one_and_say_the_same(archive: Archive) -> None:
    for number in range(3):
        archive.converse(f"conv-{number}", "first")
    archive.publish()
    for number in range(8):
        archive.converse(f"conv-{number % 4}", f"text {number}")
        if number == 5:
            archive.journal.say("conv-0", cm.edit(0, "changed"))
        archive.publish()
    before = archive.latest()
    rows, digests = fleet(before, cm.NOTES), contents(before)
    assert archive.projector.maintain()
    after = archive.latest()
    assert len(after.layers.deltas) < len(before.layers.deltas)
    assert (fleet(after, cm.NOTES), contents(after)) == (rows, digests)
    assert texts(after, "conv-0", "conv-3") == texts(before, "conv-0", "conv-3")


def test_merged_deltas_still_append_to_what_lies_below(archive: Archive) -> None:
    archive.converse("conv-a", "in the base")
    base = archive.publish().manifest.body.base
    for number in range(5):
        archive.converse("conv-a", f"delta {number}")
        archive.publish()
    archive.projector.maintain()
    generation = archive.latest()
    assert generation.manifest.body.base == base
    assert texts(generation, "conv-a") == ["in the base", *(f"delta {n}" for n in range(5))]


def test_nothing_is_merged_when_nothing_is_due(archive: Archive) -> None:
    archive.converse("conv-a", "one")
    archive.publish()
    assert not archive.projector.maintain()
    assert not archive.projector.compact()
    assert archive.latest().number == 1


def test_deltas_above_their_share_go_into_the_base(tmp_path) -> None:
    archive = Archive(tmp_path, layout=LayoutParameters(delta_events=5))
    archive.converse("conv-a", "one")
    archive.publish()
    archive.converse("conv-a", *(f"text {n}" for n in range(6)))
    archive.publish()
    assert archive.projector.maintain()
    assert archive.latest().layers.deltas == ()


def test_a_span_that_did_not_move_keeps_its_pack(tmp_path) -> None:
    archive = Archive(tmp_path, layout=LayoutParameters(span_events=1))
    archive.converse("conv-old", "one")
    archive.journal.clock.advance(seconds=40 * 86_400)
    archive.converse("conv-new", "one")
    before = {index.partitions[0]: pack_id for pack_id, index in archive.publish().layers.base.packs}
    archive.converse("conv-new", "two")
    archive.publish()
    archive.projector.compact()
    after = {index.partitions[0]: pack_id for pack_id, index in archive.latest().layers.base.packs}
    assert after["conv-old"] == before["conv-old"]
    assert after["conv-new"] != before["conv-new"]


def test_what_is_published_while_packs_are_merged_stays_on_top(archive: Archive) -> None:
    for number in range(5):
        archive.converse("conv-a", f"text {number}")
        archive.publish()
    compactor = archive.projector.compactor(archive.projector.new_reader())
    merge = compactor.base_of

    def overtaken(current, layers):
        archive.converse("conv-a", "meanwhile")
        archive.converse("conv-b", "meanwhile too")
        archive.publish()
        return merge(current, layers)

    compactor.base_of = overtaken
    assert compactor.compact()
    generation = archive.latest()
    assert len(generation.layers.deltas) == 1
    assert texts(generation, "conv-a", "conv-b") == [*(f"text {n}" for n in range(5)), "meanwhile", "meanwhile too"]


@pytest.mark.parametrize(
    ("sizes", "first"),
    [
        ([], None),
        ([1] * 3, None),
        ([1] * 4, 0),
        ([1000, 1, 1, 1, 1], 1),
        ([300, 20, 20, 20, 1, 1], 1),
        ([1000, 90, 20], None),
        ([20, 20, 20, 1], 0),
    ],
)
def test_the_newest_run_of_one_class_is_due(sizes: list[int], first: int | None) -> None:
    assert due_run(sizes, fan_in=4) == first


def test_a_cohort_is_split_only_as_far_as_it_must() -> None:
    cohorts = {f"conv-{n}": "2026-W01" for n in range(64)}
    layout = LayoutParameters(pack_events=100, span_events=50)
    groups = base_groups(cohorts, dict.fromkeys(cohorts, 10), layout=layout)
    assert sorted(name for group in groups for name in group) == sorted(cohorts)
    assert all(sum(10 for _ in group) <= 100 for group in groups)
    assert len(base_groups(cohorts, dict.fromkeys(cohorts, 1), layout=layout)) == 1


def test_one_huge_conversation_does_not_shatter_its_cohort() -> None:
    cohorts = {f"conv-{n}": "2026-W01" for n in range(256)}
    events = dict.fromkeys(cohorts, 1) | {"conv-7": 10**6}
    groups = base_groups(cohorts, events, layout=LayoutParameters(pack_events=1000))
    assert len(groups) < 20
    assert [group for group in groups if "conv-7" in group] == [["conv-7"]]


def _weeks(sizes: dict[str, int], *, span_events: int) -> list[list[str]]:
    """The packs of one conversation a week, named as its week."""
    layout = LayoutParameters(span_events=span_events, pack_events=1000)
    return base_groups({week: week for week in sizes}, sizes, layout=layout)


YEAR = {f"2026-W{number:02d}": 10 for number in range(1, 53)}


def test_weeks_of_few_events_share_a_pack_and_weeks_of_many_do_not() -> None:
    assert len(_weeks(YEAR, span_events=520)) == 1
    assert len(_weeks(YEAR, span_events=10)) == 52
    groups = _weeks(YEAR, span_events=80)
    assert [name for group in groups for name in group] == sorted(YEAR), "spans are in the order of their weeks"
    assert all(len(group) <= 8 for group in groups)
    assert len(groups) <= 8, "spans are as long as they may be: seven of eight weeks, one of the rest at either end"


@pytest.mark.parametrize("week", ["2026-W01", "2026-W17", "2026-W52"])
def test_what_comes_into_one_week_moves_the_packs_of_its_span_alone(week: str) -> None:
    before = _weeks(YEAR, span_events=80)
    after = _weeks(YEAR | {week: 15}, span_events=80)
    moved = [group for group in before if group not in after]
    assert all(week in group for group in moved), "a week's span is halved without the others being looked at"
    assert len(moved) <= 1


def test_a_conversation_without_a_cohort_is_planned_before_all_others() -> None:
    groups = _weeks({"2026-W01": 10} | {"": 10}, span_events=10)
    assert groups == [[""], ["2026-W01"]]
