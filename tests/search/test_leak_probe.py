"""Ruling 36, E15: what a participant is told is what an archive that holds only the scope would tell, to the last digit."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.search.archive import Archive, access, call, change, message, partitions, result, said
from tests.search.test_exact_order import conversations, texts

other = st.lists(conversations, min_size=1, max_size=5)


def told(archive: Archive, scope: list[str], **request) -> dict:
    answer = archive.search(scope=scope, explain=True, facets=True, verbose=True, **request)
    plain = json.loads(answer.to_json())
    assert all(use["generation"].startswith("g-") for use in plain.pop("generations"))
    plain.pop("next_cursor", None)
    return plain


@settings(max_examples=25, deadline=None)
@given(mine=conversations, theirs=other, query=texts, cut=st.integers(1, 4), events=st.booleans())
def test_another_conversation_changes_nothing_that_a_participant_is_told(mine, theirs, query, cut, events):
    own = [said(f"conv-m{number}", *[text]) for number, text in enumerate(mine)]
    foreign = [said(f"conv-{'a' if number % 2 else 'z'}{number}", *what) for number, what in enumerate(theirs)]
    alone = Archive().tick(*own)
    crowded = Archive()
    mixed = sorted([*own, *foreign], key=lambda one: one.partition)
    for start in range(0, len(mixed), cut):
        crowded.tick(*mixed[start : start + cut])
    scope = [one.partition for one in own]
    for mode in ("lexical", "hybrid"):
        request = {"text": query, "events": events, "mode": mode}
        assert told(crowded, scope, **request) == told(alone, scope, **request)


def test_the_probe_notices_when_statistics_are_global():
    mine = [said("conv-m", "depot depot points", "freeze")]
    theirs = [said("conv-z", "depot", "depot points", "depot")]
    crowded = Archive().tick(*mine, *theirs)
    alone = Archive().tick(*mine)
    wide = crowded.search("depot points", mode="lexical").results
    narrow = alone.search("depot points", mode="lexical").results
    assert {hit.partition: hit.retrieval_score for hit in wide}["conv-m"] != narrow[0].retrieval_score


def test_a_word_that_only_others_said_is_not_known():
    archive = Archive().tick(said("conv-m", "points"), said("conv-z", "zanzibar quasar"))
    answer = archive.search("zanzibar", scope=["conv-m"], explain=True, facets=True)
    assert (answer.results, answer.matching_chunks, answer.facets) == ((), 0, None)
    assert answer.explain["clauses"] == []
    assert partitions(archive.search("zanzibar")) == ["conv-z"]


def test_an_empty_scope_and_an_unknown_partition_have_no_hits():
    archive = Archive().tick(said("conv-m", "points"))
    for scope in ([], ["conv-unknown"]):
        answer = archive.search("points", scope=scope, facets=True, explain=True)
        assert (answer.results, answer.matching_chunks) == ((), 0)
        assert answer.explain["scope"] == {"conversations": 0, "chunks": 0}


def test_a_scope_reaches_no_neighbour_in_files_tools_or_outputs():
    archive = Archive().tick(
        change("conv-a", messages=[message("conv-a", 1, "points")]),
        change(
            "conv-b",
            tool_calls=[
                call("conv-b", 1, "Secret", '{"path":"/srv/hidden.py"}', path="/srv/hidden.py"),
                result("conv-b", 2, 1, "points of nobody's business"),
            ],
        ),
    )
    filters = archive.search("", scope=["conv-a"], filters=_files("/srv/hidden.py"))
    assert filters.results == ()
    answer = archive.search("points", scope=["conv-a"], facets=True, events=True)
    assert partitions(answer) == ["conv-a"]
    assert answer.facets["tool"] == {}
    assert answer.facets["conversation"] == {"conv-a": 1}


def test_participants_are_told_no_watermark():
    archive = Archive().tick(said("conv-m", "points"))
    assert archive.search("points", scope=["conv-m"]).generations[0].watermark is None
    assert archive.search("points").generations[0].watermark == 1
    assert access(["conv-m"]).digest != access(["conv-m", "conv-n"]).digest


def _files(*names: str):
    from search.query import Filters

    return Filters(files=names)
