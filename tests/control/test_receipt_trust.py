"""The list of who may sign receipts: read whole or refused, and any change of it changes what the tables stand on."""

import json
from dataclasses import replace

import pytest

from control.receipt_trust import RECEIPT_SIGNERS_FILE, load_receipt_signers
from facts.trust import Trust
from polyc.dataroot import DataRoot
from polyc.durable import write_file
from polyc.errors import RefusedError
from projector.meaning import trust_digest
from tests.facts.journal import keyring
from tests.facts.payment import ED, K256, P256, raw_public, signer

ROW = {
    "key_id": "did:web:api.example#1",
    "algorithm": "EdDSA",
    "public_key": raw_public(ED).hex(),
    "resource_prefix": "https://api.example/",
}
NO_POINT = "02" + "ff" * 32


def loaded(tmp_path, content: bytes):
    root = DataRoot(tmp_path)
    write_file(root.path / RECEIPT_SIGNERS_FILE, content, mode=0o600)
    return load_receipt_signers(root)


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("EdDSA", raw_public(ED)),
        ("ES256", raw_public(P256)),
        ("ES256K", raw_public(K256)),
        ("eip712", bytes(range(20))),
    ],
)
def test_a_key_of_each_algorithm_is_listed(tmp_path, algorithm, key):
    row = ROW | {"algorithm": algorithm, "public_key": key.hex(), "revoked_at_index": 0}
    (found,) = loaded(tmp_path, json.dumps([row]).encode())
    assert (found.algorithm, found.public_key, found.revoked_at_index) == (algorithm, key, 0)


def test_without_a_file_nobody_may_sign(tmp_path):
    assert load_receipt_signers(DataRoot(tmp_path)) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"algorithm": "ed25519"},
        {"algorithm": "none"},
        {"algorithm": "ES256"},
        {"algorithm": "eip712"},
        {"algorithm": "ES256K", "public_key": NO_POINT},
        {"public_key": ""},
        {"public_key": "zz"},
        {"public_key": raw_public(ED).hex()[:-2]},
        {"key_id": ""},
        {"resource_prefix": ""},
        {"valid_from_index": -1},
        {"revoked_at_index": 2**70},
        {"revoked_at_index": 1.5},
        {"note": "unknown"},
    ],
    ids=repr,
)
def test_a_row_that_could_settle_nothing_or_is_not_understood_is_refused(tmp_path, change):
    with pytest.raises(RefusedError, match=RECEIPT_SIGNERS_FILE):
        loaded(tmp_path, json.dumps([ROW, ROW | change]).encode())


@pytest.mark.parametrize("text", ['[{"key_id":"a",' + json.dumps(ROW)[1:] + "]", "{}", "", "[", "[1]"])
def test_a_text_that_says_two_things_or_none_is_refused(tmp_path, text):
    with pytest.raises(RefusedError, match="does not fit"):
        loaded(tmp_path, text.encode())


@pytest.mark.parametrize(
    "changed",
    [
        {"revoked_at_index": 0},
        {"revoked_at_index": 1},
        {"valid_from_index": 1},
        {"resource_prefix": "https://b.example"},
    ],
)
def test_any_change_of_a_signer_has_the_tables_folded_anew(changed):
    def digest(listed):
        return trust_digest(Trust(keys=keyring(), receipt_signers=(listed,)), size=100)

    assert digest(signer()) == digest(replace(signer()))
    assert digest(signer()) != digest(replace(signer(), **changed))
