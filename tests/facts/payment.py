"""Receipts made with real keys, and conversations that pay."""

import base64
import json

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from facts import events as e
from facts.trust import ReceiptSigner, Trust
from tests.facts.journal import NOON, Journal, keyring

RESOURCE = "https://api.example/data"
NETWORK = "eip155:8453"
PAYER = "0x857b06519E91e3A54538791bDbb0E22373e36b66"
ISSUED_AT = int(NOON.timestamp()) + 10
ED = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
P256 = ec.derive_private_key(7, ec.SECP256R1())
K256 = ec.derive_private_key(7, ec.SECP256K1())
STRANGER = Ed25519PrivateKey.from_private_bytes(b"\x08" * 32)


def raw_public(key) -> bytes:
    """The public half as Trust keeps it."""
    if isinstance(key, Ed25519PrivateKey):
        return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)


def signer(kid="did:web:api.example#key-1", key=ED, algorithm="EdDSA", prefix="https://api.example", **fields):
    return ReceiptSigner(key_id=kid, algorithm=algorithm, public_key=raw_public(key), resource_prefix=prefix, **fields)


def listed(*signers):
    """The text of a `receipt-signers.json` that trusts them."""
    rows = [
        {
            "key_id": known.key_id,
            "algorithm": known.algorithm,
            "public_key": known.public_key.hex(),
            "resource_prefix": known.resource_prefix,
        }
        for known in signers
    ]
    return json.dumps(rows).encode()


def trust(*signers):
    return Trust(keys=keyring(), receipt_signers=signers or (signer(),))


def claims(**changes):
    """A receipt's payload; None leaves a member out."""
    payload = {
        "version": 1,
        "network": NETWORK,
        "resourceUrl": RESOURCE,
        "payer": PAYER,
        "issuedAt": ISSUED_AT,
        "transaction": "0xAA01",
    } | changes
    return {name: value for name, value in payload.items() if value is not None}


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def jws(payload=None, *, key=ED, alg="EdDSA", kid="did:web:api.example#key-1", header=None, sign_as=None):
    """A compact JWS; `header` adds members, `sign_as` signs other bytes than those shown."""
    head = {"alg": alg, "kid": kid} | (header or {})
    shown = payload if isinstance(payload, bytes) else json.dumps(claims() if payload is None else payload).encode()
    signed = f"{b64(json.dumps(head).encode())}.{b64(shown)}"
    return f"{signed}.{b64(sign(key, (sign_as or signed).encode()))}"


def sign(key, message: bytes) -> bytes:
    if isinstance(key, Ed25519PrivateKey):
        return key.sign(message)
    r, s = decode_dss_signature(key.sign(message, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def asked(journal, native="x", dispatch="d1", **fields):
    terms = {
        "amount_base_units": "10000", "asset": "usdc", "network": NETWORK, "payee": "0xshop", "resource": RESOURCE,
        "payer": PAYER, "decimals": 6, "scheme": "exact",
    } | fields  # fmt: skip
    return journal.add(e.PaymentRequired(id="q", dispatch_id=dispatch, tool_call_id=native, **terms), by="edge")


def requested(journal, native="x", dispatch="d1"):
    return journal.add(e.ApprovalRequested(id="a", dispatch_id=dispatch, request_id=native, tool_name="pay"), by="edge")


def decided(journal, native="x", dispatch="d1", outcome="approved"):
    return journal.add(
        e.ApprovalDecided(id="b", dispatch_id=dispatch, request_id=native, outcome=outcome, decided_by="ada"), by="edge"
    )


def paid(journal, receipt, native="x", dispatch="d1", form="jws", **fields):
    return journal.add(
        e.PaymentReceipt(id="p", dispatch_id=dispatch, tool_call_id=native, format=form, receipt=receipt, **fields),
        by="edge",
    )


def dispatched(partition="conv-a", turn="t1", dispatch="d1"):
    return Journal(partition).open().intend(turn, dispatch, persona_id="ada").start(turn)


def paying(partition="conv-a", native="x", **terms):
    """A turn whose call was asked to pay, approved, and not yet paid."""
    journal = dispatched(partition).call(native, name="pay")
    return decided(requested(asked(journal, native, **terms), native), native)
