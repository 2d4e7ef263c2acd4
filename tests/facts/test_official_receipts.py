"""The extension's own conformance vectors (`vectors/NOTICE.md`), and each format once more with keys of ours.

A receipt of the vectors is verified, a malformed one is not, and a signed *offer* is never a receipt, however true.
"""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from facts.receipts import Receipt, ReceiptError, verify
from facts.trust import ReceiptSigner
from tests.facts.payment import ED, K256, P256, STRANGER, b64, jws, signer

FILE = json.loads((Path(__file__).parent / "vectors" / "x402_offer_receipt.json").read_text())
KEY, VECTORS = FILE["key"], {vector["name"]: vector for vector in FILE["vectors"]}
SEED = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(KEY["seed_hex"]))
SIGNER = ReceiptSigner(
    key_id=KEY["kid"],
    algorithm="EdDSA",
    public_key=bytes.fromhex(KEY["public_key_hex"]),
    resource_prefix="https://example.com",
)
NOT_OF_THE_KEY = {"offer_wrong_key", "offer_tampered_payload", "offer_truncated_signature", "offer_alg_confusion_hs256"}


def input_of(vector):
    """What the vector's signature covers."""
    parts = (json.dumps(vector[part], separators=(",", ":")).encode() for part in ("header", "payload"))
    return ".".join(map(b64, parts))


def verdict(text, *signers):
    try:
        return verify("jws", text, signers=signers or (SIGNER,), index=1)
    except ReceiptError as error:
        return error.verdict


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_is_judged_as_its_makers_say(name):
    vector = VECTORS[name]
    signature = vector["signature"]
    text = input_of(vector) if signature is None else f"{input_of(vector)}.{signature}"
    found = verdict(text)
    assert isinstance(found, Receipt) if vector["as_receipt"] == "verified" else found == vector["as_receipt"]


def test_the_verified_vector_says_what_its_payload_says():
    vector = VECTORS["receipt_valid"]
    found, payload = verdict(f"{input_of(vector)}.{vector['signature']}"), vector["payload"]
    assert (found.network, found.resource, found.payer) == (
        payload["network"],
        payload["resourceUrl"],
        payload["payer"],
    )
    assert (found.issued_at_s, found.transaction) == (payload["issuedAt"], payload["transaction"])


@pytest.mark.parametrize("name", [name for name, vector in VECTORS.items() if vector["signature"]])
def test_the_texts_are_byte_for_byte_those_that_were_signed(name):
    """Ed25519 is deterministic: the published seed gives the published signature over the text put together here."""
    vector = VECTORS[name]
    same = b64(SEED.sign(input_of(vector).encode())) == vector["signature"]
    assert same == (name not in NOT_OF_THE_KEY)


# Each way in which the vectors break an offer, done to the valid receipt: there the verdict is the break's own.
BROKEN = {
    "wrong_key": (lambda v: jws(v["payload"], key=STRANGER, kid=KEY["kid"]), "bad_signature"),
    "tampered_payload": (lambda v: f"{input_of(v | {'payload': v['payload'] | {'payer': '0x33'}})}.{v['signature']}",
                         "bad_signature"),
    "truncated_signature": (lambda v: f"{input_of(v)}.{v['signature'][:43]}", "malformed"),
    "missing_version": (lambda v: jws({k: x for k, x in v["payload"].items() if k != "version"}, key=SEED,
                                      kid=KEY["kid"]), "malformed"),
    "missing_network": (lambda v: jws({k: x for k, x in v["payload"].items() if k != "network"}, key=SEED,
                                      kid=KEY["kid"]), "malformed"),
    "no_kid": (lambda v: jws(v["payload"], key=SEED, kid=None), "malformed"),
    "two_segments": (input_of, "malformed"),
    "alg_none": (lambda v: f"{input_of(v | {'header': {'alg': 'none', 'kid': KEY['kid']}})}.", "unsupported_format"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_receipt_broken_like_the_vectors_is_refused(name):
    make, expected = BROKEN[name]
    assert verdict(make(VECTORS["receipt_valid"])) == expected


KEYS = {"EdDSA": (ED, "OKP"), "ES256": (P256, "EC"), "ES256K": (K256, "EC")}


def jwk_of(algorithm, key):
    """The public half as a JSON Web Key, written down by another way than the verifier's."""
    if algorithm == "EdDSA":
        return {"kty": "OKP", "crv": "Ed25519", "x": b64(key.public_key().public_bytes_raw())}
    numbers = key.public_key().public_numbers()
    curve = {"ES256": "P-256", "ES256K": "secp256k1"}[algorithm]
    x, y = (b64(n.to_bytes(32, "big")) for n in (numbers.x, numbers.y))
    return {"kty": "EC", "crv": curve, "x": x, "y": y}


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_jwk_that_is_the_trusted_key_changes_nothing(algorithm):
    key, _ = KEYS[algorithm]
    text = jws(key=key, alg=algorithm, header={"jwk": jwk_of(algorithm, key) | {"use": "sig"}})
    assert isinstance(verdict(text, signer(key=key, algorithm=algorithm)), Receipt)


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_jwk_that_is_another_key_is_refused_although_the_trusted_key_signed(algorithm):
    key, kty = KEYS[algorithm]
    true = jwk_of(algorithm, key)
    stranger = {"kty": "OKP", "crv": "Ed25519", "x": b64(STRANGER.public_key().public_bytes_raw())}
    for jwk in (stranger, {}, None, "text", {"kty": kty}, true | {"x": true["x"][:-1]}, true | {"crv": "P-384"}):
        text = jws(key=key, alg=algorithm, header={"jwk": jwk})
        assert verdict(text, signer(key=key, algorithm=algorithm)) == "bad_signature"


def test_a_trusted_key_that_is_no_point_of_its_curve_signs_nothing():
    broken = ReceiptSigner(
        key_id="k", algorithm="ES256", public_key=b"\x02" + b"\xff" * 32, resource_prefix="https://api.example"
    )
    text = jws(key=P256, alg="ES256", kid="k", header={"jwk": jwk_of("ES256", P256)})
    assert verdict(text, broken) == "bad_signature"
