"""Every answer of a participant equals the answer of a naive engine that holds only its scope.

Generated archives of several conversations, more than two hundred statement shapes; the oracle is a bare in-memory
DuckDB over the fold's rows, filtered by partition *before* the statement runs.
"""

import contextlib
import itertools
import random

import duckdb
import pyarrow as pa
import pytest

from artifacts.reader import Reader
from artifacts.schema import arrow_schema
from artifacts.store import DirectoryStore
from facts import events as e
from facts.codec import encode
from polyc.published import EdgeTrust
from query_plane.names import spec
from tests.query_plane.cores import Journal, ask, core_of, run
from tests.query_plane.deployment import NOON, SECRET

COLUMNS = {
    "messages": ("role", "text", "message_id", "position", "occurred_at"),
    "turns": ("turn_id", "status", "turn_index", "duration_ms", "position"),
    "usage": ("model", "input_tokens", "output_tokens", "call_id", "position"),
    "tool_calls": ("name", "action", "block_type", "arguments", "position"),
    "model_call": ("model", "call_id", "latency_ms", "stop_reason", "position"),
}
SHAPES = (
    "SELECT * FROM {t} ORDER BY partition, position",
    "SELECT {a}, {b} FROM {t} ORDER BY partition, position",
    "SELECT count(*), count({a}), count(DISTINCT {b}) FROM {t}",
    "SELECT {a}, count(*) AS n FROM {t} GROUP BY {a} ORDER BY {a} NULLS LAST",
    "SELECT DISTINCT {a} FROM {t} ORDER BY 1 NULLS LAST",
    "SELECT min({a}), max({b}) FROM {t}",
    "SELECT {a} FROM {t} WHERE {b} IS NOT NULL ORDER BY partition, position",
    "SELECT x.{a}, y.{b} FROM {t} x JOIN {t} y USING (partition, position) ORDER BY partition, position",
    "SELECT x.{a} FROM {t} x, {t} y WHERE x.position < y.position ORDER BY x.partition, x.position, y.partition, y.position",
    "WITH c AS (SELECT {a}, {b}, position, partition FROM {t}) SELECT {a} FROM c ORDER BY partition, position",
    "SELECT {a}, row_number() OVER (PARTITION BY partition ORDER BY position) AS r FROM {t} ORDER BY partition, position",
    "SELECT (SELECT count(*) FROM {t}), {a} FROM {t} ORDER BY partition, position LIMIT 3",
    "SELECT partition, {a} FROM {t} UNION ALL SELECT partition, {b}::VARCHAR FROM {t} ORDER BY ALL",
    "FROM {t} SELECT partition, list({a} ORDER BY position) GROUP BY partition ORDER BY partition",
)  # fmt: skip


def statements():
    for table, columns in COLUMNS.items():
        pairs = list(itertools.pairwise(columns))[:3]
        for shape, (a, b) in itertools.product(SHAPES, pairs):
            sql = shape.format(t=table, a=a, b=b)
            yield sql.replace(f"{a} FROM {table} UNION", f"{a}::VARCHAR FROM {table} UNION")


class Archive:
    """Generated conversations of two people, some shared; published, and as plain tables beside it."""

    def __init__(self, deployment, seed: int) -> None:
        chance = random.Random(seed)
        self.people = (f"ada-{seed}", f"bob-{seed}")
        self.scopes: dict[str, set[str]] = {person: set() for person in self.people}
        control = deployment.control
        for person in self.people:
            control.ensure_persona(person)
        for number in range(chance.randint(4, 6)):
            partition = f"conv-oracle-{seed}-{number}"
            present = self.people[number % 3 : number % 3 + 1] or self.people  # ada's, bob's, shared, and again
            opened = e.ConversationOpened(
                id=deployment.id(), occurred_at=NOON, origin="live", conversation_id=partition
            )
            deployment.author("control").append(partition, [encode(opened)])
            for person in present:
                control.join(partition, person)
                self.scopes[person].add(partition)
            for turn in range(chance.randint(1, 4)):
                words = [chance.choice(("tide", "ferry", "", "Kai", "0")) for _ in range(chance.randint(1, 4))]
                texts = [f"{SECRET if present == self.people[1:] else word} {turn}" for word in words]
                deployment.turn(partition, f"t{turn}", texts, end=chance.random() < 0.8)
        deployment.project()
        self.tables = _tables(deployment)


