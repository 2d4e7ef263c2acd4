"""The order of answers is BM25 over the scope, exactly, whatever the engine proposes and however packs are cut."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.search.archive import Archive, call, change, message, result
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


def test_the_oracle_notices_another_order():
    archive, changes = archive_of([["points freeze", "points points freeze"]], cut=1)
    answer = archive.search("points", events=True, mode="lexical", verbose=True)
    assert [hit.chunk_id for hit in answer.results] != [identity for _, identity in naive_search(changes, "points")][
        ::-1
    ]
