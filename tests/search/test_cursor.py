"""Pages: nothing repeated, nothing lost, whatever is ingested meanwhile; a cursor fits one search alone."""

import base64
import dataclasses

import pytest

from polyc.errors import RefusedError
from search.query import Filters, SearchRequest
from search.query.answer import Freshness
from search.query.cursor import peek_asked_at, peek_generation
from search.query.wire import FilterBody, SearchBody, asked_of
from tests.search.archive import Archive, access, change, message, partitions, said


def fifty() -> Archive:
    messages = [message("conv-a", number + 1, "points", occurred_at=None) for number in range(50)]
    return Archive().tick(change("conv-a", messages=messages), said("conv-b", "points"))


def pages(archive: Archive, *, between=lambda: None, limit: int = 10, **more) -> list[str]:
    generation, engine, found, cursor = archive.generation(), archive.engine(), [], None
    while True:
        request = SearchRequest(text="points", limit=limit, cursor=cursor, **more)
        answer = engine.search(request, access=access(), generation=generation)
        found += [f"{hit.partition}@{hit.position}" for hit in answer.results]
        cursor = answer.next_cursor
        if cursor is None:
            assert not answer.window.more_available
            return found
        assert answer.window.more_available
        between()


def test_fifty_equal_scores_are_paged_without_repeat_or_loss():
    """E11."""
    archive = fifty()
    number = iter(range(100, 200))
    found = pages(archive, between=lambda: archive.tick(said(f"conv-{next(number)}", "points")), events=True)
    assert len(found) == len(set(found)) == 51
    assert found == pages(fifty(), events=True, limit=200)


def test_pages_of_shaped_answers_join_to_the_whole():
    archive = Archive().tick(*[said(f"conv-{number:02}", "points", "points again") for number in range(25)])
    assert pages(archive, limit=4) == pages(archive, limit=200)
    assert len(pages(archive, limit=4)) == 25


def first_cursor(archive: Archive, **more) -> str:
    answer = archive.search("points", events=True, limit=10, **more)
    assert answer.next_cursor is not None
    return answer.next_cursor


def test_one_changed_byte_is_refused_wherever_it_stands():
    """E16."""
    archive = fifty()
    cursor = first_cursor(archive)
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    messages = set()
    for place in range(len(raw)):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        text = base64.urlsafe_b64encode(changed).rstrip(b"=").decode()
        with pytest.raises(RefusedError) as error:
            archive.search("points", events=True, limit=10, cursor=text)
        messages.add(error.value.message)
    assert messages == {"cursor is not one of this search"}


@pytest.mark.parametrize("text", ["", "a", "é", "=" * 5, "A" * 600, "////", "_w", "!!"])
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(RefusedError):
        fifty().search("points", events=True, cursor=text)


@pytest.mark.parametrize(
    "other",
    [
        {"text": "point"},
        {"text": "points", "filters": Filters(roles=("user",))},
        {"text": "points", "mode": "lexical"},
        {"text": "points", "events": False},
        {"text": "points", "content_scope": "transcript"},
        {"text": "points", "terms": ("x",)},
    ],
)
def test_a_cursor_of_another_question_is_refused(other):
    archive = fifty()
    cursor = first_cursor(archive)
    with pytest.raises(RefusedError, match="not one of this search"):
        archive.search(**({"events": True, "limit": 10, "cursor": cursor} | other))


def test_a_cursor_of_another_grant_is_refused():
    archive = fifty()
    cursor = first_cursor(archive, scope=["conv-a"])
    with pytest.raises(RefusedError, match="not one of this search"):
        archive.search("points", events=True, limit=10, cursor=cursor, scope=["conv-a", "conv-b"])
    assert archive.search("points", events=True, limit=10, cursor=cursor, scope=["conv-a"]).window.offset == 10


def test_a_cursor_of_another_edge_is_refused():
    archive = fifty()
    cursor = first_cursor(archive)
    from search.query.engine import SearchEngine

    engine = SearchEngine(archive.store, cursor_secret=b"another secret of 32 bytes......")
    request = SearchRequest(text="points", events=True, limit=10, cursor=cursor)
    with pytest.raises(RefusedError, match="not one of this search"):
        engine.search(request, access=access(), generation=archive.generation())


def test_an_expired_generation_is_refused_by_name():
    archive = fifty()
    cursor = first_cursor(archive)
    assert peek_generation(cursor) == archive.generation().generation_id
    archive.tick(said("conv-z", "new"))
    with pytest.raises(RefusedError, match="expired"):
        archive.search("points", events=True, limit=10, cursor=cursor)


def test_a_later_page_says_when_its_own_generation_was_published():
    """The edge knows a newer one by then; what is shown is not of it."""
    archive = fifty()
    first = dataclasses.replace(archive.generation(), created_at_us=1_000)
    request = SearchRequest(text="points", events=True, limit=10)
    newest = Freshness(requested="background", outcome="indexed", published_at="2026-03-01T12:00:00.000Z")
    answer = archive.engine().search(request, access=access(), generation=first, freshness=newest)
    assert answer.freshness.published_at == "1970-01-01T00:00:00.001Z"


def test_a_cursor_tells_no_size_of_the_archive():
    archive = fifty()
    one = first_cursor(archive, scope=["conv-a"])
    alone = Archive().tick(
        change("conv-a", messages=[message("conv-a", n + 1, "points", occurred_at=None) for n in range(50)])
    )
    other = first_cursor(alone, scope=["conv-a"])
    assert len(one) == len(other)


def test_a_good_cursor_goes_on_with_another_page_size():
    archive = fifty()
    cursor = first_cursor(archive)
    assert len(partitions(archive.search("points", events=True, limit=5, cursor=cursor))) == 5


DAY_US = 86_400_000_000


def asked(*, now_us: int, since: str = "30d", cursor: str | None = None) -> SearchRequest:
    body = SearchBody(query="points", events=True, limit=10, filters=FilterBody(since=since), cursor=cursor)
    return asked_of(body, now_us=now_us).request


def test_a_window_of_time_stands_still_from_page_to_page():
    """`--since 30d` was another query on every page, and its cursor refused."""
    archive = Archive().tick(said("conv-a", *["points"] * 25))
    now_us = 1_772_366_400_000_000 + DAY_US
    engine, found, cursor = archive.engine(), [], None
    for page in range(3):
        request = asked(now_us=now_us + page * 5 * DAY_US, cursor=cursor)
        answer = engine.search(request, access=access(), generation=archive.generation())
        found += [hit.position for hit in answer.results]
        cursor = answer.next_cursor
    assert sorted(found) == list(range(1, 26))
    assert cursor is None


def test_a_cursor_cannot_move_the_window_it_was_made_for():
    archive = Archive().tick(said("conv-a", *["points"] * 25))
    now_us = 1_772_366_400_000_000 + DAY_US
    engine, generation = archive.engine(), archive.generation()
    cursor = engine.search(asked(now_us=now_us), access=access(), generation=generation).next_cursor
    assert peek_asked_at(cursor) == now_us
    with pytest.raises(RefusedError, match="not one of this search"):
        engine.search(asked(now_us=now_us, since="31d", cursor=cursor), access=access(), generation=generation)
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    place = raw.index(now_us.to_bytes(8, "big"))
    later = raw[:place] + (now_us + 1).to_bytes(8, "big") + raw[place + 8 :]
    forged = base64.urlsafe_b64encode(later).rstrip(b"=").decode()
    with pytest.raises(RefusedError, match="not one of this search"):
        engine.search(asked(now_us=now_us, cursor=forged), access=access(), generation=generation)
