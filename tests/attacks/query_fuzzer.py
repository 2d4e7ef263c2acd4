"""Hostile statements by grammar and by mutation, against the gate alone: what passes it runs with *no* seal around it.

    python -m tests.attacks.query_fuzzer SEED COUNT [FILE OF MORE SEEDS]      prints one JSON line of what it saw

The engine holds marked rows in a relation that is not admitted, may read a marked file, and has a catalogue whose
text is marked; so a statement that slips through the gate shows the mark. The oracle: no answer and no error text that
we would pass on holds a mark, and nothing in the engine changes. (The real worker has a seal on top; here it is off on
purpose.)
"""

import json
import random
import resource
import sys
import tempfile
import unicodedata
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa

from polyc.errors import RefusedError
from query_plane import faults, gate, tree
from query_plane.engine import serialize

MARK = "zvxq-marked"
RELATIONS = {
    "messages": ["partition", "position", "role", "text"],
    "turns": ["partition", "position", "turn_id", "status"],
}
SEEDS = (
    "SELECT role, count(*) FROM messages GROUP BY role ORDER BY 2 DESC LIMIT 3",
    "WITH x AS (SELECT * FROM messages) SELECT x.text FROM x JOIN turns t USING (partition) WHERE t.status = 'completed'",
    "SELECT * FROM (SELECT text FROM messages UNION ALL SELECT status FROM turns) q(v) WHERE v LIKE '%a%'",
    "SELECT (SELECT max(position) FROM turns), [x + 1 for x in [1, 2] if x > 1], {'a': 1}, MAP {'k': 1}",
    "PIVOT messages ON role IN ('user', 'assistant') USING count(*)",
    "SELECT unnest([1, 2]), list_transform([1], lambda x: x + 1) FROM range(3) t(i)",
    "SELECT * FROM json_each('{\"a\": 1}') j, generate_series(1, 3) g(i)",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT * FROM r",
    "SELECT sum(position) OVER (PARTITION BY role ORDER BY position) FROM messages QUALIFY true",
    "SELECT m.text.upper(), text[1:2], text->>'$.a', 'x' || $$y$$ FROM messages m",
    "FROM hidden_rows",
    "SELECT * FROM query('FROM hidden_rows')",
    "SELECT * FROM read_text('{file}')",
    "SELECT sql FROM duckdb_views()",
    "SELECT * FROM (SHOW TABLES)",
    "WITH d AS (DELETE FROM plain RETURNING *) SELECT * FROM d",
    "SELECT 1; DROP TABLE plain",
    "INSERT INTO plain VALUES (2)",
)  # fmt: skip
WORDS = ["SELECT", "FROM", "WHERE", "JOIN", "CROSS", "LATERAL", "UNION", "ALL", "EXCEPT", "INTERSECT", "WITH", "RECURSIVE", "AS", "MATERIALIZED", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "ON", "IN", "USING", "GROUP", "BY", "ORDER", "LIMIT", "OFFSET", "HAVING", "QUALIFY", "DISTINCT", "EXISTS", "NOT", "NULL", "CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "TRY_CAST", "COLUMNS", "EXCLUDE", "REPLACE", "SAMPLE", "ASOF", "POSITIONAL", "NATURAL", "SEMI", "ANTI", "SHOW", "DESCRIBE", "SUMMARIZE", "EXPLAIN", "ANALYZE", "INSERT", "DELETE", "UPDATE", "COPY", "ATTACH", "SET", "PRAGMA", "CALL", "INSTALL", "LOAD", "EXPORT", "INTO", "FOR", "messages", "turns", "hidden_rows", "plain", "sqlite_master", "duckdb_views", "information_schema.tables", "pg_catalog.pg_tables", "main.messages", "memory.main.hidden_rows", "query", "query_table", "read_text", "read_csv", "read_parquet", "glob", "sniff_csv", "parquet_scan", "json_execute_serialized_sql", "getenv", "current_setting", "duckdb_settings", "unnest", "range", "text", "role", "position", "partition", "status", "x", "y", "t", "m", "*", "1", "2", "'a'", "'messages'", "'hidden_rows'", "'FROM", "hidden_rows'", "'{file}'", '"hidden_rows"', '"read_text"', "(", ")", "[", "]", "{", "}", ",", ";", ".", "::", "||", "->", "->>", "=", "<", ">", "+", "-", "@", "#", "?", "$1", "$x", "--", "/*", "*/", "\\", "'", '"', "$$", "E'", "e'\\''", "x'00'", "\n", "\t"]  # fmt: skip
KINDS = ("cannot be parsed", "more than one statement", "not a reading SELECT", "not part of a reading SELECT", "no table function", "no table", "no function", "parameter", "PIVOT needs", "nested", "parsers disagree", "U+", "NUL", "not on the list", "no plain name", "no statement")  # fmt: skip
CTE_NAMES = ("x", "messages", "hidden_rows", '"X"', "Messages")
INVISIBLE = [chr(c) for c in range(0x80, 0x3100) if unicodedata.category(chr(c)) in {"Zs", "Zl", "Zp", "Cf"}] + [
    "\ufeff",
    "\x00",
    "\x0b",
]


class Fuzzer:
    """Makes statements; the same seed makes the same ones."""

    def __init__(self, seed: int, more: list[str], file: str) -> None:
        self.random = random.Random(seed)
        self.seeds = [text.replace("{file}", file) for text in (*SEEDS, *more)]
        self.words = [word.replace("{file}", file) for word in WORDS]

    def statement(self) -> str:
        if self.random.random() < 0.35:
            return self.grown()
        text = self.random.choice(self.seeds)
        for _ in range(self.random.randint(1, 4)):
            text = self.mutated(text)
        return text

    def grown(self) -> str:
        r = self.random
        return f"{self.query(r.randint(0, 3))}{r.choice(['', '', ';', ' -- c', ' /* c */'])}"

    def query(self, depth: int) -> str:
        r = self.random
        if depth == 0:
            return r.choice(
                [
                    "SELECT 1",
                    "FROM messages",
                    "VALUES (1)",
                    "FROM hidden_rows",
                    "TABLE turns",
                    "SHOW TABLES",
                    "FROM query('FROM hidden_rows')",
                ]
            )
        inner = self.query(depth - 1)
        shapes = [
            f"SELECT * FROM ({inner}) a",
            f"WITH {r.choice(CTE_NAMES)} AS ({inner}) {self.query(depth - 1)}",
            f"({inner}) UNION ALL ({self.query(depth - 1)})",
            f"SELECT ({inner})",
            f"SELECT 1 WHERE EXISTS ({inner})",
            f"SELECT * FROM messages, LATERAL ({inner}) l",
            f"SELECT text FROM messages WHERE text IN ({inner})",
            f"SELECT list(x) FROM ({inner}) t(x)",
            f"SELECT * FROM {r.choice(self.words)} WHERE {r.choice(self.words)} = ({inner})",
        ]
        return r.choice(shapes)

    def mutated(self, text: str) -> str:
        r = self.random
        position = r.randint(0, len(text))
        match r.randint(0, 8):
            case 0:
                return text[:position] + r.choice(INVISIBLE) + text[position:]
            case 1:
                return text[:position] + " " + r.choice(self.words) + " " + text[position:]
            case 2:
                words = text.split(" ")
                words[r.randrange(len(words))] = r.choice(self.words)
                return " ".join(words)
            case 3:
                other = r.choice(self.seeds)
                return text[:position] + other[r.randint(0, len(other)) :]
            case 4:
                return text[:position] + text[position + r.randint(1, 6) :]
            case 5:
                return f"SELECT * FROM ({text}) z"
            case 6:
                return text.replace(" ", r.choice(["\n", "/**/", r.choice(INVISIBLE), "--\n", "  "]), r.randint(1, 3))
            case 7:
                return f"WITH {r.choice(['messages', 'hidden_rows', 'q'])} AS ({text}) {r.choice(self.seeds)}"
            case _:
                return (
                    text.swapcase()
                    if r.random() < 0.3
                    else text + r.choice([";", "; SELECT 1", " --", " FOR UPDATE", "/*"])
                )


def fuzz(seed: int, count: int, more: list[str]) -> dict[str, object]:
    """Run this many statements and tell what was seen."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "secret.txt"
        file.write_text(MARK)
        engine = _engine(folder)
        before = _state(engine)
        fuzzer = Fuzzer(seed, more, str(file))
        seen = {"statements": count, "passed": 0, "answered": 0, "refused": Counter(), "findings": []}
        for _ in range(count):
            sql = fuzzer.statement()
            judge = "first parser"
            try:
                statement = gate.check(sql, relations=RELATIONS)
                judge = "second parser"
                tree.check_tree(serialize(engine, sql), relations=statement.relations)
            except RefusedError as error:
                seen["refused"][f"{judge}: {_kind(error)}"] += 1
                _judge(seen, sql, f"{error.message} {error.hint}", folder)
                continue
            except Exception as error:  # neither a pass nor a refusal: the caller would be told of a failure of ours
                seen["findings"].append(f"{judge}: {type(error).__name__}: {sql}")
                continue
            seen["passed"] += 1
            try:
                answer = str(engine.sql(sql).limit(50).fetchall())
                seen["answered"] += 1
            except Exception as error:
                said = faults.explain(error, sql=sql, columns=RELATIONS["messages"])
                answer = f"{said.message} {said.hint}"
            _judge(seen, sql, answer, folder)
        if _state(engine) != before:
            seen["findings"].append("something in the engine changed")
        engine.close()
        return seen


def _kind(error: RefusedError) -> str:
    """The refusal without the caller's own words in it."""
    for kind in KINDS:
        if kind in error.message:
            return kind
    return error.code


def _judge(seen, sql, text, folder):
    """No statement holds the mark, so whoever shows it has read it; a path may be shown to who wrote it."""
    assert MARK not in sql
    if MARK in text or (folder in text and Path(folder).name not in sql):
        seen["findings"].append(sql)


def _engine(folder: str) -> duckdb.DuckDBPyConnection:
    engine = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "512MB", "temp_directory": ""})
    rows = pa.table(
        {
            "partition": ["a"] * 3,
            "position": [1, 2, 3],
            "role": ["user"] * 3,
            "text": ["a", "b", "c"],
            "turn_id": ["t"] * 3,
            "status": ["completed"] * 3,
        }
    )
    engine.register("messages", rows.select(RELATIONS["messages"]))
    engine.register("turns", rows.select(RELATIONS["turns"]))
    engine.execute(f"CREATE TABLE plain AS SELECT '{MARK}' AS text")
    engine.execute(f"CREATE VIEW hidden_rows AS SELECT '{MARK}' AS text, '{folder}' AS place")
    engine.execute("SET max_execution_time=200")
    engine.execute("SET errors_as_json=true")
    return engine


def _state(engine: duckdb.DuckDBPyConnection) -> str:
    tables = engine.execute("SELECT table_name, estimated_size FROM duckdb_tables() ORDER BY 1").fetchall()
    views = engine.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()
    files = engine.execute("SELECT database_name, path FROM duckdb_databases() ORDER BY 1").fetchall()
    return str((tables, views, files, engine.execute("SELECT count(*) FROM plain").fetchall()))


if __name__ == "__main__":
    cpu_s = 30 + int(sys.argv[2]) // 20  # a hang ends here; a machine that is busy elsewhere is none
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    more = Path(sys.argv[3]).read_text(encoding="utf-8").split("\x1e") if len(sys.argv) > 3 else []
    print(json.dumps(fuzz(int(sys.argv[1]), int(sys.argv[2]), more)))
