"""The order of answers is BM25 over the scope, exactly, whatever the engine proposes and however packs are cut."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.build.chunker import texts_of
from search.query import SearchRequest
from search.query.engine import CoincidenceError
from tests.search.archive import START, Archive, access, call, change, message, result, said
from tests.search.oracle import naive_search

WORDS = [
    "points",
    "point",
    "freeze",
    "freezing",
    "depot",
    "getUserById",
    "user",
    "line_7",
    "line",
    "7",
    "C++",
    "的",
    "确",
]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=60).map(" ".join)
conversations = st.lists(texts, min_size=1, max_size=4)


def archive_of(said: list[list[str]], *, cut: int) -> tuple[Archive, list]:
    changes = []
    for number, texts_of_one in enumerate(said):
        name = f"conv-{number:03}"
        messages = [message(name, 2 * at + 1, text) for at, text in enumerate(texts_of_one)]
        calls = [
            call(name, 100, "Bash", f'{{"command":"{texts_of_one[0]}"}}'),
            result(name, 101, 100, texts_of_one[-1]),
        ]
        changes.append(change(name, messages=messages, tool_calls=calls))
    archive = Archive()
    for start in range(0, len(changes), cut):
        archive.tick(*changes[start : start + cut])
    return archive, changes


@settings(max_examples=25, deadline=None)
@given(said=st.lists(conversations, min_size=1, max_size=6), query=texts, cut=st.integers(1, 6))
def test_order_and_scores_are_those_of_the_naive_search(said, query, cut):
    archive, changes = archive_of(said, cut=cut)
    answer = archive.search(query, events=True, mode="lexical", limit=200, verbose=True)
    expected = naive_search(changes, query)
    assert answer.matching_chunks == len(expected)
    scores = {identity: score for score, identity in expected}
    best = [hit.chunk_id for hit in answer.results]
    assert len(best) == len({(hit.partition, hit.position, hit.kind) for hit in answer.results})
    assert [round(scores[identity], 6) for identity in best] == [hit.retrieval_score for hit in answer.results]
    wanted = [identity for _, identity in expected if identity in set(best)]
    assert best == wanted


def test_far_more_candidates_than_a_batch_are_still_in_exact_order():
    said = [[f"depot {'filler ' * (number % 37)} points" for number in range(40)] for _ in range(8)]
    archive, changes = archive_of(said, cut=5)
    expected = naive_search(changes, "depot points")
    answer = archive.search("depot points", events=True, mode="lexical", limit=200, verbose=True)
    assert [hit.chunk_id for hit in answer.results] == [identity for _, identity in expected][:200]


def alike_to_the_engine() -> list:
    """Two chunks of equal lengths whose scores differ by less than 32 bits can tell; the better one is the older."""
    more, less = (f"zz {'b ' * count}{'c ' * (599 - count)}" for count in (591, 590))
    return [said("conv-000", more, less, *[f"{'b ' * 30}{'c ' * 560}"] * 60)]


def test_chunks_that_the_engine_cannot_tell_apart_are_told_apart_by_their_texts():
    changes = alike_to_the_engine()
    answer = Archive().tick(*changes).search("zz b", mode="lexical", events=True, limit=2, verbose=True)
    assert [hit.position for hit in answer.results] == [1, 2]
    assert [hit.chunk_id for hit in answer.results] == [identity for _, identity in naive_search(changes, "zz b")][:2]


def test_taking_them_for_equal_is_noticed():
    archive = Archive().tick(*alike_to_the_engine())
    request = SearchRequest(text="zz b", mode="lexical", events=True, limit=2)
    with pytest.raises(CoincidenceError):
        archive.engine().once(request, access=access(), generation=archive.generation())


def test_many_chunks_of_one_score_come_newest_first_whatever_their_texts():
    changes = [said(f"conv-{number:03}", *[f"froze {number} {turn}" for turn in range(30)]) for number in range(10)]
    archive = Archive().tick(*changes[:5]).tick(*changes[5:])
    answer = archive.search("froze", mode="lexical", events=True, limit=200, verbose=True)
    assert [hit.chunk_id for hit in answer.results] == [identity for _, identity in naive_search(changes, "froze")][
        :200
    ]
    assert answer.matching_chunks == 300


def alike_by_the_thousand() -> list:
    """1,200 chunks of one score; forty are equally old, and every tenth has no time."""

    def when(position: int) -> dict:
        return {"occurred_at": None if position % 10 == 0 else START + timedelta(minutes=position % 30)}

    names = [f"conv-{number:03}" for number in range(12)]
    return [change(name, messages=[message(name, at, "froze", **when(at)) for at in range(1, 101)]) for name in names]


@pytest.mark.parametrize("scope", [None, [f"conv-{number:03}" for number in range(11)]])
def test_of_thousands_that_are_alike_each_page_has_the_newest_that_are_left(scope):
    changes = [each for each in alike_by_the_thousand() if scope is None or each.partition in scope]
    archive = Archive().tick(*alike_by_the_thousand())
    chunks = [chunk for one in changes for chunk, _ in texts_of(one.rows)]
    chunks.sort(key=lambda chunk: (-(chunk.occurred_at_us or -(1 << 62)), chunk.chunk_id))
    found, cursor = [], None
    for _ in range(4):
        answer = archive.search(
            "froze", scope=scope, mode="lexical", events=True, limit=200, verbose=True, cursor=cursor
        )
        found += [hit.chunk_id for hit in answer.results]
        cursor = answer.next_cursor
    assert found == [chunk.chunk_id for chunk in chunks[:800]]
    assert answer.matching_chunks == len(chunks)


def test_a_scope_of_many_conversations_is_answered_like_one_of_few():
    said_by = [said(f"conv-{number:04}", f"froze {'again ' * (number % 7)}") for number in range(1200)]
    scope = [one.partition for one in said_by if int(one.partition[-4:]) % 7 != 3]
    alone, crowded = (
        Archive().tick(*changes) for changes in ([one for one in said_by if one.partition in scope], said_by)
    )
    assert len(scope) > 1000
    for text in ("froze", "again froze"):
        answers = [each.search(text, scope=scope, mode="lexical", limit=50) for each in (alone, crowded)]
        assert answers[0].matching_chunks == len(scope)
        assert answers[0].results == answers[1].results
    assert crowded.search("froze", mode="lexical").matching_chunks == 1200


def test_the_oracle_notices_another_order():
    archive, changes = archive_of([["points freeze", "points points freeze"]], cut=1)
    answer = archive.search("points", events=True, mode="lexical", verbose=True)
    assert [hit.chunk_id for hit in answer.results] != [identity for _, identity in naive_search(changes, "points")][
        ::-1
    ]
