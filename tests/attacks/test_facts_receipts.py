"""Forged receipts: each is named, gets its verdict, and is settled in no reader."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from facts.payments import settled_total
from tests.facts.journal import column
from tests.facts.payment import (
    ED,
    ISSUED_AT,
    K256,
    P256,
    STRANGER,
    asked,
    b64,
    claims,
    decided,
    jws,
    paid,
    paying,
    raw_public,
    requested,
    signer,
    trust,
)

KID = "did:web:api.example#key-1"
TRUE = jws()
HEADER, PAYLOAD, SIGNATURE = TRUE.split(".")
OTHER_PAYLOAD = b64(json.dumps(claims(payer="0xeve")).encode())
JWK = {"kty": "OKP", "crv": "Ed25519", "x": b64(raw_public(STRANGER))}
DOUBLE = json.dumps(claims())[:-1] + ', "payer": "0xeve"}'


def with_header(raw: bytes) -> str:
    """A receipt under this very header, signed with the true key."""
    signed = f"{b64(raw)}.{PAYLOAD}"
    return f"{signed}.{b64(ED.sign(signed.encode()))}"


# The orders of the groups: SEC 2, sections 2.7.2 (P-256) and 2.4.1 (secp256k1).
CURVES = [
    ("ES256", P256, 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551),
    ("ES256K", K256, 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141),
]

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
    "member-twice-with-one-meaning": (jws(json.dumps(claims())[:-1].encode() + b',"version":1}'), "malformed"),
    "member-twice-deep-inside": (jws(json.dumps(claims())[:-1].encode() + b',"x":[{"a":1,"a":1}]}'), "malformed"),
    "header-member-twice": (
        with_header(b'{"alg":"EdDSA","kid":"did:web:api.example#key-1","alg":"EdDSA"}'),
        "malformed",
    ),
    "header-member-twice-escaped": (
        with_header(b'{"alg":"none","kid":"did:web:api.example#key-1","\\u0061lg":"EdDSA"}'),
        "malformed",
    ),
    "header-with-a-byte-order-mark": (
        with_header(b'\xef\xbb\xbf{"alg":"EdDSA","kid":"did:web:api.example#key-1"}'),
        "malformed",
    ),
    "header-utf-16": (with_header(json.dumps({"alg": "EdDSA", "kid": KID}).encode("utf-16")), "malformed"),
    "kid-no-text-can-hold": (jws(kid="\ud800"), "malformed"),
    "payer-no-text-can-hold": (jws(claims(payer="\udfff")), "malformed"),
    "issued-after-the-calendar": (jws(claims(issuedAt=253_402_300_800)), "malformed"),
    "issued-in-milliseconds": (jws(claims(issuedAt=ISSUED_AT * 1000)), "malformed"),
    "issued-before-1970": (jws(claims(issuedAt=-1)), "malformed"),
    "issued-at-a-fraction": (jws(claims(issuedAt=ISSUED_AT + 0.5)), "malformed"),
    "kid-of-another-case": (jws(kid=KID.upper()), "unknown_key"),
    "kid-with-a-space": (jws(kid=f"{KID} "), "unknown_key"),
    "kid-empty": (jws(kid=""), "unknown_key"),
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


def b64decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def as_der(receipt: str) -> str:
    """The same signature as ASN.1 has it, which JWS does not."""
    signed, _, signature = receipt.rpartition(".")
    raw = b64decoded(signature)
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    return f"{signed}.{b64(der)}"


def with_other_s(receipt: str, order: int) -> str:
    """The other signature of the same bytes that everybody can make of one: s becomes n - s."""
    signed, _, signature = receipt.rpartition(".")
    raw = b64decoded(signature)
    return f"{signed}.{b64(raw[:32] + (order - int.from_bytes(raw[32:], 'big')).to_bytes(32, 'big'))}"


@pytest.mark.parametrize(("alg", "key", "order"), CURVES)
def test_a_signature_in_asn1_is_no_jws(alg, key, order):
    by, receipt = trust(signer(key=key, algorithm=alg)), jws(key=key, alg=alg)
    assert outcome(receipt, by) == (["settled"], 1)
    assert outcome(as_der(receipt), by) == (["bad_signature"], 0)
    assert outcome(f"{receipt}{'A' * 4}", by) == (["bad_signature"], 0)


@pytest.mark.parametrize(("alg", "key", "order"), CURVES)
@pytest.mark.parametrize("transaction", ["0xAA01", None])
def test_the_other_signature_that_anybody_can_make_pays_for_nothing_more(alg, key, order, transaction):
    """RFC 7518 has no rule of the low s: both verify, and what settles is the claim, not its signature."""
    by, receipt = trust(signer(key=key, algorithm=alg)), jws(claims(transaction=transaction), key=key, alg=alg)
    other = with_other_s(receipt, order)
    assert other != receipt
    assert outcome(other, by) == (["settled"], 1)
    journal = decided(requested(asked(paid(paying(), receipt))))
    rows = paid(journal, other).end().rows(by)
    assert column(rows, "settlement_verdicts", "verdict") == ["settled", "duplicate"]
    assert settled_total(journal.records, by, asset="usdc") == 10_000


def test_a_curves_key_is_no_other_curves():
    receipt = jws(key=K256, alg="ES256")
    assert outcome(receipt, trust(signer(key=P256, algorithm="ES256"))) == (["bad_signature"], 0)
    assert outcome(receipt, trust(signer(key=ED, algorithm="ES256"))) == (["bad_signature"], 0)


@pytest.mark.parametrize("form", ["", "JWS", "cose", "eip-712"])
def test_a_form_we_do_not_know_is_unsupported(form):
    assert outcome(TRUE, form=form) == (["unsupported_format"], 0)
