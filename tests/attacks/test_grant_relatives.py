"""No relative of a good grant passes, each is refused by the rule it breaks, and all refusals read the same."""

import json

import pytest

from polyc import grants
from polyc.grants import Grant, GrantRefusedError, Inline
from polyc.keyring import KeyRing
from tests.attacks.grant_relatives import HEADERS, NOW_S, RELATIVES, Forge
from tests.support.deployment_keys import DeploymentKeys
from tests.support.shared import shared_path

KEYS = DeploymentKeys()


def verify(token: str, *, now_s: int = NOW_S, size: int = 10, keys: KeyRing = KEYS.ring) -> Grant:
    return grants.verify(token, keys=keys, size=size, now_us=now_s * 1_000_000)


def test_the_good_grant_passes_and_is_what_mint_writes() -> None:
    forge = Forge(KEYS.signers["grant"])
    grant = verify(forge.good())
    assert grant.scope == Inline(partitions=("conv-a", "conv-b"))
    assert grants.mint(grant, signer=KEYS.signers["grant"]) == forge.good()


def test_an_empty_scope_passes_and_admits_nothing() -> None:
    assert verify(Forge(KEYS.signers["grant"]).with_claims(scope=[])).scope == Inline(partitions=())


@pytest.mark.parametrize("name", RELATIVES)
def test_a_relative_is_refused_by_the_rule_it_breaks(name: str) -> None:
    make, reason = RELATIVES[name]
    token = make(Forge(KEYS.signers["grant"]))
    with pytest.raises(GrantRefusedError) as caught:
        verify(token)
    assert caught.value.reason == reason
    assert caught.value.message == "the bearer is not a valid grant"
    assert token[:40] not in f"{caught.value!r}{caught.value.hint}"


@pytest.mark.parametrize("name", HEADERS)
def test_exactly_one_well_formed_bearer_header(name: str) -> None:
    headers, reason = HEADERS[name]
    if reason is None:
        assert grants.bearer_of(headers) == "T"
        return
    with pytest.raises(GrantRefusedError) as caught:
        grants.bearer_of(headers)
    assert caught.value.reason == reason


def test_every_row_of_the_shared_list_has_a_relative_here() -> None:
    rows = [json.loads(line) for line in shared_path("cases", "grants.jsonl").read_text().splitlines()]
    wanted = {row["name"]: row["want"] for row in rows}
    refused = {name for name, want in wanted.items() if want.startswith("refuse")}
    answered = set(RELATIVES) | {name for name, (_, reason) in HEADERS.items() if reason is not None}
    assert refused <= answered
    assert {name for name, want in wanted.items() if want == "accept"} == {
        "ok",
        "authorization: bearer T (lower case scheme)",
        "BEARER T",
    }
    assert set(wanted) - answered <= {"ok", "scope-empty", "authorization: bearer T (lower case scheme)", "BEARER T"}


def test_a_grant_ends_at_exp_without_leeway_and_starts_with_it() -> None:
    token = Forge(KEYS.signers["grant"]).with_claims(iat=NOW_S, exp=NOW_S + 300)
    assert verify(token, now_s=NOW_S - 5).issued_at_s == NOW_S
    assert verify(token, now_s=NOW_S + 299).expires_at_s == NOW_S + 300
    for now_s in (NOW_S - 6, NOW_S + 300, NOW_S + 305):
        with pytest.raises(GrantRefusedError):
            verify(token, now_s=now_s)


@pytest.mark.parametrize("role", ["control", "root", "query", "log"])
def test_a_key_of_another_role_mints_nothing(role: str) -> None:
    with pytest.raises(GrantRefusedError) as caught:
        verify(Forge(KEYS.signers[role]).good())
    assert caught.value.reason == "key"


def test_a_key_outside_its_range_mints_nothing() -> None:
    keys = DeploymentKeys("rotation")
    token = Forge(keys.signers["grant"]).good()
    keys.append(keys.revoked(keys.signers["grant"], from_index=50))
    assert verify(token, size=49, keys=keys.ring)
    with pytest.raises(GrantRefusedError) as caught:
        verify(token, size=50, keys=keys.ring)
    assert caught.value.reason == "key"


def test_the_largest_inline_scope_fits_in_four_kilobytes() -> None:
    names = tuple(sorted(f"conv-{i:064d}" for i in range(32)))
    grant = Grant(
        credential_id="01980000-0000-7000-8000-000000000001",
        subject="a" * 64,
        realm="participant",
        scope=Inline(partitions=names),
        issued_at_s=NOW_S,
        expires_at_s=NOW_S + 300,
    )
    assert verify(grants.mint(grant, signer=KEYS.signers["grant"])) == grant


def test_an_independent_jose_library_reads_our_grant() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from joserfc import jws as jose
    from joserfc.jwk import OKPKey

    signer = KEYS.signers["grant"]
    pem = Ed25519PublicKey.from_public_bytes(signer.public_key).public_bytes(
        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    )
    read = jose.deserialize_compact(Forge(signer).good(), OKPKey.import_key(pem), algorithms=["Ed25519"])
    assert json.loads(read.payload)["sub"] == "ada"
