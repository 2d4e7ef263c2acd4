"""The edge over HTTP: the reference's call, literally; statuses that fit; frames; limits; types."""

import json

import httpx
import pyarrow as pa
import pytest

from polyc.errors import PolycError
from query_plane.answer import IncompleteAnswerError
from query_plane.client import Client
from tests.query_plane.deployment import SECRET
from tests.query_plane.edge import DESCRIBE, EXECUTE, frames, rows
from tests.support.shared import shared_path


def test_the_reference_call_gives_schema_rows_and_trailer(edge):
    response = edge.sql("SELECT model, COUNT(*) AS turns FROM model_call GROUP BY model")
    schema, batch, trailer = frames(response)
    assert response.status_code == 200
    assert schema == {
        "schema": {"columns": [{"name": "model", "type": "VARCHAR"}, {"name": "turns", "type": "BIGINT"}]}
    }
    assert batch == {"batch": {"rows": [["model-x", 1]]}}
    assert trailer["trailer"]["truncated"] is False
    assert trailer["trailer"]["row_count"] == 1


def test_a_participant_sees_its_conversations_and_the_fleet_all(edge):
    assert rows(edge.sql("SELECT DISTINCT partition FROM messages")) == [["conv-a"]]
    token = edge.token(admin=True)
    assert rows(edge.sql("SELECT DISTINCT partition FROM messages ORDER BY 1", token=token)) == [["conv-a"], ["conv-b"]]


def test_an_unfinished_turn_is_in_no_answer(edge):
    for token in (edge.token(), edge.token(admin=True)):
        assert rows(edge.sql("SELECT text FROM messages WHERE text LIKE '%never finished%'", token=token)) == []


def test_a_view_is_read_over_the_callers_own_rows(edge):
    assert rows(edge.sql("SELECT partition, name FROM actions")) == [["conv-a", "shell"]]


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("SELECT * FROM signer_keys", 404, "not_found"),
        ("SELECT * FROM nowhere", 404, "not_found"),
        ("DELETE FROM messages", 400, "invalid_argument"),
        ("SELECT", 400, "invalid_argument"),
        ("", 400, "invalid_argument"),
        ("SELECT nam FROM tool_calls", 400, "invalid_argument"),
        ("SELECT text::INT FROM messages", 400, "invalid_argument"),
        ("SELECT 9223372036854775807 + 1", 400, "out_of_range"),
        ("SELECT sum(text) FROM messages", 400, "invalid_argument"),
        ("SELECT '" + "x" * 40_000 + "'", 400, "invalid_argument"),
    ],
)
def test_a_refusal_before_the_first_frame_has_its_status_and_a_json_body(edge, sql, status, code):
    response = edge.sql(sql)
    body = response.json()
    assert (response.status_code, body["code"]) == (status, code)
    assert set(body) <= {"code", "message", "hint"}
    assert "hello from ada" not in response.text


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Basic x"},
        {"authorization": "Bearer a b"},
        {"authorization": "Bearer " + "a" * 70_000},
    ],
)
def test_a_bearer_that_is_none_is_401_and_never_500(edge, headers):
    response = httpx.post(edge.url + EXECUTE, content=b'{"sql":"SELECT 1"}', headers=headers)
    assert response.status_code in {401, 400, 431}
    assert response.status_code == 401 or len(headers["authorization"]) > 60_000


def test_two_authorization_headers_are_refused(edge):
    pairs = [("authorization", f"Bearer {edge.token()}"), ("authorization", f"Bearer {edge.token()}")]
    assert httpx.post(edge.url + EXECUTE, content=b'{"sql":"SELECT 1"}', headers=pairs).status_code == 401


def test_the_schemes_case_does_not_matter(edge):
    assert edge.sql("SELECT 1", headers={"authorization": f"BEARER {edge.token()}"}).status_code == 200


def test_the_form_content_type_is_for_execute_alone(edge):
    assert edge.post({}, path=DESCRIBE).status_code == 415
    assert edge.post({}, path=DESCRIBE, content_type="application/json").status_code == 200
    assert edge.sql("SELECT 1", content_type="text/plain").status_code == 415


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "multipart/form-data", "application/proto"])
def test_a_content_type_that_is_not_spoken_is_told_which_is(edge, kind):
    response = edge.sql("SELECT 1", content_type=kind)
    assert (response.status_code, response.json()["hint"]) == (415, "send application/json")


