"""Every function of the pinned engine is allowed or refused by name: an upgrade that brings new ones fails here.

python -m tests.query_plane.test_functions      writes the snapshot anew; read its difference before committing it
"""

from pathlib import Path

import duckdb

from query_plane.functions import FUNCTIONS, OPERATORS, TABLE_FUNCTIONS, fold

SNAPSHOT = Path(__file__).parent / "snapshots" / "duckdb_functions.txt"


def verdicts() -> str:
    with duckdb.connect(":memory:") as engine:
        found = engine.execute("SELECT DISTINCT function_type, function_name FROM duckdb_functions()").fetchall()
    lines = set()
    for kind, name in found:
        is_table = kind in {"table", "table_macro"}
        names = TABLE_FUNCTIONS if is_table else frozenset() if kind == "pragma" else FUNCTIONS | OPERATORS
        lines.add(f"{'allowed' if fold(name) in names else 'refused'} {kind} {name}")
    return "".join(f"{line}\n" for line in sorted(lines))


def test_the_engine_is_the_one_that_was_tried():
    assert duckdb.__version__ == "2.0.1"


def test_every_function_of_the_engine_has_its_verdict():
    assert verdicts() == SNAPSHOT.read_text(encoding="utf-8")


def test_no_allowed_function_is_unknown_to_the_engine():
    known = {fold(line.split(" ", 2)[2]) for line in verdicts().splitlines()}
    spelled_otherwise = {"->", "unnest"}  # the arrow is syntax; unnest is bound, not looked up
    assert known >= (FUNCTIONS | OPERATORS | TABLE_FUNCTIONS) - spelled_otherwise


def test_what_tells_of_the_host_the_session_or_runs_text_is_refused():
    named = {
        "query", "query_table", "read_parquet", "read_csv", "read_text", "glob", "getenv", "current_setting", "nextval",
        "version", "txid_current", "current_user", "sleep_ms", "pg_sleep", "write_log", "json_serialize_sql",
        "json_execute_serialized_sql", "current_query", "duckdb_settings", "parquet_metadata", "sniff_csv",
    }  # fmt: skip
    assert not named & (FUNCTIONS | TABLE_FUNCTIONS)


if __name__ == "__main__":
    SNAPSHOT.write_text(verdicts(), encoding="utf-8")
