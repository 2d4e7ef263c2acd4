"""A marked bearer and marked rows: every error is provoked, and neither mark is in a log, an error, a metric or the audit.

Also: the hostile relatives of a good grant, over HTTP; each is 401, none is 500, and no body is read.
"""

import logging

import httpx

from polyc.signing import load_signer
from tests.attacks.grant_relatives import RELATIVES, Forge
from tests.query_plane.conftest import deployment, edge  # noqa: F401 the fixtures of the folder that has the edge
from tests.query_plane.edge import DESCRIBE, EXECUTE

PROVOKING = (
    "SELECT text::INT FROM messages",
    "SELECT strptime(text, '%Y') FROM messages",
    "SELECT error(text) FROM messages",
    "SELECT text::UUID FROM messages",
    "SELECT text::DATE FROM messages",
    "SELECT json_extract(text, '$.a') FROM messages",
    "SELECT regexp_matches(text, text || '(') FROM messages",
    "SELECT (SELECT text FROM messages)",
    "SELECT list_transform([text], lambda x: x::INT) FROM messages",
    "SELECT CASE WHEN text LIKE 'h%' THEN error(text) END FROM messages",
    "SELECT text::ENUM('a') FROM messages",
    "SELECT struct_pack(a := text).b FROM messages",
    "SELECT 1 FROM messages WHERE text = 1",
    "SELECT chr(text::INT) FROM messages",
    "SELECT * FROM '/etc/passwd'",
    "SELECT",
    "SELECT * FROM hidden",
)
ROW = "hello from ada"


def test_no_error_log_metric_or_audit_row_holds_a_cell_or_the_bearer(edge, caplog, capfd):  # noqa: F811 the fixture
    token = edge.token()
    with caplog.at_level(logging.DEBUG):
        for sql in PROVOKING:
            response = edge.sql(sql, token=token)
            if response.status_code != 200:
                assert ROW not in response.text, sql
            assert token not in response.text
        edge.sql("SELECT 1", token=token[:-4] + "AAAA")
        metrics = httpx.get(edge.url + "/metrics").text
    edge.deployment.project()
    audit = str(edge.client(admin=True).rows("SELECT * FROM query_audit_intents")) + str(
        edge.client(admin=True).rows("SELECT * FROM query_audit_outcomes")
    )
    told = caplog.text + "".join(capfd.readouterr()) + metrics + audit
    assert token not in told
    assert ROW not in told


def test_every_relative_of_a_good_grant_is_401_at_every_door(edge):  # noqa: F811 the fixture
    forge = Forge(load_signer(edge.deployment.root.keys / "grant.pem"))
    edge.token()  # a fresh list of revocations
    doors = ((EXECUTE, "application/json"), (EXECUTE, "application/connect+json"), (DESCRIBE, "application/json"))
    passed = []
    with httpx.Client(base_url=edge.url) as client:
        for number, (name, (make, _reason)) in enumerate(sorted(RELATIVES.items())):
            bearer = make(forge)
            if not bearer.isprintable() or not bearer.isascii() or bearer != bearer.strip():
                continue  # no HTTP client sends such a header; polyc's own tests judge it
            if len(bearer) > 60_000:
                continue  # the server hangs up before there is an application to ask
            path, kind = doors[number % len(doors)]
            headers = {"authorization": f"Bearer {bearer}", "content-type": kind}
            response = client.post(path, content=b"not even JSON", headers=headers)
            if response.status_code != 401:
                passed.append((name, response.status_code))
    assert passed == []
