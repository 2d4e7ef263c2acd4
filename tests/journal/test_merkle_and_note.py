"""RFC 6962 trees against a direct transcription of the RFC, and the C2SP examples, value by value."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc import merkle, note
from polyc.errors import CorruptError
from polyc.ids import SeededIds
from polyc.signing import new_signer

# The eight leaves and roots that Certificate Transparency implementations test against.
LEAVES = [bytes.fromhex(text) for text in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
)]  # fmt: skip
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def mth(entries: list[bytes]) -> bytes:
    """RFC 6962 §2.1, word by word."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    k = 1
    while k * 2 < len(entries):
        k *= 2
    return hashlib.sha256(b"\x01" + mth(entries[:k]) + mth(entries[k:])).digest()


def nodes(leaves: list[bytes]):
    return lambda height, n: merkle.root_of(leaves[n << height : (n + 1) << height])


def test_the_known_roots_are_reproduced():
    for size, expected in enumerate(ROOTS, start=1):
        assert merkle.root_of(map(merkle.leaf_hash, LEAVES[:size])).hex() == expected
    assert merkle.root_of([]).hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@given(st.integers(0, 70))
def test_the_incremental_root_is_the_rfcs(size: int):
    entries = [bytes([i]) for i in range(size)]
    assert merkle.root_of(map(merkle.leaf_hash, entries)) == mth(entries)


@given(st.integers(1, 300), st.data())
def test_an_inclusion_proof_proves_its_leaf_at_its_index_and_nothing_else(size: int, data):
    leaves = [merkle.leaf_hash(i.to_bytes(2, "big")) for i in range(size)]
    index = data.draw(st.integers(0, size - 1))
    root = merkle.root_of(leaves)
    proof = merkle.inclusion_proof(index, size, nodes(leaves))
    whole = {"leaf": leaves[index], "index": index, "size": size, "proof": proof, "root": root}
    assert merkle.verify_inclusion(**whole)
    other = data.draw(st.integers(-1, size))
    if other != index:
        assert not merkle.verify_inclusion(**whole | {"index": other})
    assert not merkle.verify_inclusion(**whole | {"leaf": bytes(32)})
    assert not merkle.verify_inclusion(**whole | {"proof": [*proof, bytes(32)]})
    if proof:
        assert not merkle.verify_inclusion(**whole | {"proof": proof[:-1]})
        assert not merkle.verify_inclusion(**whole | {"proof": [bytes(32), *proof[1:]]})


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_consistency_proof_shows_growth_and_nothing_else(old: int, new: int):
    old, new = min(old, new), max(old, new)
    leaves = [merkle.leaf_hash(i.to_bytes(2, "big")) for i in range(new)]
    proof = merkle.consistency_proof(old, new, nodes(leaves))
    roots = {"old_root": merkle.root_of(leaves[:old]), "new_root": merkle.root_of(leaves)}
    assert merkle.verify_consistency(old=old, new=new, proof=proof, **roots)
    assert not merkle.verify_consistency(old=old, new=new, proof=[*proof, bytes(32)], **roots)
    if old > 0:
        assert not merkle.verify_consistency(old=old, new=new, proof=proof, **roots | {"old_root": bytes(32)})
        assert not merkle.verify_consistency(old=old, new=new, proof=proof, **roots | {"new_root": bytes(32)})
    assert not merkle.verify_consistency(old=new + 1, new=new, proof=proof, **roots)


@given(st.lists(st.integers(1, 700), max_size=4))
def test_a_frontier_grows_alike_in_any_portions(portions: list[int]):
    leaves = [merkle.leaf_hash(i.to_bytes(4, "big")) for i in range(sum(portions))]
    whole, parts = merkle.Frontier(), merkle.Frontier()
    completed = whole.extend(leaves)
    at, pieces = 0, []
    for count in portions:
        pieces += parts.extend(leaves[at : at + count])
        at += count
    assert (parts.size, parts.nodes, pieces) == (whole.size, whole.nodes, completed)
    assert [height for height, _node in completed].count(8) == len(leaves) // 256


def test_the_c2sp_signed_note_example_verifies():
    verifier = note.parse_verifier("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")
    text = (
        "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1E"
        "RYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
    )
    parsed = note.parse_note(text, place="example")
    assert note.verify_note(parsed, [verifier], place="example") == [verifier]
    assert str(parsed) == text
    with pytest.raises(CorruptError):
        note.verify_note(note.parse_note(text.replace("example m", "exemple m"), place="x"), [verifier], place="x")


