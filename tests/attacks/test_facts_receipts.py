"""Forged receipts: each is named, gets its verdict, and is settled in no reader."""

import json

import pytest

from facts.payments import settled_total
from tests.facts.journal import column
from tests.facts.payment import (
    ED,
    ISSUED_AT,
    K256,
    P256,
    STRANGER,
    b64,
    claims,
    jws,
    paid,
    paying,
    raw_public,
    signer,
    trust,
)

TRUE = jws()
HEADER, PAYLOAD, SIGNATURE = TRUE.split(".")
OTHER_PAYLOAD = b64(json.dumps(claims(payer="0xeve")).encode())
JWK = {"kty": "OKP", "crv": "Ed25519", "x": b64(raw_public(STRANGER))}
DOUBLE = json.dumps(claims())[:-1] + ', "payer": "0xeve"}'

FORGERIES = {
    "payload-swapped-under-a-true-signature": (f"{HEADER}.{OTHER_PAYLOAD}.{SIGNATURE}", "bad_signature"),
    "signed-by-a-stranger": (jws(key=STRANGER), "bad_signature"),
    "signed-by-the-jwk-it-brings": (jws(key=STRANGER, header={"jwk": JWK}), "bad_signature"),
    "unknown-key-with-its-own-jwk": (jws(key=STRANGER, kid="did:key:eve", header={"jwk": JWK}), "unknown_key"),
    "signature-empty": (f"{HEADER}.{PAYLOAD}.", "bad_signature"),
    "signature-cut": (f"{HEADER}.{PAYLOAD}.{b64(b'x' * 63)}", "bad_signature"),
    "signature-of-other-bytes": (jws(sign_as="polychrome"), "bad_signature"),
    "alg-none": (f"{b64(json.dumps({'alg': 'none', 'kid': 'k'}).encode())}.{PAYLOAD}.", "unsupported_format"),
    "alg-HS256-with-the-public-key": (jws(alg="HS256"), "unsupported_format"),
    "alg-of-another-key": (jws(key=P256, alg="ES256"), "bad_signature"),
    "alg-a-list": (jws(alg=["EdDSA"]), "malformed"),
    "kid-missing": (jws(kid=None), "malformed"),
    "crit-header": (jws(header={"crit": ["b64"], "b64": False}), "malformed"),
    "padding-added": (f"{HEADER}.{PAYLOAD}.{SIGNATURE}==", "malformed"),
    "last-bits-not-canonical": (TRUE[:-1] + chr(ord(TRUE[-1]) + 1), "malformed"),
    "letters-that-are-no-base64url": (f"{HEADER}.{PAYLOAD}.{SIGNATURE[:-2]}!!", "malformed"),
    "four-parts": (TRUE + ".x", "malformed"),
    "payload-not-json": (jws(b"not json"), "malformed"),
    "payload-nan": (jws(b'{"issuedAt": NaN}'), "malformed"),
    "payload-deep": (jws(b"[" * 5000), "malformed"),
    "member-twice": (jws(DOUBLE.encode()), "malformed"),
    "issued-at-text": (jws(claims(issuedAt=str(ISSUED_AT))), "malformed"),
    "issued-at-true": (jws(claims(issuedAt=True)), "malformed"),
    "network-of-version-1": (jws(claims(network="base")), "malformed"),
    "version-2": (jws(claims(version=2)), "unsupported_format"),
    "too-large": (TRUE + "x" * 20_000, "malformed"),
}


def outcome(receipt, by=None, form="jws"):
    journal = paying()
    paid(journal, receipt, form=form)
    rows = journal.end().rows(by or trust())
    assert settled_total(journal.records, by or trust(), asset="usdc") == sum(
        column(rows, "payments", "amount_base_units")
    )
    return column(rows, "settlement_verdicts", "verdict"), len(rows["payments"])


def test_the_receipt_that_the_forgeries_are_made_of_is_true():
    assert outcome(TRUE) == (["settled"], 1)


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_receipt_is_never_settled(name):
    receipt, verdict = FORGERIES[name]
    assert outcome(receipt) == ([verdict], 0)


@pytest.mark.parametrize(
    ("by", "verdict"),
    [
        (trust(signer(prefix="https://api.example.evil")), "unknown_key"),
        (trust(signer(prefix="https://api.exam")), "unknown_key"),
        (trust(signer(prefix="")), "unknown_key"),
        (trust(signer(revoked_at_index=5)), "revoked_key"),
        (trust(signer(valid_from_index=10_000)), "revoked_key"),
        (trust(signer(kid="another")), "unknown_key"),
        (trust(signer(algorithm="ES256")), "bad_signature"),
        (trust(signer(), signer(prefix="https://other.example")), "settled"),
        (trust(signer(prefix="https://other.example"), signer(revoked_at_index=1), signer()), "settled"),
    ],
)
def test_a_key_counts_for_what_trust_names_it_for(by, verdict):
    assert outcome(TRUE, by)[0] == [verdict]


def test_a_curves_key_is_no_other_curves():
    receipt = jws(key=K256, alg="ES256")
    assert outcome(receipt, trust(signer(key=P256, algorithm="ES256"))) == (["bad_signature"], 0)
    assert outcome(receipt, trust(signer(key=ED, algorithm="ES256"))) == (["bad_signature"], 0)


@pytest.mark.parametrize("form", ["", "JWS", "cose", "eip-712"])
def test_a_form_we_do_not_know_is_unsupported(form):
    assert outcome(TRUE, form=form) == (["unsupported_format"], 0)
