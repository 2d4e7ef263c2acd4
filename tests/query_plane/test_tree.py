"""The second parser alone: the engine's own tree, allow-listed, whatever the first parser thought."""

import json

import duckdb
import pytest

from polyc.errors import RefusedError
from query_plane.engine import serialize
from query_plane.tree import check_tree
from tests.support.shared import shared_path


@pytest.fixture(scope="module")
def engine():
    with duckdb.connect(":memory:") as connection:
        yield connection


def judge(engine, sql, *relations):
    check_tree(serialize(engine, sql), relations=relations)


def test_every_statement_that_must_be_refused_is_refused_by_the_tree_alone(engine):
    lines = shared_path("cases", "sql.jsonl").read_text().splitlines()
    passed = []
    for case in map(json.loads, lines):
        if case["want"] != "refuse":
            continue
        named = ["messages"] if "messages" in case["sql"] else []
        try:
            judge(engine, case["sql"], *named)
        except RefusedError:
            continue
        passed.append(case["id"])
    # Invisible characters hide nothing from the engine's own parser: it sees the relations that are not admitted.
    assert passed == []


@pytest.mark.parametrize(
    ("sql", "relations"),
    [
        ("SELECT m.text.upper() FROM messages m", ["messages"]),
        ("SELECT * FROM json_each('{}') j, range(3) t(i)", []),
        ("WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t WHERE i < 3) FROM t", []),
        ("SELECT list_transform([1], lambda x: x + 1), [x for x in [1] if x > 0], {'a': 1}, MAP {'k': 1}", []),
        ("SELECT 'b'::ENUM('a','b'), x::DECIMAL(10, 2), y::STRUCT(a INTEGER[]) FROM messages", ["messages"]),
        ("PIVOT messages ON role IN ('a', 'b') USING count(*)", ["messages"]),
        ("SELECT sum(x) OVER (PARTITION BY y ORDER BY z ROWS 1 PRECEDING) FROM messages QUALIFY true", ["messages"]),
    ],
)
def test_reading_forms_pass(engine, sql, relations):
    judge(engine, sql, *relations)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM messages TABLESAMPLE 10%, sqlite_master",
        "SELECT main.getenv('x')",
        "SELECT query('x')",
        "SELECT 1::mood",
        "SELECT 'a' COLLATE de",
        "SELECT * FROM main.messages",
        "SELECT * FROM messages AT (VERSION => 1)",
        "SELECT sum(x) EXPORT_STATE FROM messages",
        "SELECT * FROM system.main.range(3)",
    ],
)
def test_what_is_not_on_the_lists_is_refused(engine, sql):
    with pytest.raises(RefusedError):
        judge(engine, sql, "messages")


def test_the_two_parsers_must_name_the_same_relations(engine):
    with pytest.raises(RefusedError, match="disagree"):
        judge(engine, "SELECT 1", "messages")
    with pytest.raises(RefusedError, match="disagree"):
        judge(engine, "SELECT 1 FROM messages")


def test_an_unknown_node_is_refused_wherever_it_stands(engine):
    def replaced(value, old, new):
        return json.loads(json.dumps(value).replace(old, new))

    good = json.loads(serialize(engine, "SELECT a FROM messages WHERE b = 1 ORDER BY c LIMIT 3"))
    check_tree(json.dumps(good), relations=["messages"])
    for old in (
        "SELECT_NODE",
        "BASE_TABLE",
        "COLUMN_REF",
        "COMPARE_EQUAL",
        "ORDER_MODIFIER",
        "LIMIT_MODIFIER",
        "ORDER_DEFAULT",
        "literal",
        "modifiers",
    ):
        with pytest.raises((RefusedError, KeyError)):
            check_tree(json.dumps(replaced(good, f'"{old}"', '"NEW_THING"')), relations=["messages", "x"])


def test_a_tree_that_is_too_large_is_refused(engine):
    with pytest.raises(RefusedError):
        judge(engine, "SELECT " + ", ".join(["(1+1)"] * 8000))