def test_the_c2sp_checkpoint_example_parses_to_its_three_parts():
    text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    checkpoint = note.decode_checkpoint(text, place="example")
    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20852163)
    assert str(checkpoint) == text


@pytest.mark.parametrize(
    "text",
    ["", "a\n", "a\n1\n", "a\n01\n" + "A" * 43 + "=\n", "a\n-1\n" + "A" * 43 + "=\n", "a\n1\nAAAA\n",
     "a\n1\n" + "A" * 43 + "=", "a\n\n1\n" + "A" * 43 + "=\n", "a\n1\n" + "A" * 42 + "B=\n", "a\n١\n" + "A" * 43 + "=\n"],
)  # fmt: skip
def test_a_checkpoint_has_one_spelling(text: str):
    with pytest.raises(CorruptError):
        note.decode_checkpoint(text, place="x")


def test_a_cosignature_binds_time_and_text_and_a_vkey_round_trips():
    signer = new_signer(SeededIds("w"))
    text = "log\n1\n" + "A" * 43 + "=\n"
    line = note.cosign(text, name="witness.example/w", signer=signer, time_s=1_700_000_000)
    verifier = note.Verifier(name="witness.example/w", kind=note.COSIGNATURE, public_key=signer.public_key)
    assert verifier.verifies(line, text)
    assert note.cosigned_at_s(line) == 1_700_000_000
    assert not verifier.verifies(line, text.replace("1", "2"))
    later = note.SignatureLine(
        name=line.name, key_id=line.key_id, signature=(1).to_bytes(8, "big") + line.signature[8:]
    )
    assert not verifier.verifies(later, text)
    assert note.parse_verifier(str(verifier)) == verifier
    plain = note.Verifier(name="witness.example/w", kind=note.ED25519, public_key=signer.public_key)
    assert plain.key_id != verifier.key_id


@pytest.mark.parametrize(
    "data",
    ["no signatures\n", "text\n\n", "text\n\n— name\n", "text\n\n— na+me AAAAAAA=\n", "text\n\n- name AAAAAAA=\n",
     "text\n\n— name AAAAAAA=", "te\txt\n\n— name AAAAAAA=\n", b"\xff\n\n\xe2\x80\x94 name AAAAAAA=\n",
     "text\n\n— name AAAA\n", "text\n\n— name AAAAAAA\n", "x" * 140_000 + "\n\n— name AAAAAAA=\n"],
)  # fmt: skip
def test_what_is_not_a_note_is_refused(data):
    with pytest.raises(CorruptError):
        note.parse_note(data, place="x")


def test_sixteen_signatures_of_the_largest_kind_fit_in_a_note():
    lines = "".join(f"— w{i} {note.encode64(bytes(5_000))}\n" for i in range(16))
    assert len(note.parse_note(f"x\n\n{lines}", place="n").signatures) == 16


def test_unknown_signatures_are_ignored_and_bad_ones_of_known_keys_reject():
    signer, other = new_signer(SeededIds("a")), new_signer(SeededIds("b"))
    verifier = note.Verifier(name="log", kind=note.ED25519, public_key=signer.public_key)
    good = note.sign("text\n", name="log", signer=signer)
    stranger = note.sign("text\n", name="other", signer=other)
    both = note.Note(text="text\n", signatures=(stranger, good))
    assert note.verify_note(both, [verifier], place="x") == [verifier]
    bad = note.SignatureLine(name="log", key_id=good.key_id, signature=stranger.signature)
    with pytest.raises(CorruptError):
        note.verify_note(note.Note(text="text\n", signatures=(bad, good)), [verifier], place="x")
    with pytest.raises(CorruptError):
        note.verify_note(note.Note(text="text\n", signatures=(stranger,)), [verifier], place="x")
    with pytest.raises(CorruptError):  # "MUST verify the signature": also a second one of the same key
        note.verify_note(note.Note(text="text\n", signatures=(good, bad)), [verifier], place="x")
    assert note.verify_note(note.Note(text="text\n", signatures=(good, good)), [verifier], place="x") == [verifier]
