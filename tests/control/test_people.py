"""Personas, sessions, routines, wallets, tags over HTTP: who may, what is on record, what ends at once."""

import json
import sys
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from facts.events import RoutineRun, RoutineStep
from facts.partition import open_fold
from facts.trust import Trust
from polyc.durable import write_file
from polyc.published import EdgeTrust
from tests.control.harness_programs import PREAMBLE, PROGRAMS
from tests.control.serving import Client, serving
from tests.support.ethereum import eth_account

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def base58(raw: bytes) -> str:
    number, text = int.from_bytes(raw, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = BASE58[digit] + text
    return "1" * (len(raw) - len(raw.lstrip(b"\0"))) + text


@pytest.fixture
def url(deployment, local, tmp_path):
    (tmp_path / "echo.py").write_text(PREAMBLE + PROGRAMS["echo"])
    config = {"echo": {"kind": "subprocess", "command": [sys.executable, str(tmp_path / "echo.py")]}}
    write_file(deployment.root.path / "harnesses.json", json.dumps(config).encode(), mode=0o600)
    with serving(local.context) as url:
        yield url


@pytest.fixture
def ada(url, local) -> Client:
    return Client(url, local.create_session("ada").bearer)


@pytest.fixture
def admin(url, local) -> Client:
    return Client(url, local.create_session("root", admin=True).bearer)


def rows(deployment, partition: str, table: str) -> list:
    fold = open_fold(partition, Trust(keys=deployment.journal.keys))
    for record in deployment.journal.read(partition):
        fold.apply(record)
    return fold.rows().get(table, [])


def history(deployment) -> list:
    now = datetime.fromtimestamp(deployment.clock.now_us() / 1_000_000, UTC)
    partition = f"credentials-{now:%Y%m}"
    return rows(deployment, partition, "credential_history")


def test_an_admin_records_personas_and_makes_their_sessions(admin, url, deployment) -> None:
    assert admin.post("/api/personas", persona_id="eve", display_name="Eve").status_code == 200
    made = admin.post("/api/sessions", persona_id="eve", lifetime_s=60).json()
    eve = Client(url, made["session"])
    assert eve.post("/api/query/grant").status_code == 200
    assert [row["persona_id"] for row in admin.get("/api/personas").json()["personas"]] == ["eve", "root"]
    assert next(row[4:6] for row in rows(deployment, "personas", "personas")) == ("eve", "Eve")
    assert admin.post("/api/sessions", persona_id="eve", is_admin=True).status_code == 403


def test_what_an_admin_does_names_the_session_that_asked_for_it(admin, deployment) -> None:
    admin.post("/api/personas", persona_id="eve", display_name="Eve")
    made = admin.post("/api/sessions", persona_id="eve").json()
    [eve, root] = sorted(rows(deployment, "personas", "personas"), key=lambda row: row[4])
    sessions = {row[6]: row for row in history(deployment) if row[5] == "session"}
    asked_by = sessions["admin:root"][4]
    assert eve[-1] == asked_by
    assert sessions["eve"][4] == made["credential_id"]
    assert sessions["eve"][-1] == asked_by
    # what was asked on the machine itself names nobody
    assert root[-1] is None
    assert sessions["admin:root"][-1] is None


def test_budgets_prices_and_participation_name_the_session_that_asked_for_them(admin, ada, deployment) -> None:
    budget = {"subject_kind": "persona", "subject": "ada", "asset": "usdc", "network": "eip155:1"}
    assert admin.post("/api/budgets", **budget, amount_base_units="5").status_code == 200
    price = {"model": "tiny", "valid_from": "2026-01-01", "currency": "USD", "output_per_million": "2"}
    assert admin.post("/api/prices", **price).status_code == 200
    conversation = ada.open(title="seats")
    session_of = {row[6]: row[4] for row in history(deployment) if row[5] == "session"}
    assert [row[-1] for row in rows(deployment, "budgets", "budgets")] == [session_of["admin:root"]]
    assert [row[-1] for row in rows(deployment, "prices", "prices")] == [session_of["admin:root"]]
    assert [row[-1] for row in rows(deployment, conversation, "persona_participation")] == [session_of["ada"]]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/personas"), ("POST", "/api/personas"), ("POST", "/api/sessions"), ("POST", "/api/budgets"),
     ("POST", "/api/prices"), ("DELETE", "/api/grants/x"), ("POST", "/api/personas/ada/state")],
)  # fmt: skip
def test_an_admins_business_is_refused_to_a_persona(ada, method, path) -> None:
    assert ada.http.request(method, path, json={}).json()["code"] == "permission_denied"


