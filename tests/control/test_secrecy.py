"""No bearer and no value of a body is in an answer, a log line or a repr; over TLS the cookies are bound to the host."""

import datetime as dt
import logging
import re
import ssl
import threading
from dataclasses import replace

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from starlette.testclient import TestClient

from control import turns
from control.api.table import OPERATIONS
from control.app import create_app
from control.http_face import loopback_face
from control.serve import ControlServer, Listen
from tests.control.deployment_processes import free_pair
from tests.control.serving import POLICY

ORIGIN = "http://127.0.0.1:8420"
MARK = "mark-that-must-not-appear"


@pytest.fixture
def callers(deployment, local):
    context = replace(local.context, redaction=POLICY)
    deployment.open_conversation("conv-a")
    local.ensure_persona("ada")
    local.join("conv-a", "ada")
    _, credential = turns.begin(context, partition="conv-a", persona_id="ada", harness="h", prompt="x")
    bearers = [
        local.create_session("ada").bearer,
        local.create_session("root", admin=True).bearer,
        local.mint_grant(persona="ada")[0],
        credential,
    ]
    with TestClient(create_app(context, loopback_face(8420, query_port=8421)), base_url=ORIGIN) as client:
        yield client, bearers


def test_no_answer_and_no_log_line_quotes_a_bearer_or_a_body(callers, caplog) -> None:
    client, bearers = callers
    caplog.set_level(logging.DEBUG)
    bodies = [b"{}", b'{"%s":"%s"}' % (MARK.encode(), MARK.encode()), b"[" * 5000]
    for operation in OPERATIONS:
        path = re.sub(r"\{[^}]*\}", "x", operation.path)
        for bearer in bearers:
            for body in bodies:
                headers = {"authorization": f"Bearer {bearer}"}
                response = client.request(operation.method, path, content=body, headers=headers)
                said = f"{response.text} {response.headers}"
                assert response.status_code < 500 or response.status_code == 503, (operation.name, response.text)
                assert not any(bearer in said for bearer in bearers), operation.name
                assert MARK not in said, operation.name
    logged = "\n".join(f"{record.getMessage()} {record.args}" for record in caplog.records if record.name != "httpx2")
    assert not any(bearer in logged for bearer in bearers)
    assert MARK not in logged


def certificate(folder) -> tuple:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return folder / "cert.pem", folder / "key.pem"


def test_over_tls_answers_are_strict_and_cookies_bound_to_the_host(local, tmp_path) -> None:
    cert, key = certificate(tmp_path)
    port = free_pair()
    origin = f"https://localhost:{port}"
    listen = Listen(port=port, host="localhost", tls_certificate=cert, tls_key=key, public_origin=origin)
    app = create_app(replace(local.context, redaction=POLICY), listen.face())
    server = ControlServer(app, listen.uvicorn_options())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
        trust = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(verify=trust, base_url=origin, timeout=10) as client:
            health = client.get("/api/health")
            assert health.status_code == 200
            assert health.headers["strict-transport-security"].startswith("max-age=")
            bearer = local.create_session("ada").bearer
            response = client.post("/login", data={"session": bearer}, headers={"origin": origin})
            cookie = response.headers["set-cookie"].lower()
            assert cookie.startswith("__host-polyc_session=")
            assert "secure" in cookie
        with httpx.Client(base_url=f"http://localhost:{port}", timeout=10) as plain, pytest.raises(httpx.HTTPError):
            plain.get("/api/health")
    finally:
        server.should_exit = True
        thread.join(timeout=20)
