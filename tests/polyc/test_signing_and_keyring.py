"""Keys act in their range of the log and nowhere else; private halves are never shown."""

import json

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from polyc import signing
from polyc.durable import write_file
from polyc.errors import CorruptError, RefusedError
from polyc.ids import SeededIds
from polyc.keyring import KeyRing


@pytest.fixture
def ids():
    return SeededIds()


@pytest.fixture
def ring(ids):
    return KeyRing(signing.new_signer(ids).public_key)


def added(signer, **changes):
    fields = {
        "type": "key_added",
        "id": "e",
        "key_id": signer.key_id.hex(),
        "public_key": signer.public_key.hex(),
        "role": "control",
        "from_index": 10,
    }
    return json.dumps(fields | changes).encode()


def revoked(signer, index):
    return json.dumps({"type": "key_revoked", "id": "r", "key_id": signer.key_id.hex(), "from_index": index}).encode()


def test_a_key_holds_its_role_from_its_first_index_on(ids, ring):
    key = signing.new_signer(ids)
    ring.apply(added(key), place="sys-keys:1")
    assert [ring.role_at(key.key_id, index) for index in (9, 10, 11)] == [None, "control", "control"]


def test_revocation_ends_a_key_at_its_index_and_not_before(ids, ring):
    key = signing.new_signer(ids)
    ring.apply(added(key), place="sys-keys:1")
    ring.apply(revoked(key, 20), place="sys-keys:2")
    assert [ring.role_at(key.key_id, index) for index in (19, 20)] == ["control", None]


def test_a_second_revocation_cannot_lengthen_a_life(ids, ring):
    key = signing.new_signer(ids)
    ring.apply(added(key, to_index=15), place="sys-keys:1")
    ring.apply(revoked(key, 20), place="sys-keys:2")
    assert ring.role_at(key.key_id, 15) is None


def test_rotation_overlaps(ids, ring):
    old, new = signing.new_signer(ids), signing.new_signer(ids)
    ring.apply(added(old, to_index=30), place="sys-keys:1")
    ring.apply(added(new, from_index=20), place="sys-keys:2")
    assert [len(ring.of_role("control", index=index)) for index in (15, 25, 30)] == [1, 2, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"public_key": "00" * 32},
        {"key_id": "zz"},
        {"role": "root"},
        {"role": "emperor"},
        {"from_index": "ten"},
    ],
)
def test_a_key_event_that_does_not_fit_is_corrupt(ids, ring, change):
    with pytest.raises(CorruptError):
        ring.apply(added(signing.new_signer(ids), **change), place="sys-keys:1")


def test_a_used_key_id_is_refused(ids, ring):
    key = signing.new_signer(ids)
    ring.apply(added(key), place="sys-keys:1")
    with pytest.raises(CorruptError) as caught:
        ring.apply(added(key, role="edge"), place="sys-keys:2")
    assert caught.value.kind == "key_reuse"


def test_a_key_that_was_never_added_cannot_be_revoked_nor_the_root(ids, ring):
    for key_id in (signing.new_signer(ids).key_id, ring.root.key_id):
        with pytest.raises(CorruptError):
            ring.apply(
                json.dumps({"type": "key_revoked", "id": "r", "key_id": key_id.hex(), "from_index": 1}).encode(),
                place="sys-keys:1",
            )


def test_key_files_are_private_and_made_once(ids, tmp_path):
    path = tmp_path / "control.pem"
    first = signing.load_or_create_signer(path, ids)
    assert signing.load_or_create_signer(path, ids).public_key == first.public_key
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_key_file_that_others_can_read_is_refused(ids, tmp_path):
    path = tmp_path / "control.pem"
    signing.load_or_create_signer(path, ids)
    path.chmod(0o644)
    with pytest.raises(RefusedError):
        signing.load_signer(path)


def test_a_key_file_is_followed_and_what_may_not_be_used_is_not(ids, tmp_path):
    path = tmp_path / "control.pem"
    first, second = signing.new_signer(ids), signing.new_signer(ids)
    write_file(path, first.private_pem(), mode=0o600)
    key = signing.KeyFile(path)
    assert key.current.key_id == first.key_id
    assert first.current is first
    for content, mode in ((b"no key", 0o600), (second.private_pem(), 0o644)):
        write_file(path, content, mode=mode)
        assert key.current.key_id == first.key_id
    path.unlink()
    assert key.current.key_id == first.key_id
    write_file(path, second.private_pem(), mode=0o600)
    assert key.current.key_id == second.key_id
    with pytest.raises(RefusedError):
        signing.KeyFile(tmp_path / "none.pem")


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"])
def test_a_file_that_is_no_key_is_refused_without_quoting_it(tmp_path, content):
    path = tmp_path / "k.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(RefusedError) as caught:
        signing.load_signer(path)
    assert "BEGIN" not in str(caught.value)


def test_no_repr_shows_a_private_key(ids):
    key = signing.new_signer(ids)
    assert repr(key) == f"Signer(key_id={key.key_id.hex()})"


def test_malformed_signatures_are_simply_not_the_keys(ids):
    key = signing.new_signer(ids)
    good = key.sign(b"text")
    assert signing.verify(key.public_key, good, b"text")
    for signature, preimage in ((good, b"texts"), (b"", b"text"), (good[:-1], b"text"), (bytes(64), b"text")):
        assert not signing.verify(key.public_key, signature, preimage)
    assert not signing.verify(b"short", good, b"text")


def test_either_librarys_signature_is_the_others_too(ids):
    theirs = Ed25519PrivateKey.from_private_bytes(ids.token(32))
    ours = signing.Signer(theirs)
    assert ours.sign(b"text") == theirs.sign(b"text")
    assert signing.verify(ours.public_key, theirs.sign(b"text"), b"text")
    theirs.public_key().verify(ours.sign(b"text"), b"text")
    with pytest.raises(InvalidSignature):
        theirs.public_key().verify(ours.sign(b"text"), b"texts")