def test_suspending_a_persona_ends_its_session_and_its_grants_at_once(admin, ada, deployment) -> None:
    trust = EdgeTrust(deployment.root.published, deployment.keys.policy, clock=deployment.clock)
    token = ada.post("/api/query/grant").json()["token"]
    assert trust.grant_of(token)
    assert admin.post("/api/personas/ada/state", state="suspended").status_code == 200
    assert ada.post("/api/query/grant").status_code == 401
    with pytest.raises(Exception, match="not a valid grant"):
        trust.grant_of(token)


def test_a_persona_sees_and_ends_its_own_sessions_only(ada, admin, local) -> None:
    mine = ada.get("/api/sessions").json()["sessions"]
    assert {row["subject"] for row in mine} == {"ada"}
    everybodys = admin.get("/api/sessions").json()["sessions"]
    assert {row["subject"] for row in everybodys} == {"ada", "admin:root"}
    others = next(row["credential_id"] for row in everybodys if row["subject"] == "admin:root")
    assert ada.delete(f"/api/sessions/{others}").status_code == 404
    assert ada.delete(f"/api/sessions/{mine[0]['credential_id']}").json() == {"changed": True}
    assert ada.get("/api/sessions").status_code == 401


def test_an_admin_revokes_a_grant_by_its_id(admin, ada, deployment) -> None:
    trust = EdgeTrust(deployment.root.published, deployment.keys.policy, clock=deployment.clock)
    token = ada.post("/api/query/grant").json()["token"]
    grant = trust.grant_of(token)
    assert admin.delete(f"/api/grants/{grant.credential_id}").status_code == 200
    with pytest.raises(Exception, match="not a valid grant"):
        trust.grant_of(token)
    assert admin.delete("/api/grants/unknown").status_code == 404


def test_tags_and_claims_are_on_record_for_participants_only(ada, url, local, deployment) -> None:
    conversation = ada.open()
    assert ada.post(f"/api/conversations/{conversation}/tags", tag="urgent").status_code == 200
    made = ada.post(f"/api/conversations/{conversation}/assertions", kind="note", text="check this").json()
    assert rows(deployment, conversation, "session_tags")
    assert made["assertion_id"] in repr(rows(deployment, conversation, "assertions"))
    bob = Client(url, local.create_session("bob").bearer)
    assert bob.post(f"/api/conversations/{conversation}/tags", tag="x").status_code == 404


def test_a_routine_runs_as_an_ordinary_turn_with_its_steps_on_record(ada, deployment) -> None:
    conversation = ada.open()
    ada.turn(conversation, "echo")
    body = {"routine": "daily-note", "conversation": conversation, "schedule": "every 1h", "prompt": "what is new"}
    assert ada.post("/api/routines", **body).status_code == 200
    assert ada.post("/api/routines/daily-note/run").json() == {"status": "completed"}
    assert len(rows(deployment, conversation, "turns")) == 2
    assert [row[7] for row in rows(deployment, "routines", "routine_runs")] == ["completed"]
    assert [row[6:8] for row in rows(deployment, "routines", "routine_steps")] == [
        ("dispatch", "ok"),
        ("turn", "completed"),
    ]


def test_a_due_routine_runs_by_itself_once(ada, deployment) -> None:
    conversation = ada.open()
    ada.turn(conversation, "echo")
    body = {"routine": "r", "conversation": conversation, "schedule": "every 1m", "prompt": "tick"}
    ada.post("/api/routines", **body)
    deployment.clock.advance(seconds=61)
    ended = []
    while not ended:
        events = deployment.journal.events("routines")
        ended = [event for event in events if isinstance(event, RoutineRun) and event.status == "completed"]
    assert len([event for event in deployment.journal.events("routines") if isinstance(event, RoutineRun)]) == 2
    assert ended[0].trigger == "schedule"


def test_a_routine_of_a_persona_that_left_fails_and_says_so(ada, deployment, local) -> None:
    conversation = ada.open()
    ada.turn(conversation, "echo")
    ada.post("/api/routines", routine="r", conversation=conversation, schedule="daily 07:30", prompt="x")
    local.leave(conversation, "ada")
    assert ada.post("/api/routines/r/run").json() == {"status": "failed"}
    (step,) = [event for event in deployment.journal.events("routines") if isinstance(event, RoutineStep)]
    assert (step.status, step.detail) == ("refused", "not_found")
    assert len(rows(deployment, conversation, "turns")) == 1


