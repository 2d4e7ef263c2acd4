"""The Flight SQL door: an ADBC driver reads what the other doors give, under the same grants."""

import asyncio

import pytest

adbc = pytest.importorskip("adbc_driver_flightsql.dbapi", reason="the optional extra `flight` is not installed")

from tests.query_plane.cores import Loop, until  # noqa: E402 the import above decides whether there is anything to test
from tests.query_plane.test_oracle import answer_of, compare, statements  # noqa: E402 as above


@pytest.fixture(scope="module")
def door(shared_loop: Loop):
    async def start():
        from query_plane import flight

        return flight.start(shared_loop.core, port=0)

    made = shared_loop.run(start())
    yield f"grpc://127.0.0.1:{made.port}"
    made.shutdown()


def connected(door, token):
    options = {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
    return adbc.connect(door, db_kwargs=options, autocommit=True)


def test_an_adbc_driver_reads_rows_and_arrow(deployment, loop, door):
    with connected(door, deployment.grant("ada")) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT role, COUNT(*) AS n FROM messages WHERE partition = 'conv-a' GROUP BY role ORDER BY role"
        )
        assert cursor.fetchall() == [("assistant", 1), ("user", 1)]
        cursor.execute("SELECT i FROM range(5000) t(i) ORDER BY i")
        assert cursor.fetch_arrow_table().column("i").to_pylist() == list(range(5000))
    assert loop.journal.outcomes() == [("ok", None), ("ok", None)]


def test_an_adbc_driver_reads_the_suites_statements_as_every_door_gives_them(deployment, loop, door):
    with connected(door, deployment.grant("ada")) as connection, connection.cursor() as cursor:
        for sql in list(statements())[::7]:
            cursor.execute(sql)
            compare(cursor.fetch_arrow_table(), answer_of(loop, deployment.grant("ada"), sql), sql)


def test_an_adbc_driver_sees_the_catalog_of_its_grant(deployment, loop, door):
    with connected(door, deployment.grant("ada")) as connection:
        objects = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        names = {
            t["table_name"] for o in objects for s in o["catalog_db_schemas"] or [] for t in s["db_schema_tables"] or []
        }
        assert "messages" in names
        assert "signer_keys" not in names
        assert connection.adbc_get_table_schema("turns").field("turn_id").name == "turn_id"


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM signer_keys", "DELETE FROM messages", "SELECT text::INT FROM messages", "SELEC"]
)
def test_refusals_are_errors_and_on_record(deployment, loop, door, sql):
    with connected(door, deployment.grant("ada")) as connection, connection.cursor() as cursor:
        with pytest.raises(adbc.Error) as caught:
            cursor.execute(sql)
        assert "hello from ada" not in str(caught.value)
    assert [status for status, _ in loop.journal.outcomes()] == ["refused"]


def test_a_bearer_that_is_none_is_refused_before_anything_runs(loop, door):
    with connected(door, "nonsense") as connection, connection.cursor() as cursor, pytest.raises(adbc.Error):
        cursor.execute("SELECT 1")
    assert loop.journal.events == []


def test_a_reader_that_stalls_loses_its_query(deployment, loop, door, monkeypatch):
    monkeypatch.setattr("query_plane.flight.WRITE_DEADLINE_S", 0.2)
    with connected(door, deployment.grant("ada")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT repeat('x', 100000) AS x FROM range(10000000000)")
        cursor.fetchone()
        loop.run(until(loop.journal.outcomes))
    assert loop.journal.outcomes() == [("cancelled", "canceled")]
    assert loop.core.held == 0


def test_a_reader_that_leaves_cancels_its_query(deployment, loop, door):
    async def ended():
        async with asyncio.timeout(20):
            while not loop.journal.outcomes():  # noqa: ASYNC110 a plain object changes, there is no event to wait for
                await asyncio.sleep(0.01)

    with connected(door, deployment.grant("ada")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT repeat('x', 100000) AS x FROM range(10000000000)")
        cursor.fetchone()
    loop.run(ended())
    assert loop.journal.outcomes()[0][0] in {"cancelled", "ok"}
    assert loop.core.held == 0