@pytest.mark.parametrize("deadline", ["abc", "-1", "", "1.5"])
def test_a_deadline_that_is_none_is_refused(edge, deadline):
    assert edge.sql("SELECT 1", headers={"connect-timeout-ms": deadline}).status_code == 400
    assert edge.sql("SELECT 1", headers={"connect-timeout-ms": "20000"}).status_code == 200


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SHOW TABLES", "polyc tables"),
        ("DESCRIBE messages", "polyc tables TABLE"),
        ("SUMMARIZE messages", "aggregates"),
        ("EXPLAIN ANALYZE SELECT 1", "EXPLAIN alone"),
        ("PIVOT messages ON role USING count(*)", "give an IN list to PIVOT"),
        ("SELECT * FROM mesages", 'did you mean "messages"?'),
        ("SELECT * FROM signer_key", "lists the tables"),
        ("SELECT txt FROM messages", 'did you mean "text"?'),
        ("SELECT zzqx", "lists the columns"),
        ("SELECT cout(1)", "did you mean count()?"),
        ("SELECT 1; SELECT 2", "one by one"),
        ("SELECT $a", "parameters"),
        ("SELECT text::INT FROM messages", "TRY_CAST"),
        ("SELECT role FROM messages m, messages n", "table.column"),
        ("SELECT role, count(*) FROM messages", "GROUP BY ALL"),
    ],
)
def test_a_refusal_says_what_to_write_instead(edge, sql, hint):
    assert hint in edge.sql(sql).json()["hint"]


def test_a_get_executes_nothing(edge):
    headers = {"authorization": f"Bearer {edge.token()}"}
    assert httpx.get(edge.url + EXECUTE, params={"sql": "SELECT 1"}, headers=headers).status_code == 405


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b'{"sql":1}',
        b'{"sql":"SELECT 1","extra":1}',
        b'{"sql":"SELECT 1"',
        b"\xff",
        b'{"sql":"SELECT 1","parameters":[]}',
    ],
)
def test_a_body_that_is_not_a_request_is_400(edge, body):
    assert edge.post(body).status_code == 400


def test_the_catalog_lists_what_the_grant_may_name_and_nothing_else(edge):
    mine = edge.client().catalog()
    fleet = edge.client(admin=True).catalog()
    names = {table.name for table in mine.tables}
    assert {"turns", "messages", "actions"} <= names < {table.name for table in fleet.tables}
    assert "signer_keys" not in names
    assert all(table.realm == "participant" for table in mine.tables)
    assert "upper" in mine.functions
    for table in mine.tables:
        edge.client().rows(f"SELECT * FROM {table.name} LIMIT 1")


def test_every_example_of_the_catalog_runs(edge):
    client = edge.client(admin=True)
    for table in client.catalog().tables:
        if table.example:
            client.query(table.example)


@pytest.mark.parametrize(("limit", "sent", "truncated"), [(5, 5, True), (10, 10, False), (11, 10, False), (0, 0, True)])
def test_the_row_limit_says_whether_it_cut(edge, limit, sent, truncated):
    answer = edge.client().query("SELECT * FROM range(10)", row_limit=limit)
    assert (len(answer.rows), answer.trailer.row_count, answer.trailer.truncated) == (sent, sent, truncated)
    assert answer.trailer.reason == ("row_limit" if truncated else "")


def test_the_header_lowers_the_row_limit_and_never_raises_it(edge):
    low = edge.sql("SELECT * FROM range(10)", headers={"polychrome-row-limit": "3"})
    assert len(rows(low)) == 3
    body = {"sql": "SELECT * FROM range(10)", "row_limit": 2}
    assert len(rows(edge.post(body, headers={"polychrome-row-limit": "5"}))) == 2


def test_ten_thousand_rows_are_the_default(edge):
    answer = edge.client().query("SELECT * FROM range(10000000000)")
    assert (len(answer.rows), answer.trailer.truncated) == (10_000, True)


def test_the_byte_limit_cuts_on_a_row_border(edge):
    answer = edge.client().query("SELECT repeat('x', 1000000) AS x FROM range(200)")
    assert (answer.trailer.truncated, answer.trailer.reason) == (True, "byte_limit")
    assert 30 < len(answer.rows) < 70
    assert all(len(row[0]) == 1_000_000 for row in answer.rows)


def test_an_error_after_the_first_frame_comes_as_the_last_line(edge):
    response = edge.sql("SELECT CASE WHEN i = 9000 THEN error('boom') ELSE i END FROM range(10000) t(i)")
    assert response.status_code == 200
    assert frames(response)[-1]["error"]["code"] == "invalid_argument"
    with pytest.raises(PolycError):
        edge.client().query("SELECT CASE WHEN i = 9000 THEN error('boom') ELSE i END FROM range(10000) t(i)")


def test_parameters_are_values_and_never_text_of_the_statement(edge):
    sql = "SELECT $a AS a, $b AS b, $c AS c, $d AS d"
    answer = edge.client().rows(sql, parameters={"a": "x' OR 1=1 --", "b": 7, "c": [1, 2], "d": None})
    assert answer == [["x' OR 1=1 --", 7, [1, 2], None]]


def test_an_arrow_answer_is_one_ipc_stream_with_its_trailer_in_it(edge):
    answer = edge.client().query("SELECT i FROM range(5) t(i)", want="arrow", row_limit=3)
    assert answer.arrow().column("i").to_pylist() == [0, 1, 2]
    assert (answer.trailer.truncated, answer.trailer.row_count) == (True, 3)
    raw = edge.sql("SELECT 1 AS a", headers={"accept": "application/vnd.apache.arrow.stream"})
    assert pa.ipc.open_stream(raw.content).read_all().to_pylist() == [{"a": 1}]


