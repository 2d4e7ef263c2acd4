"""One best event a conversation, one conversation a root before it repeats; fusion and its order."""

import os
import subprocess
import sys

from search.query import Filters
from search.query.fusion import reciprocal_ranks
from tests.search.archive import Archive, call, change, message, partitions, result, said


def test_one_best_event_a_conversation_with_the_number_of_others():
    archive = Archive().tick(said("conv-a", "points", "points points", "points"), said("conv-b", "points"))
    answer = archive.search("points")
    assert sorted(partitions(answer)) == ["conv-a", "conv-b"]
    best = next(hit for hit in answer.results if hit.partition == "conv-a")
    assert best.further_matches == 2
    assert len(archive.search("points", events=True).results) == 4


def family(name: str, root: str | None, text: str):
    return said(
        name, text, meta={"root_partition": root, "parent_partition": root, "link_kind": "subagent" if root else None}
    )


def test_a_root_does_not_repeat_before_every_root_was_shown():
    archive = Archive().tick(
        family("conv-r", None, "points points points points"),
        family("conv-s1", "conv-r", "points points points"),
        family("conv-s2", "conv-r", "points points points so"),
        family("conv-o", None, "points and a good deal of other words about something else"),
    )
    assert partitions(archive.search("points"))[:2] == ["conv-r", "conv-o"]
    assert len(archive.search("points").results) == 4
    assert partitions(archive.search("points", limit=2)) == ["conv-r", "conv-o"]


def test_primary_only_and_trees_leave_subagents_out():
    archive = Archive().tick(
        family("conv-r", None, "points"), family("conv-s", "conv-r", "points"), said("conv-o", "points")
    )
    assert sorted(partitions(archive.search("points", filters=Filters(primary_only=True)))) == ["conv-o", "conv-r"]
    assert partitions(archive.search("points", filters=Filters(exclude_trees=("conv-r",)))) == ["conv-o"]


def test_more_is_available_only_when_one_more_result_is():
    archive = Archive().tick(said("conv-a", "points"), said("conv-b", "points"))
    assert not archive.search("points", limit=2).window.more_available
    assert archive.search("points", limit=1).window.more_available


def test_filters_narrow_and_combine():
    archive = Archive().tick(
        said("conv-aaaaaaaaaa", "points", meta={"origin": "codex", "repo": "depot", "cwd": "/srv/depot"}),
        said("conv-bbbbbbbbbb", "points", meta={"origin": "claude-code", "cwd": "/home/u/other"}),
        change(
            "conv-cccccccccc",
            messages=[message("conv-cccccccccc", 1, "points", role="assistant")],
            tool_calls=[
                call("conv-cccccccccc", 2, "Read", '{"path":"/a/b/points.py"}', path="/a/b/points.py"),
                result("conv-cccccccccc", 3, 2, "points = 1"),
            ],
        ),
    )

    def found(**filters) -> list[str]:
        answer = archive.search("points", events=True, filters=Filters(**filters))
        return sorted(f"{hit.partition[5]}{hit.position}" for hit in answer.results)

    assert found() == ["a1", "b1", "c1", "c2", "c3"]
    assert found(providers=("codex",)) == ["a1"]
    assert found(providers=("codex", "claude-code")) == ["a1", "b1"]
    assert found(workspaces=("depot",)) == ["a1"]
    assert found(workspaces=("other",), providers=("codex",)) == []
    assert found(workspaces=("/home/u",)) == ["b1"]
    assert found(roles=("assistant",)) == ["c1", "c2"]
    assert found(tools=("Read",)) == ["c2", "c3"]
    assert (
        found(files=("points.py",)) == found(files=("/a/b/points.py",)) == found(files=("b/points.py",)) == ["c2", "c3"]
    )
    assert found(files=("oints.py",)) == []
    assert found(sessions=("aaaaaaaa",)) == ["a1"]
    assert found(sessions=("aaaaaaa",)) == []
    assert found(exclude_sessions=("conv-aaaaaaaaaa", "bbbbbbbb")) == ["c1", "c2", "c3"]
    start = 1772366400000000
    assert found(since_us=start + 2 * 60_000_000) == ["c2", "c3"]
    assert found(since_us=start + 60_000_000, until_us=start + 2 * 60_000_000) == ["a1", "b1", "c1"]


def test_a_file_alone_lists_its_events_newest_first():
    calls = [call("conv-a", n, "Read", f'{{"path":"a.py","n":{n}}}', path="src/a.py") for n in (1, 2, 3)]
    archive = Archive().tick(change("conv-a", tool_calls=calls))
    answer = archive.search("", filters=Filters(files=("a.py",)), events=True)
    assert [hit.position for hit in answer.results] == [3, 2, 1]
    assert answer.matching_chunks == 3


def test_content_scopes_select_kinds_and_weigh_them():
    archive = Archive().tick(
        change(
            "conv-a",
            messages=[message("conv-a", 1, "points"), message("conv-a", 2, "points", kind="summary")],
            tool_calls=[call("conv-a", 3, "points"), result("conv-a", 4, 3, "points")],
        )
    )

    def found(**more):
        return [(hit.kind, hit.retrieval_score) for hit in archive.search("points", events=True, **more).results]

    every = dict(found())
    assert list(every) == ["transcript", "summary", "call", "output"]
    assert dict(found(content_scope="all")) == every
    assert [kind for kind, _ in found(content_scope="transcript")] == ["transcript", "summary"]
    assert [kind for kind, _ in found(content_scope="calls")] == ["call"]
    assert dict(found(content_scope="outputs"))["output"] > every["output"]
    assert [kind for kind, _ in found(event_types=("tool_output",))] == ["output"]


def test_ranks_count_from_one_and_a_repeat_takes_its_best():
    """E12."""
    fused = reciprocal_ranks([["a", "b", "b", "c"], ["c", "a"]], [1.0, 1.0])
    assert fused == {"a": (1 / 61 + 1 / 62, 1), "b": (1 / 62, 2), "c": (1 / 64 + 1 / 61, 1)}
    assert reciprocal_ranks([[], ["x"]], [0.65, 0.35]) == {"x": (0.35 / 61, 1)}


ORDER = """
from tests.search.archive import Archive, partitions, said
archive = Archive().tick(*[said(f"conv-{n:02}", "points") for n in range(30)])
print(partitions(archive.search("points", limit=30)))
"""


def test_the_order_of_ties_does_not_depend_on_the_process():
    orders = {
        subprocess.run(
            [sys.executable, "-c", ORDER],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(orders) == 1
    assert "conv-07" in next(iter(orders))
