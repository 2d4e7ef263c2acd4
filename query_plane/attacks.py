"""What a sealed worker and the gate must withstand: tried at every start of the edge, and in tests.

`{key}` stands for a private key's file, `{outside}` for a file that was not admitted, `{folder}` for a folder.
The list grows with every idea that anybody has; a name says what would be lost.
"""

from typing import Final, NamedTuple


class Attack(NamedTuple):
    """One statement that must fail."""

    name: str
    sql: str


# Against the engine's seal: the gate is not asked.
ON_THE_SEAL: Final = (
    Attack("reads a key as text", "SELECT * FROM read_text('{key}')"),
    Attack("reads a key as bytes", "SELECT * FROM read_blob('{key}')"),
    Attack("reads a key as CSV", "SELECT * FROM read_csv('{key}', header=false, columns={{'a': 'VARCHAR'}})"),
    Attack("reads a file by name", "SELECT * FROM '{outside}'"),
    Attack("reads a file that was not admitted", "SELECT * FROM read_parquet('{outside}')"),
    Attack("reads a file's description", "SELECT * FROM parquet_metadata('{outside}')"),
    Attack("reads a file in dynamic SQL", "SELECT * FROM query('FROM read_text(''{key}'')')"),
    Attack("reads a file as JSON", "SELECT * FROM read_json('{key}')"),
    Attack("sniffs a file", "SELECT * FROM sniff_csv('{key}')"),
    Attack("lists a folder", "SELECT * FROM glob('{folder}/*')"),
    Attack("writes a file", "COPY (SELECT 1) TO '{folder}/polyc-self-test.csv'"),
    Attack("exports the database", "EXPORT DATABASE '{folder}/polyc-self-test'"),
    Attack("attaches a file", "ATTACH '{folder}/polyc-self-test.db' AS stolen"),
    # What changes temporary objects passes, and harms nobody: the process answers one caller and dies; the gate
    # refuses it all the same.
    Attack("creates a table", "CREATE TABLE stolen AS SELECT 1"),
    Attack("changes a relation inside WITH", "WITH d AS (DELETE FROM probe RETURNING *) SELECT * FROM d"),
    Attack("opens the engine to files again", "SET enable_external_access=true"),
    Attack("admits more files", "SET allowed_directories=['/']"),
    Attack("unlocks the configuration", "SET lock_configuration=false"),
    Attack("raises its memory", "SET memory_limit='64GB'"),
    Attack("raises its time", "SET max_execution_time=0"),
    Attack("spills to disk", "SET temp_directory='{folder}'"),
    Attack("installs an extension", "INSTALL httpfs"),
    Attack("loads an extension", "LOAD httpfs"),
    Attack("reads from the network", "SELECT * FROM read_csv('http://127.0.0.1:9/x')"),
    Attack("keeps a secret", "CREATE PERSISTENT SECRET s (TYPE http)"),
    Attack("reads a Python variable", "SELECT * FROM python_variable"),
)

# Against the gate: each must be refused before anything is bound.
ON_THE_GATE: Final = (
    Attack("attaches a database", "ATTACH ':memory:' AS stolen"),
    Attack("replaces an admitted relation", "CREATE OR REPLACE TEMP VIEW messages AS SELECT 2 AS i"),
    Attack("drops an admitted relation", "DROP VIEW messages"),
    Attack(
        "hides a join behind zero-width characters",
        "SELECT * FROM messages \u200bCROSS\u200bJOIN\u200bquery('SELECT 42')",
    ),
    Attack(
        "hides a relation behind a WITH name", "SELECT sql FROM (WITH h AS (SELECT 1) SELECT 1 FROM h) x, sqlite_master"
    ),
    Attack("names a hidden table", "SELECT * FROM query_audit_of_others"),
    Attack("names a catalogue", "SELECT * FROM information_schema.tables"),
    Attack("runs text", "FROM query_table('messages')"),
    Attack("runs serialized text", "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 7'))"),
    Attack("shows tables in a sub-query", "SELECT * FROM (SHOW TABLES)"),
    Attack("shows tables as a value", "SELECT (SHOW TABLES)"),
    Attack("explains and runs", "EXPLAIN ANALYZE SELECT 1"),
    Attack("reads the environment", "SELECT getenv('HOME')"),
    Attack("reads settings", "SELECT current_setting('allowed_paths')"),
    Attack("sleeps", "SELECT pg_sleep(60)"),
    Attack("quotes a function's name", "SELECT * FROM \"read_text\"('/etc/passwd')"),
    Attack("stacks statements", "SELECT 1; DROP VIEW messages"),
    Attack("changes data inside WITH", "WITH d AS (DELETE FROM messages RETURNING *) SELECT * FROM d"),
)
