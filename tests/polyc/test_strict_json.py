"""A text of which two readers could make two things is no value."""

import pytest

from polyc import strict_json

AMBIGUOUS = [
    b'{"a":1,"a":1}',
    b'{"a":1,"\\u0061":2}',
    b'{"a":[{"b":{"c":1,"c":2}}]}',
]
NO_JSON = [
    b"", b"{", b"{} {}", b"NaN", b'{"a":Infinity}', b'"\\ud800"', b'{"\\udfff":1}', b'"\xed\xa0\x80"', b"\xff",
    b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b"[" * 100_000, b"1" * 5000, b"'a'", b'{"a":1,}', b"// x",
]  # fmt: skip


@pytest.mark.parametrize("text", [*AMBIGUOUS, *NO_JSON], ids=lambda text: repr(text[:20]))
def test_what_is_ambiguous_or_no_json_is_refused_without_its_content(text):
    with pytest.raises(ValueError, match="a member stands twice" if text in AMBIGUOUS else "not JSON") as caught:
        strict_json.decode(text)
    assert str(caught.value) in {"a member stands twice", "not JSON"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":1,"A":2,"e\xcc\x81":3,"\xc3\xa9":4}', {"a": 1, "A": 2, "e\u0301": 3, "\u00e9": 4}),
        (b'{"a":{"b":1},"c":{"b":1}}', {"a": {"b": 1}, "c": {"b": 1}}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b" [null, true, 1.5] ", [None, True, 1.5]),
    ],
)
def test_anything_else_is_what_it_says(text, value):
    assert strict_json.decode(text) == value
