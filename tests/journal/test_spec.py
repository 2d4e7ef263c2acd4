"""The vectors on the pages of docs/spec are what the code makes and accepts, value by value."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from journal import archive
from journal.body import COMPRESSED, Stored, encode_body
from journal.port import RawEntry
from journal.receipt import check_payload, verify_receipt
from polyc import entry, merkle, note
from polyc.dataroot import Policy
from polyc.errors import CorruptError
from polyc.signing import key_id_of, verify

SPEC = Path(__file__).resolve().parents[2] / "docs" / "spec"
unhex = bytes.fromhex


def vectors(page: str) -> list:
    return [json.loads(text) for text in re.findall(r"```json\n(.*?)```", (SPEC / page).read_text(), re.DOTALL)]


def test_the_entry_vector():
    vector, bad = vectors("entry.md")
    salt, payload = unhex(vector["salt"]), vector["payload"].encode()
    assert entry.payload_digest(salt, payload).hex() == vector["payload_digest"]
    genesis = entry.genesis(vector["origin"], vector["partition"], unhex(vector["incarnation"]))
    assert genesis.hex() == vector["genesis"]
    header = entry.Header(
        flags=vector["flags"],
        fence=unhex(vector["fence"]),
        event_type=vector["event_type"],
        position=vector["position"],
        recorded_at_us=vector["recorded_at_us"],
        incarnation=unhex(vector["incarnation"]),
        append_id=unhex(vector["append_id"]),
        key_id=unhex(vector["key_id"]),
        prev=genesis,
        payload_digest=unhex(vector["payload_digest"]),
        payload_size_bytes=len(payload),
        partition=vector["partition"],
    )
    assert entry.encode_header(header).hex() == vector["header"]
    assert entry.decode_header(unhex(vector["header"]), place="x") == header
    assert entry.leaf_hash(unhex(vector["header"])).hex() == vector["leaf"]
    for lie in bad:
        with pytest.raises(CorruptError):
            entry.decode_header(unhex(lie["header"]), place=lie["why"])


def test_the_append_vector():
    (vector,) = vectors("append.md")
    first, last = map(unhex, vector["headers"])
    assert entry.decode_header(last, place="x").prev == entry.leaf_hash(first)
    assert entry.leaf_hash(last).hex() == vector["last_leaf"]
    preimage = entry.append_preimage(vector["origin"], unhex(vector["last_leaf"]))
    assert preimage.hex() == vector["preimage"]
    assert key_id_of(unhex(vector["public_key"])).hex() == vector["key_id"]
    assert verify(unhex(vector["public_key"]), unhex(vector["signature"]), preimage)


def test_the_stored_append_vectors():
    (append,), (item, _bad), (vector, bad) = vectors("append.md"), vectors("entry.md"), vectors("stored.md")
    headers = [unhex(header) for header in append["headers"]]
    salted = unhex(item["salt"]) + item["payload"].encode()
    kept = {"the first entry erased": [None, salted]}

    def stored(lie: dict, count: int) -> Stored:
        identity = (unhex(vector["append_id"]), unhex(append["signature"]))
        return Stored(0, 1, count, *identity, lie["form"], unhex(lie["body"]))

    for row in vector["rows"]:
        run = stored(row, vector["count"]).open("x")
        assert (run.headers, run.salted) == (headers, kept.get(row["why"], [salted, salted]))
        if row["form"] != COMPRESSED:
            assert encode_body(run.headers, run.salted) == (row["form"], unhex(row["body"]))
    for lie in bad:
        with pytest.raises(CorruptError):
            stored(lie, lie["count"]).open(lie["why"])


def test_the_checkpoint_vector():
    (vector,) = vectors("checkpoint.md")
    log, witness = (note.parse_verifier(vector[name]) for name in ("vkey", "witness_vkey"))
    checkpoint, signers = note.open_checkpoint(vector["note"], origin=log.name, verifiers=[log, witness], place="x")
    assert signers == [log, witness]
    leaves = [merkle.leaf_hash(unhex(item)) for item in vector["entries"]]
    assert merkle.root_of(leaves) == checkpoint.root == unhex(vector["root"])
    assert note.cosigned_at_s(note.parse_note(vector["note"], place="x").signatures[1]) == vector["cosigned_at_s"]
    inclusion, consistency = vector["inclusion"], vector["consistency"]
    assert merkle.verify_inclusion(
        leaf=leaves[inclusion["index"]],
        index=inclusion["index"],
        size=len(leaves),
        proof=[unhex(item) for item in inclusion["proof"]],
        root=checkpoint.root,
    )
    assert merkle.verify_consistency(
        old=consistency["old_size"],
        new=len(leaves),
        old_root=unhex(consistency["old_root"]),
        new_root=checkpoint.root,
        proof=[unhex(item) for item in consistency["proof"]],
    )


def test_the_receipt_vector():
    (vector,) = vectors("receipt.md")
    policy = msgspec.convert(vector["policy"], Policy)
    proved = verify_receipt(vector["receipt"], policy=policy)
    assert {name: getattr(proved, name) for name in vector["proves"]} == vector["proves"]
    check_payload(proved, salt=unhex(vector["salt"]), payload=vector["payload"].encode())


def test_the_archive_vectors():
    (vector,) = vectors("archive.md")
    for item in vector["frames"]:
        assert archive.encode_frame(item["type"], unhex(item["body"])).hex() == item["frame"]
    kept, erased = vector["entry"], vector["erased_entry"]
    raws = [
        RawEntry(kept["index"], unhex(kept["header"]), unhex(kept["salt"]), kept["payload"].encode(), unhex(kept["signature"])),
        RawEntry(erased["index"], unhex(erased["header"]), None, None, unhex(erased["signature"])),
    ]  # fmt: skip
    assert [archive.encode_entry(raw).hex() for raw in raws] == [kept["frames"], erased["frames"]]
    (checkpoint,) = vectors("checkpoint.md")
    whole = unhex(vector["frames"][1]["frame"]) + b"".join(map(archive.encode_entry, raws))
    whole += archive.encode_frame(archive.CHECKPOINT, checkpoint["note"].encode())
    scanned = archive.scan(whole + b"torn", place="x")
    assert scanned.torn_bytes == 4
    assert [item for _place, item in archive.items(scanned.frames, place="x")] == [*raws, (checkpoint["note"], [])]