def test_a_routine_is_its_owners_and_needs_a_real_schedule(ada, url, local) -> None:
    conversation = ada.open()
    body = {"routine": "r", "conversation": conversation, "schedule": "every 1h", "prompt": "x"}
    assert ada.post("/api/routines", **{**body, "schedule": "sometimes"}).status_code == 400
    assert ada.post("/api/routines", **{**body, "schedule": "every 5s"}).status_code == 400
    assert ada.post("/api/routines", **body).status_code == 200
    bob = Client(url, local.create_session("bob").bearer)
    assert bob.post("/api/routines", **body).status_code == 404
    assert bob.post("/api/routines/r/run").status_code == 404


def test_runs_that_a_crash_left_are_ended_as_failed(deployment, local) -> None:
    from facts import codec

    event = RoutineRun(id="x", run_id="run-1", routine="r", trigger="schedule", status="started")
    deployment.author("control").append("routines", [codec.encode(event)])
    with serving(local.context):
        pass
    assert [row[7] for row in rows(deployment, "routines", "routine_runs")] == ["failed"]


def wallet() -> tuple[Ed25519PrivateKey, str]:
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    return key, base58(key.public_key().public_bytes_raw())


def test_a_wallet_is_linked_by_its_own_signature_and_by_no_other(ada, deployment) -> None:
    key, account = wallet()
    network = "solana:mainnet"
    for signer, linked in ((Ed25519PrivateKey.generate(), False), (key, True)):
        challenge = ada.post("/api/wallets", wallet=account, network=network).json()
        assert "persona: ada" in challenge["text"]
        path = f"/api/wallets/challenges/{challenge['challenge_id']}"
        signature = base58(signer.sign(challenge["text"].encode()))
        assert ada.post(path, signature=signature).json() == {"linked": linked}
        assert ada.post(path, signature=signature).status_code == 404
    assert ada.post("/api/wallets/revoke", wallet=account, network=network).status_code == 200
    assert ada.post("/api/wallets/revoke", wallet=account, network=network).status_code == 404
    assert [row[7] for row in rows(deployment, "wallets", "wallet_link_lifecycle")] == [
        "requested", "challenged", "failed", "requested", "challenged", "linked", "revoked",
    ]  # fmt: skip


def test_a_challenge_is_its_personas_and_ends(ada, url, local, deployment) -> None:
    key, account = wallet()
    challenge = ada.post("/api/wallets", wallet=account, network="solana:mainnet").json()
    path = f"/api/wallets/challenges/{challenge['challenge_id']}"
    signature = base58(key.sign(challenge["text"].encode()))
    bob = Client(url, local.create_session("bob").bearer)
    assert bob.post(path, signature=signature).status_code == 404
    deployment.clock.advance(seconds=601)
    assert ada.post(path, signature=signature).status_code == 404


def test_an_ethereum_wallet_signs_as_eip_191_says(ada, deployment) -> None:
    accounts, messages = eth_account()
    account = accounts.from_key(bytes(range(1, 33)))
    challenge = ada.post("/api/wallets", wallet=account.address, network="eip155:1").json()
    signed = account.sign_message(messages.encode_defunct(text=challenge["text"]))
    path = f"/api/wallets/challenges/{challenge['challenge_id']}"
    assert ada.post(path, signature="0x" + signed.signature.hex().removeprefix("0x")).json() == {"linked": True}


@pytest.mark.parametrize(
    ("network", "account", "code"),
    [("solana:mainnet", "0OIl", "invalid_argument"), ("solana:mainnet", "1111", "invalid_argument"),
     ("eip155:1", "0x12", "invalid_argument"), ("cosmos:hub", "x", "failed_precondition")],
)  # fmt: skip
def test_an_account_that_is_none_is_refused(ada, network, account, code) -> None:
    assert ada.post("/api/wallets", wallet=account, network=network).json()["code"] == code


def test_a_ceremony_in_a_conversation_is_there_for_its_participants(ada, deployment) -> None:
    _, account = wallet()
    conversation = ada.open()
    ada.post("/api/wallets", wallet=account, network="solana:mainnet", conversation=conversation)
    assert [row[7] for row in rows(deployment, conversation, "wallet_link_lifecycle")] == ["requested", "challenged"]


def test_an_admin_sets_prices(admin, deployment) -> None:
    body = {"model": "tiny", "valid_from": "2026-01-01", "currency": "USD", "input_per_million": "1.5"}
    assert admin.post("/api/prices", **body).status_code == 200
    assert admin.post("/api/prices", **{**body, "valid_from": "2026-13-01"}).status_code == 400
    assert len(rows(deployment, "prices", "prices")) == 1
