"""The first parser: one reading SELECT over admitted names, or a refusal that says what to write instead."""

import logging

import pytest
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from polyc.errors import RefusedError
from query_plane import gate
from query_plane.functions import FUNCTIONS
from query_plane.gate import check

RELATIONS = {
    "messages": ["partition", "position", "role", "text"],
    "turns": ["partition", "turn_id", "status"],
}


def relations_of(sql, **options):
    return check(sql, relations=RELATIONS, **options).relations


def refusal(sql, **options) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        check(sql, relations=RELATIONS, **options)
    return caught.value


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", {}),
        ("SELECT role FROM messages", {"messages": ["role"]}),
        ('SELECT "ROLE" FROM "Messages"', {"messages": ["role"]}),
        ("FROM messages", {"messages": None}),
        ("SELECT count(*) FROM messages", {"messages": []}),
        ("SELECT m FROM messages m", {"messages": None}),
        ("SELECT * FROM messages NATURAL JOIN turns", {"messages": None, "turns": None}),
        ("SELECT role FROM messages NATURAL JOIN turns", {"messages": None, "turns": None}),
        ("SELECT COLUMNS('r.*') FROM messages", {"messages": None}),
        ("WITH messages AS (SELECT 1 AS i) SELECT i FROM messages", {}),
        ("WITH a AS (SELECT role FROM messages) SELECT role FROM a JOIN turns ON true", {"messages": ["role"], "turns": []}),
        ("SELECT text FROM messages WHERE text LIKE '%DROP TABLE turns;%'", {"messages": ["text"]}),
        ("WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t WHERE i < 3) FROM t", {}),
        ("SELECT role FROM messages -- ; DROP TABLE x\n;", {"messages": ["role"]}),
        ("SELECT * FROM turns UNPIVOT (v FOR n IN (status, turn_id))", {"turns": None}),
        ("SELECT i FROM generate_series(1, 3) g(i)", {}),
        ("SELECT m.role.upper().lower() FROM messages m", {"messages": ["role"]}),
    ],
)  # fmt: skip
def test_a_reading_statement_names_its_relations_and_the_columns_it_could_mean(sql, expected):
    assert relations_of(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "WITH a AS (SELECT * FROM turns_hidden), turns_hidden AS (SELECT 1) FROM a",
        "WITH turns_hidden AS (SELECT * FROM turns_hidden) FROM turns_hidden",
        "SELECT (WITH h AS (SELECT 1) SELECT 1 FROM h), (SELECT 1 FROM h)",
        "SELECT 1 FROM h WHERE EXISTS (WITH h AS (SELECT 1) FROM h)",
        "WITH RECURSIVE h AS (SELECT 1 FROM h) FROM h",
        "SELECT * FROM (WITH h AS (SELECT 1) FROM h) x, h",
    ],
)
def test_a_with_name_hides_a_relation_only_where_it_is_visible(sql):
    assert refusal(sql).code == "not_found"


def test_a_hidden_and_an_absent_table_are_refused_with_the_same_words():
    hidden, absent = refusal("SELECT * FROM signer_keys"), refusal("SELECT * FROM signor_keys")
    assert (hidden.message.replace("signer", "signor"), hidden.hint) == (absent.message, absent.hint)