def test_an_answer_without_its_trailer_is_no_answer(edge):
    whole = edge.sql("SELECT 1").content
    cut = whole[: whole.rindex(b'{"trailer"')]
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, content=cut))
    with pytest.raises(IncompleteAnswerError):
        Client("http://edge", "token", transport=transport).query("SELECT 1")


def test_a_binary_answer_that_is_cut_is_no_answer(edge):
    headers = {"accept": "application/vnd.apache.arrow.stream"}
    whole = edge.sql("SELECT * FROM range(100)", headers=headers).content
    for length in range(8, len(whole) - 8, 16):
        content = whole[:length]
        transport = httpx.MockTransport(lambda _request, content=content: httpx.Response(200, content=content))
        with pytest.raises(IncompleteAnswerError):
            Client("http://edge", "token", transport=transport).query("SELECT 1", want="arrow")


def test_every_line_survives_readers_that_split_at_unicode_line_ends(edge):
    text = edge.sql("SELECT 'a' || chr(8232) || chr(133) || chr(8233) || 'b' AS x").content.decode()
    assert len(text.splitlines()) == 3
    assert json.loads(text.splitlines()[1])["batch"]["rows"] == [["a\u2028\x85\u2029b"]]


TYPES = [
    ("i64", [["9007199254740993", "9223372036854775807", "-9223372036854775808"]]),
    ("hugeint", [["170141183460469231731687303715884105727", "27670116110564327421"]]),
    ("uhugeint", [["340282366920938463463374607431768211455"]]),
    ("decimal", [["12345678901234567890123456789012345.678", "0.10", "0.001"]]),
    ("ts", [["2026-03-14T09:00:00.123456Z", "2026-03-29T00:30:00Z", "2026-03-14T09:00:00.123456789Z", "1969-12-31T23:59:59Z"]]),
    ("time", [["24:00:00", "12:00:00+05:30", "00:00:00.000001"]]),
    ("uuid", [["5d0c7a10-0000-4000-8000-000000000001"]]),
    ("enum", [["b"]]),
    ("norows", []),
    ("nocols-wide", [[1]]),
    ("biglist", [[list(range(100_000))]]),
    ("variant", [["42"]]),
    ("geo-time", [["1970-01-01T00:00:00Z", "+10000-01-01T00:00:00Z"]]),
    ("limit-zero", []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), TYPES)
def test_each_type_arrives_exactly(edge, name, expected):
    cases = {}
    for line in shared_path("cases", "transport.jsonl").read_text().splitlines():
        case = json.loads(line)
        cases[case["id"]] = case["sql"]
    response = edge.sql(cases[name])
    first, *_rest, last = frames(response)
    assert "schema" in first
    assert last["trailer"]["truncated"] is False
    assert rows(response) == expected
    assert edge.client().query(cases[name], want="arrow").arrow().num_rows == len(expected)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1 AS a, 2 AS a, 3 AS A", [[1, 2, 3]]),
        ("SELECT 'NaN'::DOUBLE AS x, 'inf'::DOUBLE AS y, '-inf'::FLOAT AS z", [["NaN", "Infinity", "-Infinity"]]),
        ("SELECT json_object('x', 'NaN'::DOUBLE) AS j", [['{"x":NaN}']]),
        ("SELECT INTERVAL '1 month 2 days' AS i", [["1 month 2 days"]]),
        ("SELECT MAP {[1]: 'a'} AS m", [[[[[1], "a"]]]]),
        ("SELECT 'infinity'::TIMESTAMP AS t, '-infinity'::DATE AS d", [["infinity", "-infinity"]]),
        ("SELECT '\\xAA'::BLOB AS b, '101'::BIT AS c", [["qg==", "101"]]),
        ("SELECT NULL AS n, [NULL] AS l", [[None, [None]]]),
        ("SELECT {'a': 340282366920938463463374607431768211455::UHUGEINT} AS s", [["{'a': 340282366920938463463374607431768211455}"]]),
    ],
)  # fmt: skip
def test_awkward_values_arrive_exactly(edge, sql, expected):
    assert rows(edge.sql(sql)) == expected


def test_an_order_survives_the_projection_of_inexact_types(edge):
    answer = edge.client().rows("SELECT i, INTERVAL (i) DAY AS d FROM range(5000) t(i) ORDER BY hash(i)")
    plain = edge.client().rows("SELECT i FROM range(5000) t(i) ORDER BY hash(i)")
    assert [row[0] for row in answer] == [row[0] for row in plain]


def test_another_persons_text_is_in_no_answer_and_no_error(edge):
    for sql in (
        "SELECT text::INT FROM messages",
        "SELECT * FROM messages",
        "SELECT error(text) FROM messages",
        "SELECT text::UUID FROM messages m, messages n",
    ):
        assert SECRET not in edge.sql(sql).text
