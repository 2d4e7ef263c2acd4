"""What may be asked: one body that can be read in one way, with values that the engine can be given."""

import json

import pytest

from polyc.errors import RefusedError
from polychrome.query.v1.query_pb import ExecuteRequest
from query_plane.requests import DEADLINE_HEADER, ROW_LIMIT_HEADER, from_json, from_message


def asked(body: bytes, **headers: bytes):
    named = {"row_limit": ROW_LIMIT_HEADER, "deadline": DEADLINE_HEADER}
    return from_json(body, headers={named[name]: value for name, value in headers.items()}, want="json")


@pytest.mark.parametrize(
    "body",
    [
        b'{"sql":"SELECT 1","sql":"SELECT 2"}',
        b'{"sql":"SELECT 1","\\u0073ql":"SELECT 2"}',
        b'{"sql":"SELECT $a","parameters":{"a":1,"a":2}}',
        b'{"sql":"SELECT 1","row_limit":1,"rowLimit":2}',
        b'{"sql":"SELECT 1","row_limit":-1}',
        b'{"sql":"SELECT 1","scope":["conv-a"]}',
        b'{"sql":1}',
        b'{"sql":null}',
        b'{"sql":"\\ud800"}',
        b"{}",
        b"[]",
        b"",
        b"\xff",
        b"[" * 100_000,
        b'{"sql":"SELECT $a","parameters":{"a":{"b":1}}}',
        b'{"sql":"SELECT $a","parameters":{"a":[[[[1]]]]}}',
        b'{"sql":"SELECT $a","parameters":{"a":-9223372036854775809}}',
        b'{"sql":"SELECT $a","parameters":{"a":18446744073709551616}}',
        b'{"sql":"SELECT $a","parameters":{"a":[' + b",".join([b"1"] * 100_001) + b"]}}",
    ],
    ids=lambda body: repr(body[:60]),
)
def test_a_body_that_says_two_things_or_none_is_refused(body):
    with pytest.raises(RefusedError) as caught:
        asked(body)
    assert "SELECT 2" not in str(caught.value)


@pytest.mark.parametrize("value", ["x", 1, -(2**63), 2**63, True, None, 1.5, ["a", None], [[1], [2]]])
def test_values_that_the_engine_can_be_given_are_given_as_they_are(value):
    assert asked(json.dumps({"sql": "SELECT $a", "parameters": {"a": value}}).encode()).parameters == {"a": value}


@pytest.mark.parametrize(
    ("body", "header", "limit"),
    [
        (b'{"sql":"q","row_limit":5}', None, 5), (b'{"sql":"q","rowLimit":5}', b"7", 5), (b'{"sql":"q"}', b"7", 7),
        (b'{"sql":"q","row_limit":9}', b"7", 7), (b'{"sql":"q"}', None, None), (b'{"sql":"q","row_limit":0}', None, 0),
    ],
)  # fmt: skip
def test_the_lower_limit_counts(body, header, limit):
    assert asked(body, **({} if header is None else {"row_limit": header})).row_limit == limit


@pytest.mark.parametrize("header", [b"-1", b"x", b"", b"1.5", b"1" * 11, b"\xd9\xa3"])
def test_headers_are_numbers(header):
    for name in ("row_limit", "deadline"):
        with pytest.raises(RefusedError, match="not a number"):
            asked(b'{"sql":"q"}', **{name: header})


def told(value: str):
    message = ExecuteRequest.from_json('{"sql":"q","parameters":{"a":' + value + "}}")
    return from_message(message, headers={}, want="arrow").parameters["a"]


@pytest.mark.parametrize(
    ("value", "given"),
    [("7", 7), ("1e300", 1e300), ("1.5", 1.5), ('"x"', "x"), ("true", True), ("null", None), ("[1, [2]]", [1, [2]])],
)
def test_a_protobufs_values_are_the_same(value, given):
    assert told(value) == given
    assert type(told(value)) is type(given)


@pytest.mark.parametrize("value", ["{}", '{"b":1}', "[[[[1]]]]"])
def test_a_protobufs_object_is_no_parameter(value):
    with pytest.raises(RefusedError, match="object"):
        told(value)
