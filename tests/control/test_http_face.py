"""What a request must pass before anything answers it; each rule is shown to refuse, and its neighbour to pass."""

import pytest
from starlette.testclient import TestClient

from control.app import create_app
from control.browser import Browser
from control.http_face import loopback_face
from control.serve import Listen
from polyc.errors import RefusedError

ORIGIN = "http://127.0.0.1:8420"
FACE = loopback_face(8420, query_port=8421)


@pytest.fixture
def client(context):
    with TestClient(create_app(context, FACE), base_url=ORIGIN, follow_redirects=False) as client:
        yield client


def code(response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8420.evil.example", ""])
def test_a_name_that_is_not_ours_reaches_nothing(client, host) -> None:
    assert code(client.get("/api/health", headers={"host": host})) == (403, "permission_denied")
    assert client.get("/api/health", headers={"host": "LOCALHOST:8420"}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:8421", "https://127.0.0.1:8420"])
def test_another_origin_is_refused_even_with_a_session(client, local, origin) -> None:
    headers = {"authorization": f"Bearer {local.create_session('ada').bearer}"}
    assert code(client.post("/api/query/grant", headers={**headers, "origin": origin}))[0] == 403
    assert client.post("/api/query/grant", headers={**headers, "origin": ORIGIN}).status_code == 200


def test_a_cross_site_write_is_refused(client) -> None:
    assert client.post("/api/query/grant", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.post("/api/query/grant", headers={"sec-fetch-site": "same-origin"}).status_code == 401


def test_a_bearer_in_an_address_is_refused(client, local) -> None:
    token, _ = local.mint_grant()
    for text in (local.create_session("ada").bearer, token):
        assert code(client.get(f"/api/health?token={text}"))[0] == 400
        assert code(client.get(f"/api/{text}"))[0] == 400


def test_the_rate_of_an_address_is_bounded_and_recovers(client, deployment, monkeypatch) -> None:
    monkeypatch.setattr("control.http_face.REQUESTS_BURST", 200)
    answers = [client.get("/api/health").status_code for _ in range(220)]
    assert answers[:200] == [200] * 200
    assert answers[-1] == 429
    deployment.clock.advance(seconds=1)
    assert client.get("/api/health").status_code == 200


def test_every_answer_carries_the_policies(client) -> None:
    for response in (
        client.get("/api/health"),
        client.get("/api/none"),
        client.get("/api/health", headers={"host": "x"}),
    ):
        policy = response.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "connect-src 'self' http://127.0.0.1:8421;" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "strict-transport-security" not in response.headers


def login(client, bearer: str, **headers):
    return client.post("/login", data={"session": bearer}, headers={"origin": ORIGIN, **headers})


def test_a_login_sets_a_cookie_that_scripts_and_other_sites_cannot_use(client, local) -> None:
    response = login(client, local.create_session("ada").bearer)
    assert (response.status_code, response.headers["location"]) == (303, "/")
    cookie = response.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/"))


def test_a_login_needs_our_origin_and_a_live_session(client, local) -> None:
    bearer = local.create_session("ada").bearer
    assert client.post("/login", data={"session": bearer}).status_code == 403
    assert login(client, bearer, origin="http://evil.example").status_code == 403
    assert login(client, "pcs_" + "A" * 43).status_code == 401
    assert "set-cookie" not in login(client, "pcs_" + "A" * 43).headers


def test_a_cookie_is_good_for_pages_and_never_for_the_api(client, local) -> None:
    login(client, local.create_session("ada").bearer)
    assert client.post("/api/query/grant", headers={"origin": ORIGIN}).status_code == 401


def request_with(context, cookie: str, **headers):
    from starlette.requests import Request

    raw = [(b"cookie", cookie.encode()), *((k.replace("_", "-").encode(), v.encode()) for k, v in headers.items())]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw, "query_string": b""})


def test_a_form_needs_the_token_of_its_own_session(context, local) -> None:
    browser = Browser(context, FACE)
    ada, bob = (f"polyc_session={local.create_session(name).bearer}" for name in ("ada", "bob"))
    token = browser.csrf_token(request_with(context, ada))
    browser.check_csrf(request_with(context, ada, origin=ORIGIN), {"csrf": token})
    browser.check_csrf(request_with(context, ada, origin=ORIGIN, x_csrf_token=token), {})
    for request, form in (
        (request_with(context, ada, origin=ORIGIN), {}),
        (request_with(context, bob, origin=ORIGIN), {"csrf": token}),
        (request_with(context, ada), {"csrf": token}),
        (request_with(context, ada, origin="http://evil.example"), {"csrf": token}),
        (request_with(context, ada, origin=ORIGIN), {"csrf": token[:-1]}),
    ):
        with pytest.raises(RefusedError):
            browser.check_csrf(request, form)


def test_two_cookies_of_our_name_are_none(context, local) -> None:
    bearer = local.create_session("ada").bearer
    browser = Browser(context, FACE)
    assert browser.session_of(request_with(context, f"a=b; polyc_session={bearer}")).persona_id == "ada"
    with pytest.raises(RefusedError):
        browser.session_of(request_with(context, f"polyc_session={bearer}; polyc_session=pcs_x"))


@pytest.mark.parametrize(
    "changes",
    [
        {"host": "0.0.0.0"},
        {"host": "example.org"},
        {"host": "0.0.0.0", "public_origin": "https://polychrome.example"},
        {"host": "0.0.0.0", "public_origin": "http://polychrome.example", "trusted_proxy": "10.0.0.1"},
        {"host": "0.0.0.0", "public_origin": "https://polychrome.example/x", "trusted_proxy": "10.0.0.1"},
        {"trusted_proxy": "10.0.0.1"},
        {"tls_certificate": "cert.pem", "public_origin": "https://polychrome.example"},
    ],
)
def test_an_open_address_without_protection_is_refused_before_the_socket(changes) -> None:
    with pytest.raises(RefusedError) as caught:
        Listen(**changes).face()
    assert caught.value.code == "failed_precondition"


def test_a_protected_address_has_secure_cookies(context) -> None:
    listen = Listen(host="0.0.0.0", public_origin="https://polychrome.example", trusted_proxy="10.0.0.1")
    face = listen.face()
    assert face.is_secure
    assert face.hosts == {"polychrome.example"}
    assert Browser(context, face).cookie == "__Host-polyc_session"
    assert Listen().face() == FACE