def _tables(deployment) -> dict[str, pa.Table]:
    """Every row of the newest generation, by table."""
    trust = EdgeTrust(deployment.root.published, deployment.root.policy(), clock=deployment.clock)
    reader = Reader(
        DirectoryStore(deployment.root.artifacts),
        keys=lambda: trust.bundle().keys,
        clock=deployment.clock,
        ids=deployment.ids,
    )
    generation = reader.latest()
    tables = {}
    for table in COLUMNS:
        rows = generation.admit(spec(table), partitions=generation.partitions())
        tables[table] = rows.cast(arrow_schema(spec(table)))
    reader.release()
    return tables


@pytest.fixture(scope="module", params=[1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 6))])
def archive(deployment, request) -> Archive:
    """One generated archive; the soak run makes five."""
    return Archive(deployment, request.param)


def oracle(archive, partitions, sql):
    with duckdb.connect(":memory:") as engine:
        engine.execute("SET TimeZone='UTC'")
        for name, rows in archive.tables.items():
            kept = [partition in partitions for partition in rows.column("partition").to_pylist()]
            engine.register(name, rows.filter(pa.array(kept, pa.bool_())))
        return engine.sql(sql).to_arrow_table()


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_two_hundred_shapes_answer_as_an_engine_that_holds_only_the_scope(deployment, loop, archive, step):
    shapes = list(statements())
    assert len(shapes) >= 200
    ada, _bob = archive.people
    for number, sql in enumerate(shapes[::step]):
        person = archive.people[number % 2]
        answer = answer_of(loop, deployment.grant(person), sql)
        compare(answer, oracle(archive, archive.scopes[person], sql), sql)
        if person == ada:
            assert SECRET not in str(answer.columns), sql


def test_an_answer_of_another_scope_would_be_seen(deployment, loop, archive):
    ada, bob = archive.people
    shapes = list(statements())[::42]
    seen = []
    for sql in shapes:
        answer = answer_of(loop, deployment.grant(ada), sql)
        with contextlib.suppress(AssertionError):
            compare(answer, oracle(archive, archive.scopes[bob], sql), sql)
            continue
        seen.append(sql)
    assert seen == shapes


def test_a_scope_that_is_scanned_answers_as_an_engine_that_holds_only_the_scope(deployment, archive):
    ada, _bob = archive.people

    async def answers(token):
        async with core_of(deployment, Journal(deployment.journal), admission_size_bytes_max=-1) as core:
            return [table_of(await ask(core, token, sql, want="arrow")) for sql in list(statements())[::21]]

    for answer, sql in zip(run(answers(deployment.grant(ada))), list(statements())[::21], strict=True):
        compare(answer, oracle(archive, archive.scopes[ada], sql), sql)


def test_the_fleet_answers_as_an_engine_that_holds_everything(deployment, loop, archive):
    token = deployment.grant("root-admin", admin=True)
    everything = {name for rows in archive.tables.values() for name in rows.column("partition").to_pylist()}
    for sql in list(statements())[::17]:
        compare(answer_of(loop, token, sql), oracle(archive, everything, sql), sql)


def answer_of(loop, token, sql) -> pa.Table:
    return table_of(loop.run(ask(loop.core, token, sql, want="arrow")))


def table_of(frames) -> pa.Table:
    stream = frames[0].arrow + b"".join(frame.body for frame in frames[1:-1]) + frames[-1].arrow
    return pa.ipc.open_stream(stream).read_all()


def compare(answer: pa.Table, expected: pa.Table, sql: str) -> None:
    """By position: two columns may have one name."""
    assert [column.to_pylist() for column in answer.columns] == [column.to_pylist() for column in expected.columns], sql


def test_explain_shows_no_path(deployment, loop):
    token = deployment.grant("root-admin", admin=True)
    for sql in (
        "EXPLAIN SELECT * FROM messages",
        "EXPLAIN SELECT text FROM messages WHERE role = 'user' ORDER BY position",
    ):
        frames = loop.run(ask(loop.core, token, sql))
        assert str(deployment.root.path).encode() not in frames[1].body
        assert b".parquet" not in frames[1].body
