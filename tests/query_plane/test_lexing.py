"""The bounds of a text, before any parser."""

import pytest

from polyc.errors import RefusedError
from polyc.limits import STATEMENT_DEPTH_MAX, STATEMENT_SIZE_BYTES_MAX
from query_plane.lexing import check_bounds


def refusal(sql) -> str:
    with pytest.raises(RefusedError) as caught:
        check_bounds(sql)
    return caught.value.message


@pytest.mark.parametrize(
    "blank", ["\u200b", "\u2060", "\ufeff", "\u00a0", "\u3000", "\u2028", "\u00ad", "\x1f", "\x0b", "\u115f", "\u180e"]
)
def test_an_invisible_character_is_refused_outside_quotes_and_is_data_inside(blank):
    assert f"U+{ord(blank):04X}" in refusal(f"SELECT 1{blank}AS a")
    check_bounds(f"SELECT 'a{blank}b'")
    check_bounds(f'SELECT 1 AS "a{blank}b"')
    check_bounds(f"SELECT 1 -- a{blank}b")
    check_bounds(f"SELECT 1 /* a{blank}b */")
    check_bounds(f"SELECT $t$a{blank}b$t$")


def test_a_literal_that_the_engine_would_rewrite_is_refused_by_name():
    assert "rewrite" in refusal("/* it's */ SELECT 'a\u00a0b'")
    assert "rewrite" in refusal("SELECT E'\\'', 'a\u00a0b'")
    check_bounds("-- it's\nSELECT 'a\u00a0b'")
    check_bounds("/* it's */ SELECT 'a b'")
    check_bounds("SELECT E'\\n', 'a\u00a0b'")


def test_the_size_is_counted_in_bytes():
    check_bounds("SELECT '" + "x" * (STATEMENT_SIZE_BYTES_MAX - 9) + "'")
    assert "bytes" in refusal("SELECT '" + "é" * (STATEMENT_SIZE_BYTES_MAX // 2) + "'")


def test_nul_and_lone_surrogates_are_refused():
    assert "NUL" in refusal("SELECT '\0'")
    assert "Unicode" in refusal("SELECT '\ud800'")


def test_brackets_count_outside_quotes_and_comments_only():
    deep = STATEMENT_DEPTH_MAX
    check_bounds("SELECT " + "(" * deep + "1" + ")" * deep)
    assert "nested" in refusal("SELECT " + "(" * (deep + 1) + "1")
    check_bounds("SELECT '" + "(" * 500 + "' -- " + "[" * 500)


@pytest.mark.parametrize("sql", ["SELECT 'a", 'SELECT "a', "SELECT $$a", "SELECT /* a", "SELECT E'a\\'"])
def test_what_is_not_closed_is_refused(sql):
    assert "not closed" in refusal(sql)


@pytest.mark.parametrize(
    ("sql", "word"),
    [("EXPLAIN SELECT 1", "explain"), ("/* x */ -- y\n Select 1", "select"), ("", ""), ("(SELECT 1)", "select")],
)
def test_the_first_word_is_found_behind_comments(sql, word):
    assert check_bounds(sql).first_word == word


@pytest.mark.parametrize(
    "sql",
    ["SELECT 'it''s; fine'", "SELECT $a, $b", "SELECT 'a\\' AS x", "SELECT 1 /* /* */ ; */", "SELECT $x$ $y$ $x$", "SELECT e1'"],
)  # fmt: skip
def test_quotes_are_read_as_the_engine_reads_them(sql):
    if sql.endswith("e1'"):
        assert "not closed" in refusal(sql)
    else:
        check_bounds(sql)