def test_a_misspelt_table_is_answered_with_an_admitted_one():
    assert refusal("SELECT * FROM mesages").hint == 'did you mean "messages"?'
    assert "did you mean" not in str(refusal("SELECT * FROM signer_key").hint)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO messages VALUES (1)",
        "DELETE FROM messages",
        "WITH d AS (DELETE FROM messages RETURNING *) SELECT * FROM d",
        "WITH d AS (INSERT INTO messages VALUES (1) RETURNING *) SELECT * FROM d",
        "COPY messages TO '/tmp/x'",
        "SELECT * INTO x FROM messages",
        "SELECT * FROM messages FOR UPDATE",
        "SHOW TABLES",
        "DESCRIBE messages",
        "SELECT * FROM (SHOW TABLES)",
        "SET threads = 1",
        "PRAGMA version",
        "ATTACH 'x'",
        "SELECT 1; SELECT 2",
        "; SELECT 1",
        "",
        "  ;; ",
        "-- nothing",
        "SELECT * FROM main.messages",
        "SELECT * FROM memory.main.messages",
        "SELECT * FROM read_parquet('x')",
        "SELECT * FROM \"read_parquet\"('x')",
        "FROM query('SELECT 1')",
        "FROM query_table('messages')",
        "SELECT getenv('HOME')",
        "SELECT current_setting('threads')",
        "SELECT nextval('s')",
        "SELECT pg_sleep(1)",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM messages AT (VERSION => 1)",
        "SELECT ?",
        "SELECT $1",
        "SELECT $undeclared",
    ],
)
def test_what_is_not_one_reading_select_is_refused(sql):
    refusal(sql)


def test_pivot_is_told_to_list_its_values():
    assert "IN list" in str(refusal("PIVOT messages ON role USING count(*)").hint)
    assert relations_of("PIVOT messages ON role IN ('user') USING count(*)") == {"messages": None}


def test_explain_is_for_admins_and_never_analyzes():
    assert refusal("EXPLAIN SELECT 1").message == "EXPLAIN is for admin grants"
    assert check("EXPLAIN SELECT 1", relations=RELATIONS, may_explain=True).explain
    for sql in ("EXPLAIN ANALYZE SELECT 1", "EXPLAIN (ANALYZE) SELECT 1", "EXPLAIN\n--c\nANALYZE SELECT 1", "EXPLAIN"):
        refusal(sql, may_explain=True)


def test_with_nests_three_deep_and_no_deeper():
    def nested(levels):
        return f"WITH x AS ({nested(levels - 1)}) FROM x" if levels else "SELECT 1 AS i"

    assert relations_of(nested(3)) == {}
    assert "nested" in refusal(nested(4)).message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "NOT " * 3000 + "true",
        "SELECT " + "CASE WHEN true THEN " * 500 + "1" + " END" * 500,
        "SELECT 1" + "::INT" * 4000,
        "SELECT 1" + " UNION SELECT 1" * 1500,
        "SELECT 1" + " + 1" * 6000,
    ],
)
def test_deep_statements_are_refused_or_described_and_never_crash(sql):
    try:
        check(sql, relations=RELATIONS)
    except RefusedError as error:
        assert error.message  # noqa: PT017 either answer is clean


def test_a_parameter_is_named_declared_and_used():
    assert relations_of("SELECT role FROM messages WHERE role = $r", parameters=frozenset({"r"})) == {
        "messages": ["role"]
    }
    assert "$r" in refusal("SELECT 1", parameters=frozenset({"r"})).message


def test_refusals_never_quote_the_statement(caplog):
    marked = "zz_marked_value"
    with caplog.at_level(logging.DEBUG):
        error = refusal(f"SELECT '{marked}' FRO messages WHERE")
    assert marked not in error.message + str(error.hint) + caplog.text


def test_the_list_of_typed_functions_is_what_sqlglot_makes_of_the_allow_list():
    shapes = ["", "a", "a, b", "a, b, c", "'day', b", "'day', b, c", "*", "a, lambda x: x", "a, '$.b'", "a, 0.5"]
    made = set()
    for name in sorted(FUNCTIONS):
        for shape in shapes:
            try:
                tree = sqlglot.parse_one(f"SELECT {name}({shape})", dialect="duckdb")
            except SqlglotError:
                continue
            made |= {
                type(node).__name__
                for node in tree.walk()
                if isinstance(node, exp.Func)
                and not isinstance(node, exp.Anonymous | exp.AnonymousAggFunc)
                and not any(known.lower() in FUNCTIONS for known in node.sql_names())
            }
    assert made <= gate._TYPED_FUNCTIONS
