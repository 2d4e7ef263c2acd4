"""Receipts signed as EIP-712 typed data: verified where the extra is installed, else of an unsupported form."""

import json
import subprocess
import sys

import pytest

from facts import eip712
from facts.receipts import ReceiptError, verify
from facts.trust import ReceiptSigner
from tests.facts.payment import NETWORK, PAYER, RESOURCE
from tests.support.ethereum import eth_account

ADDRESS = bytes.fromhex("1a642f0e3c3af545e7acbd38b07251b3990914f1")  # of the private key 01…01
PAYLOAD = {
    "version": 1,
    "network": NETWORK,
    "resourceUrl": RESOURCE,
    "payer": PAYER,
    "issuedAt": 1_793_534_410,
    "transaction": "0xAA01",
}
SIGNER = ReceiptSigner(
    key_id="shop", algorithm="eip712", public_key=ADDRESS, resource_prefix="https://api.example", revoked_at_index=100
)


def receipt(payload=PAYLOAD, *, name="x402 receipt", chain=1, key=b"\x01" * 32):
    account = eth_account()[0].from_key(key)
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
    assert verdict(receipt(chain=8453)) == "unknown_key", "the chain id is 1 on every network"
    assert verdict(receipt(key=b"\x02" * 32)) == "unknown_key"
    assert verdict(receipt(), index=100) == "revoked_key"
    assert verdict(receipt(PAYLOAD | {"resourceUrl": "https://api.example.evil/x"})) == "unknown_key"
    assert verdict(json.dumps(true | {"signature": "0x" + "00" * 65})) == "bad_signature"
    assert verdict(json.dumps(true | {"signature": true["signature"] + "00"})) == "bad_signature"
    assert verdict(json.dumps(true | {"payload": PAYLOAD | {"extra": 1}})) == "bad_signature"
    assert verdict(json.dumps(true | {"payload": PAYLOAD | {"network": "solana:main"}})) == "unknown_key"
    assert verdict(json.dumps({"payload": PAYLOAD})) == "malformed"
    assert verdict("not json") == "malformed"


def test_the_payload_names_any_network():
    solana = PAYLOAD | {
        "network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        "payer": "7S3P4HxJpyyigGzodYwHtCxZyUQe9JiBM",
    }
    assert verdict(receipt(solana)).network == solana["network"]


@pytest.mark.parametrize("name", PAYLOAD)
def test_every_member_of_the_schema_is_there(name):
    true = json.loads(receipt())
    less = {member: value for member, value in PAYLOAD.items() if member != name}
    assert verdict(json.dumps(true | {"payload": less})) in ("malformed", "bad_signature")


@pytest.mark.parametrize("changes", [{"version": "1"}, {"version": True}, {"issuedAt": -1}, {"issuedAt": "1"}])
def test_members_of_other_types_are_malformed(changes):
    assert verdict(json.dumps(json.loads(receipt()) | {"payload": PAYLOAD | changes})) == "malformed"


def test_the_digest_is_the_one_that_the_standard_prescribes():
    """EIP-712 by hand over the extension's schema (§5.3), with nothing of the library but its hash and curve."""
    account, _ = eth_account()
    keccak = pytest.importorskip("eth_utils").keccak
    receipt_type = (
        "Receipt(uint256 version,string network,string resourceUrl,string payer,uint256 issuedAt,string transaction)"
    )
    domain_type = "EIP712Domain(string name,string version,uint256 chainId)"

    def struct(form, *values):
        words = [v.to_bytes(32, "big") if isinstance(v, int) else keccak(text=v) for v in values]
        return keccak(keccak(text=form) + b"".join(words))

    domain = struct(domain_type, "x402 receipt", "1", 1)
    digest = keccak(b"\x19\x01" + domain + struct(receipt_type, *PAYLOAD.values()))
    signed = account.unsafe_sign_hash(digest, b"\x01" * 32)
    text = json.dumps({"payload": PAYLOAD, "signature": f"0x{bytes(signed.signature).hex()}"})
    assert verdict(text).key_id == f"0x{ADDRESS.hex()}"


def test_without_the_extra_the_form_is_unsupported(monkeypatch):
    monkeypatch.setattr(eip712, "available", lambda: False)
    assert verdict("{}") == "unsupported_format"


@pytest.mark.parametrize(
    ("imported", "kept"), [("from facts import eip712; eip712.library()", True), ("import eth_account", False)]
)
def test_the_library_may_not_let_this_process_recurse_without_an_end(imported, kept):
    """The second case is the library's own way, which is why there is a rule."""
    eth_account()
    program = f"import sys; before = sys.getrecursionlimit(); {imported}; print(sys.getrecursionlimit() == before)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told == f"{kept}\n"


TWO_AT_ONCE = """
import sys, threading
from facts import eip712
before = sys.getrecursionlimit()
first = threading.Thread(target=eip712.library)
first.start()
while sys.getrecursionlimit() == before and first.is_alive():
    pass
eip712.library()  # begins while the first one's import has raised the limit
first.join()
print(sys.getrecursionlimit() == before)
"""


def test_who_imports_it_beside_another_keeps_the_same_limit():
    eth_account()
    told = subprocess.run([sys.executable, "-c", TWO_AT_ONCE], capture_output=True, text=True, check=True).stdout
    assert told == "True\n"
