"""What contradicts itself or is out of bounds is refused by name; what is merely odd is searched for."""

import pytest

from polyc.errors import RefusedError
from polyc.limits import SEARCH_FILTERS_MAX, SEARCH_LIMIT_MAX, SEARCH_TEXT_BYTES_MAX
from search.query.request import Filters, SearchRequest, check_request
from search.query.wire import decode_body, parse_time

REFUSED = {
    "two ways to name kinds": (SearchRequest(content_scope="calls", event_types=("message",)), "invalid_argument"),
    "no such content scope": (SearchRequest(content_scope="everything"), "invalid_argument"),
    "no such event type": (SearchRequest(event_types=("dream",)), "invalid_argument"),
    "no such mode": (SearchRequest(mode="magic"), "invalid_argument"),
    "no result": (SearchRequest(limit=0), "out_of_range"),
    "too many results": (SearchRequest(limit=SEARCH_LIMIT_MAX + 1), "out_of_range"),
    "a weight beyond one": (SearchRequest(semantic_weight=1.5), "out_of_range"),
    "named and excluded": (SearchRequest(filters=Filters(sessions=("a",), exclude_sessions=("b",))), "invalid_argument"),
    "too long": (SearchRequest(text="x" * (SEARCH_TEXT_BYTES_MAX + 1)), "out_of_range"),
    "an id that is none": (SearchRequest(filters=Filters(ids=("zz",))), "invalid_argument"),
    "no value": (SearchRequest(filters=Filters(files=("",))), "invalid_argument"),
    "a blank value": (SearchRequest(filters=Filters(source_roots=("~/src", " "))), "invalid_argument"),
    "too many kinds": (SearchRequest(event_types=("message",) * (SEARCH_FILTERS_MAX + 1)), "out_of_range"),
    "too many trees": (SearchRequest(filters=Filters(exclude_trees=("x",) * (SEARCH_FILTERS_MAX + 1))), "out_of_range"),
    "too many values": (SearchRequest(filters=Filters(roles=("user",) * (SEARCH_FILTERS_MAX + 1))), "out_of_range"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_contradiction_is_refused(name):
    request, code = REFUSED[name]
    with pytest.raises(RefusedError) as refused:
        check_request(request)
    assert refused.value.code == code


@pytest.mark.parametrize("text", ["", "\x00", '"', "AND OR NOT (", "x" * SEARCH_TEXT_BYTES_MAX])
def test_no_text_is_refused_for_what_it_says(text):
    assert check_request(SearchRequest(text=text)).text == text


def test_half_a_surrogate_pair_is_text_too():
    """A search box can cut an emoji in two; what is no JSON for other reasons stays none."""
    asked = decode_body(b'{"query": "points \\ud83d"}', now_us=0)
    assert asked.request.text == "points ?"
    for said, text in (
        (rb"\ud83d\ude00", "😀"), (rb"\ud83d\ud83d\ude00\udE00", "?😀?"), (rb"\\ud83d \ud83d", "\\ud83d ?"), (rb"\udc00\n", "?\n"),
    ):  # fmt: skip
        assert decode_body(b'{"query": "%b"}' % said, now_us=0).request.text == text
    for content in (
        b'{"query": "\\ud83d"', b'{"query": "\\ud83d", "x": 1}', b'{"limit": NaN, "query": "\\ud83d"}', b'"\\ud83d"',
        b'{"query": "\\ud83d\xff"}', b"[" * 100_000 + b'"\\ud83d"', b'{"query": "\\uZZZZ"}',
    ):  # fmt: skip
        with pytest.raises(RefusedError, match="the body is not"):
            decode_body(content, now_us=0)


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-03-01T12:00:00", "12", "5h"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(RefusedError):
        parse_time(text, now_us=0)


def test_dates_are_of_utc_and_windows_end_now():
    day_us = 86_400_000_000
    assert parse_time("1970-01-03", now_us=0) == 2 * day_us
    assert parse_time("1970-01-03T01:00:00+01:00", now_us=0) == 2 * day_us
    assert parse_time("2d", now_us=5 * day_us) == 3 * day_us
    assert parse_time(None, now_us=0) is None
