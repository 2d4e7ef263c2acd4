"""Receipts signed as EIP-712 typed data: verified where the extra is installed, else of an unsupported form."""

import json

import pytest

from facts import eip712
from facts.receipts import ReceiptError, verify
from facts.trust import ReceiptSigner
from tests.facts.payment import NETWORK, PAYER, RESOURCE

ADDRESS = bytes.fromhex("1a642f0e3c3af545e7acbd38b07251b3990914f1")  # of the private key 01…01
PAYLOAD = {
    "network": NETWORK,
    "resourceUrl": RESOURCE,
    "payer": PAYER,
    "issuedAt": 1_793_534_410,
    "transaction": "0xAA01",
}
SIGNER = ReceiptSigner(
    key_id="shop", algorithm="eip712", public_key=ADDRESS, resource_prefix="https://api.example", revoked_at_index=100
)


def receipt(payload=PAYLOAD, *, name="x402 receipt", chain=8453, key=b"\x01" * 32):
    account = pytest.importorskip("eth_account").Account.from_key(key)
    domain = {"name": name, "version": "1", "chainId": chain}
    signed = account.sign_typed_data(domain, eip712.RECEIPT_TYPES, payload)
    return json.dumps({"payload": payload, "signature": f"0x{bytes(signed.signature).hex()}"})


def verdict(text, signer=SIGNER, index=1):
    try:
        return verify("eip712", text, signers=[signer], index=index)
    except ReceiptError as error:
        return error.verdict


def test_a_true_receipt_is_verified():
    found = verdict(receipt())
    assert (found.key_id, found.transaction, found.payer) == (f"0x{ADDRESS.hex()}", "0xAA01", PAYER)


def test_an_empty_transaction_is_none():
    assert verdict(receipt(PAYLOAD | {"transaction": ""})).transaction is None


def test_forgeries_are_named():
    true = json.loads(receipt())
    changed = json.dumps(true | {"payload": PAYLOAD | {"payer": "0xeve"}})
    assert verdict(changed) == "unknown_key", "another payload recovers another signer"
    assert verdict(receipt(name="x402 offer")) == "unknown_key"
    assert verdict(receipt(chain=1)) == "unknown_key"
    assert verdict(receipt(key=b"\x02" * 32)) == "unknown_key"
    assert verdict(receipt(), index=100) == "revoked_key"
    assert verdict(receipt(PAYLOAD | {"resourceUrl": "https://api.example.evil/x"})) == "unknown_key"
    assert verdict(json.dumps(true | {"signature": "0x" + "00" * 65})) == "bad_signature"
    assert verdict(json.dumps(true | {"signature": true["signature"] + "00"})) == "bad_signature"
    assert verdict(json.dumps(true | {"payload": PAYLOAD | {"extra": 1}})) == "bad_signature"
    assert verdict(json.dumps(true | {"payload": PAYLOAD | {"network": "solana:main"}})) == "bad_signature"
    assert verdict(json.dumps({"payload": PAYLOAD})) == "malformed"
    assert verdict("not json") == "malformed"


def test_without_the_extra_the_form_is_unsupported(monkeypatch):
    monkeypatch.setattr(eip712, "available", lambda: False)
    assert verdict("{}") == "unsupported_format"
