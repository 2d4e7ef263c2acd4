"""Ruling 36, E15: what a participant is told is what an archive that holds only the scope would tell, to the last digit."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.errors import PolycError
from search.query import Filters, SearchRequest
from tests.search.archive import Archive, access, call, change, message, partitions, result, said
from tests.search.test_exact_order import conversations, texts
from tests.search.test_semantic import embed

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


FOREIGN = "conv-imp-zzzzzzzzzzzz"
NAMING_OTHERS = [
    {"sessions": (FOREIGN,)},
    {"sessions": (FOREIGN[:16],)},
    {"sessions": ("conv-imp-",)},
    {"exclude_sessions": (FOREIGN,)},
    {"exclude_trees": (FOREIGN,)},
    {"files": ("src/secret.py",)},
    {"workspaces": ("secret",)},
    {"workspaces": ("/home/kim",)},
    {"source_roots": ("~/secret",)},
    {"source_groups": ("secret",)},
    {"providers": ("codex",)},
    {"provider_sessions": ("s-secret",)},
    {"tools": ("Secret",)},
    {"ids": ("00000000",)},
    {"primary_only": True},
    {},
]


def outcome(archive: Archive, semantic, filters: dict, **request) -> object:
    """The whole answer, or the whole refusal."""
    asked = SearchRequest(filters=Filters(**filters), explain=True, facets=True, **request)
    try:
        answer = archive.engine(semantic).search(
            asked, access=access([MINE]), generation=archive.generation(), verbose=True
        )
    except PolycError as error:
        return error.code, error.message, error.hint
    plain = json.loads(answer.to_json())
    return [len(plain.pop("next_cursor", "")), plain.pop("generations") != [], plain]


MINE = "conv-imp-aaaaaaaaaaaa"


@pytest.mark.parametrize("filters", NAMING_OTHERS, ids=str)
def test_naming_others_tells_nothing_of_them_in_any_lane(filters):
    mine = said(MINE, *["the depot points froze"] * 3, meta={"cwd": "~/depot", "origin": "claude-code"})
    theirs = change(
        FOREIGN,
        messages=[message(FOREIGN, 1, "depot points zanzibar")],
        tool_calls=[call(FOREIGN, 2, "Secret", "{}", path="src/secret.py"), result(FOREIGN, 3, 2, "depot")],
        meta={"cwd": "~/secret", "origin": "codex", "repo": "secret", "provider_session_id": "s-secret"},
    )
    more = said("conv-imp-zzzzyyyyyyyy", "depot")
    alone, crowded = Archive().tick(mine), Archive().tick(theirs, more, mine)
    lanes = [(archive, semantic) for archive in (alone, crowded) for semantic in (None, embed(archive)[0])]
    for text in ("depot", "zanzibar", "frozen turnout", ""):
        for mode in ("lexical", "hybrid", "semantic"):
            for shape in ({"limit": 1, "events": True}, {"content_scope": "outputs"}):
                told_ = [outcome(*lane, filters, text=text, mode=mode, **shape) for lane in lanes]
                assert told_[:2] == told_[2:], (text, mode, shape)


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
