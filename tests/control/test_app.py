"""The HTTP face: the reference's two calls, one shape of errors, checks in their order, and no room for SQL."""

import json

import pytest
from starlette.testclient import TestClient

from control import grants_api
from control.api.table import OPERATIONS
from control.app import create_app
from control.http_face import loopback_face
from polyc.published import EdgeTrust


@pytest.fixture
def client(context):
    with TestClient(
        create_app(context, loopback_face(8420, query_port=8421)), base_url="http://127.0.0.1:8420"
    ) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_the_references_call_mints_a_grant_an_edge_admits(client, local, deployment) -> None:
    session = local.create_session("ada")
    response = client.post("/api/query/grant", headers=bearer(session.bearer))
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    answer = response.json()
    assert set(answer) == {"token", "expires_at_ms"}
    trust = EdgeTrust(deployment.root.published, deployment.keys.policy, clock=deployment.clock)
    assert trust.grant_of(answer["token"]).subject == "ada"


def test_each_kind_of_session_mints_its_own_kind_of_grant(client, local) -> None:
    persona, admin = local.create_session("ada"), local.create_session("ada", admin=True)
    assert client.post("/api/query/admin-grant", headers=bearer(admin.bearer)).status_code == 200
    for path, session in (("/api/query/admin-grant", persona), ("/api/query/grant", admin)):
        response = client.post(path, headers=bearer(session.bearer))
        assert response.status_code == 403
        assert response.json()["code"] == "permission_denied"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "Bearer T"), ("authorization", "Bearer T")],
        [("authorization", "Basic T")],
        [("authorization", "Bearer")],
        [("authorization", "Bearer " + "A" * 70_000)],
        [("cookie", "session=T")],
        [("authorization", b"Bearer \xe4")],
    ],
)
def test_anything_but_one_live_bearer_is_401(client, headers) -> None:
    response = client.post("/api/query/grant", headers=headers)
    assert response.status_code == 401
    assert response.json()["code"] == "unauthenticated"
    assert response.headers["www-authenticate"] == "Bearer"


def test_a_grant_is_no_session_and_a_session_no_grant(client, local) -> None:
    token, _ = local.mint_grant()
    assert client.post("/api/query/grant", headers=bearer(token)).status_code == 401


def test_the_bearer_is_checked_before_the_body(client) -> None:
    response = client.post("/api/query/grant", content=b"x" * 2_000_000)
    assert response.status_code == 401


def test_a_body_where_none_belongs_is_refused(client, local) -> None:
    headers = bearer(local.create_session("ada").bearer)
    assert client.post("/api/query/grant", headers=headers, content=b"{}").status_code == 200
    response = client.post("/api/query/grant", headers=headers, json={"sql": "SELECT 1"})
    assert response.status_code == 400
    assert "SELECT" not in response.text
    assert client.post("/api/query/grant", headers=headers, content=b"x" * 2_000_000).status_code == 429


def test_no_operation_takes_sql() -> None:
    for operation in OPERATIONS:
        fields = json.dumps(operation.body.model_json_schema()) if operation.body else ""
        assert "sql" not in fields.lower(), operation.name
        assert "sql" not in operation.path


def test_health_keys_and_revocations_are_public(client, deployment) -> None:
    assert client.get("/api/health").json() == {"status": "ok", "size": deployment.journal.size()}
    keys = client.get("/api/keys").json()
    assert [key["kid"] for key in keys["keys"]] == [deployment.keys.signers["grant"].key_id.hex()]
    assert client.get("/api/revocations").json()["revocations"].count(".") == 2


def test_an_unknown_path_or_method_has_the_same_shape(client) -> None:
    for response in (client.get("/api/nothing"), client.put("/api/health")):
        assert response.status_code == 404
        assert response.json()["code"] == "not_found"


def test_a_bug_tells_nothing_but_that_it_is_one(client, local, context, monkeypatch, caplog) -> None:
    session = local.create_session("ada")

    def broken(*_arguments: object, **_named: object) -> None:
        raise KeyError(session.bearer)

    monkeypatch.setattr(grants_api, "record_credential", broken)  # which Control's heartbeat does not use
    response = client.post("/api/query/grant", headers=bearer(session.bearer))
    assert response.status_code == 500
    assert response.json()["code"] == "internal"
    assert session.bearer not in response.text + caplog.text
