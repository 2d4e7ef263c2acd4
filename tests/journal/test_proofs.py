"""Receipts, consistency proofs, witnesses, pins: what others can check without believing us."""

import threading
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from journal import keys, witnessing
from journal.backup import check_not_behind
from journal.lock import WriterLock
from journal.receipt import check_payload, decode_receipt, verify_receipt
from journal.trust_policy import parse_trust_policy
from journal.verify import Pin, verify_file
from journal.witness import REQUEST_SIZE_BYTES_MAX, Witness, create_app, encode_request
from journal.witness_serve import serve as serve_witness
from polyc import merkle, note
from polyc.dataroot import DataRoot
from polyc.errors import CorruptError, RefusedError, UnavailableError
from polyc.ids import SeededIds
from polyc.signing import new_signer
from tests.journal.log import ORIGIN, Log


def log_verifier(log: Log) -> note.Verifier:
    return note.Verifier(name=ORIGIN, kind=note.ED25519, public_key=log.signers["log"].public_key)


def checkpoint_of(journal) -> note.Checkpoint:
    return note.decode_checkpoint(note.parse_note(journal.checkpoint(), place="x").text, place="x")


# -- receipts


def test_a_receipt_proves_its_entry_with_the_policy_file_alone(log: Log, journal):
    log.say(journal, "conv-a", *[f"event {i}" for i in range(400)])
    log.say(journal, "conv-b", "later")
    for position in (1, 200, 400):
        proved = verify_receipt(journal.receipt("conv-a", position), policy=log.policy)
        record = next(iter(journal.read("conv-a", from_position=position)))
        assert (proved.partition, proved.position, proved.index) == ("conv-a", position, record.index)
        assert (proved.incarnation, proved.role, proved.size) == (record.incarnation, "harness", journal.size())
        raw = next(iter(journal.read_raw("conv-a", from_position=position)))
        check_payload(proved, salt=raw.salt, payload=raw.payload)
        with pytest.raises(CorruptError):
            check_payload(proved, salt=raw.salt, payload=b"another")


def test_a_receipt_of_an_old_incarnation_and_of_a_key_event_verify(log: Log, journal):
    log.say(journal, "conv-a", "old")
    old = journal.head("conv-a").incarnation
    log.say(journal, "conv-a", "new", new_incarnation=True)
    proved = verify_receipt(journal.receipt("conv-a", 1, incarnation=old), policy=log.policy)
    assert proved.incarnation == old
    assert verify_receipt(journal.receipt("sys-keys", 3), policy=log.policy).role == "root"
    with pytest.raises(RefusedError):
        journal.receipt("conv-a", 2)
    with pytest.raises(RefusedError):
        journal.receipt("conv-none", 1)


def test_every_changed_byte_of_a_receipt_is_noticed(log: Log, journal):
    log.say(journal, "conv-a", "one", "two", "three")
    log.say(journal, "conv-b", "four")
    text = journal.receipt("conv-a", 2).encode()
    honest = verify_receipt(text, policy=log.policy)
    for at in range(len(text)):
        changed = text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]
        try:
            proved = verify_receipt(changed, policy=log.policy)
        except CorruptError:
            continue
        pytest.fail(f"byte {at} of the receipt proves nothing: {proved == honest}")


def test_a_receipt_cut_anywhere_is_refused(log: Log, journal):
    log.say(journal, "conv-a", "one", "two")
    text = journal.receipt("conv-a", 1)
    for cut in range(len(text) - 1):
        with pytest.raises(CorruptError):
            verify_receipt(text[:cut], policy=log.policy)


def test_a_receipt_of_another_log_is_refused(log: Log, journal, tmp_path: Path):
    log.say(journal, "conv-a", "one")
    stranger = Log(tmp_path / "other", seed="other")
    with pytest.raises(CorruptError):
        verify_receipt(journal.receipt("conv-a", 1), policy=stranger.policy)


def test_a_receipt_after_a_rotation_of_the_logs_key_verifies_from_the_same_policy(log: Log, journal):
    new = new_signer(log.ids)
    size = journal.size()
    root = log.author(journal, "root")
    keys.add_key(root, public_key=new.public_key, role="log", from_index=size, name="log")
    keys.revoke_key(root, key_id=log.signers["log"].key_id, from_index=size + 2)
    journal._sealer._reload_log_signer = lambda: new
    log.say(journal, "conv-a", "signed by the new key")
    receipt = journal.receipt("conv-a", 1)
    assert verify_receipt(receipt, policy=log.policy).size == size + 3
    parsed = note.parse_note(decode_receipt(receipt, place="x").note, place="x")
    with pytest.raises(CorruptError):
        note.verify_note(parsed, [log_verifier(log)], place="the old key alone")


def test_consistency_proofs_join_any_two_checkpoints(log: Log, journal):
    seen = []
    for i in range(12):
        log.say(journal, f"conv-{i % 3}", *["x"] * (i * 7 + 1))
        seen.append(checkpoint_of(journal))
    for old in seen:
        for new in seen:
            if old.size <= new.size:
                proof = journal.consistency_proof(old.size, new.size)
                assert merkle.verify_consistency(
                    old=old.size, new=new.size, old_root=old.root, new_root=new.root, proof=proof
                )
    with pytest.raises(RefusedError):
        journal.consistency_proof(5, journal.size() + 1)


def test_a_rotated_log_key_seals_nothing_outside_its_time(log: Log, journal):
    """A later key, stolen, that signs a short log anew; and an ended one that signs a longer one."""
    new = new_signer(log.ids)
    log.say(journal, "conv-a", "one")
    size = journal.size()
    root = log.author(journal, "root")
    keys.add_key(root, public_key=new.public_key, role="log", from_index=size, to_index=size + 9, name="log")
    journal._sealer._reload_log_signer = lambda: new
    log.say(journal, "conv-a", "two")
    keys.revoke_key(root, key_id=log.signers["log"].key_id, from_index=journal.size() + 1)
    log.say(journal, "conv-a", "three", "four")
    honest = journal.receipt("conv-a", 2)
    assert verify_receipt(honest, policy=log.policy)
    decoded = decode_receipt(honest, place="x")
    parsed = note.parse_note(decoded.note, place="x")
    root_line = parsed.text.splitlines()[2]
    for claimed in (size, size + 10):
        text = f"{ORIGIN}\n{claimed}\n{root_line}\n"
        forged = str(note.Note(text=text, signatures=(note.sign(text, name=ORIGIN, signer=new),)))
        with pytest.raises(CorruptError) as refused:
            verify_receipt(honest.replace(decoded.note, forged), policy=log.policy)
        assert refused.value.kind == "note_signature"


def test_receipts_after_many_rotations_name_only_the_log_key_that_signed(log: Log, journal):
    root = log.author(journal, "root")
    for _ in range(12):
        old, new = journal._sealer._log_signer.key_id, new_signer(log.ids)
        size = journal.size()
        keys.add_key(root, public_key=new.public_key, role="log", from_index=size, name="log")
        keys.revoke_key(root, key_id=old, from_index=size + 2)
        journal._sealer._reload_log_signer = lambda new=new: new
        log.say(journal, "conv-a", "on it goes")
    receipt = journal.receipt("conv-a", 12)
    assert len(decode_receipt(receipt, place="x").evidence) == 2
    assert verify_receipt(receipt, policy=log.policy).position == 12


def test_a_receipt_under_a_trust_policy_needs_its_logs_and_its_quorum(log: Log, journal, tmp_path: Path):
    witness, other = (witness_of(log, tmp_path / name, name=name) for name in ("w1", "w2"))
    log.say(journal, "conv-a", "one")
    with TestClient(create_app(witness), base_url="http://witness") as client:
        witnessing.ask(journal, url="http://witness", witness=witness.verifier, client=client)
    receipt = journal.receipt("conv-a", 1)
    lines = [f"log {log_verifier(log)}", f"witness A {witness.verifier}", f"witness B {other.verifier}"]

    def judged(*more: str, logs: str = lines[0]):
        trust = parse_trust_policy("\n".join([logs, *lines[1:], *more]).encode(), place="trust")
        return verify_receipt(receipt, policy=log.policy, trust=trust)

    assert judged("group both any A B", "quorum both").witnesses == ("w1",)
    assert judged("quorum none", logs="# any log").position == 1
    stranger = note.Verifier(name=ORIGIN, kind=note.ED25519, public_key=log.signers["edge"].public_key)
    for refused in (
        lambda: judged("quorum B"),
        lambda: judged("group both all A B", "quorum both"),
        lambda: judged("quorum A", logs=f"log {stranger}"),
    ):
        with pytest.raises(CorruptError) as error:
            refused()
        assert error.value.kind == "quorum"


def test_the_logs_own_signature_is_no_witness(log: Log, journal):
    log.say(journal, "conv-a", "one")
    proved = verify_receipt(journal.receipt("conv-a", 1), policy=log.policy, witnesses=[log_verifier(log)])
    assert proved.witnesses == ()


# -- witnesses


def witness_of(log: Log, folder: Path, *, name: str = "witness.test/w") -> Witness:
    signer = new_signer(SeededIds(name))
    return Witness(folder, name=name, signer=signer, logs=[log_verifier(log)], clock=log.clock)


def test_a_witness_cosigns_growth_and_receipts_carry_it(log: Log, journal, tmp_path: Path):
    witness = witness_of(log, tmp_path / "w")
    with TestClient(create_app(witness), base_url="http://witness") as client:
        log.say(journal, "conv-a", "one")
        first = witnessing.ask(journal, url="http://witness", witness=witness.verifier, client=client)
        log.say(journal, "conv-a", "two", "three")
        second = witnessing.ask(journal, url="http://witness", witness=witness.verifier, client=client)
        again = witnessing.ask(journal, url="http://witness", witness=witness.verifier, client=client)
    assert (first.size, second.size, again.size) == (9, 11, 11)
    log.say(journal, "conv-a", "not yet witnessed")
    proved = verify_receipt(journal.receipt("conv-a", 2), policy=log.policy, witnesses=[witness.verifier])
    assert (proved.size, proved.witnesses) == (11, ("witness.test/w",))
    assert verify_receipt(journal.receipt("conv-a", 4), policy=log.policy).witnesses == ()
    report = verify_file(log.path, policy=log.policy, witnesses=[witness.verifier])
    assert (report.ok, report.anchored_ranges, report.unanchored_ranges) == (True, [(0, 11)], [(11, 12)])
    assert verify_file(log.path, policy=log.policy).anchored_size == 0  # a witness nobody named anchors nothing


def test_a_witness_answers_as_the_specification_says(log: Log, journal, tmp_path: Path):
    witness = witness_of(log, tmp_path / "w")
    log.say(journal, "conv-a", "one")
    old = journal.checkpoint()
    old_size = journal.size()
    log.say(journal, "conv-a", "two")
    new = journal.checkpoint()
    proof = journal.consistency_proof(old_size, journal.size())

    def status(*request) -> int:
        return witness.add_checkpoint(encode_request(*request)).status

    assert witness.add_checkpoint(b"nonsense").status == 400
    assert witness.add_checkpoint(b"old 01\n\n" + old.encode()).status == 400
    assert status(old_size + 1, [], old) == 400
    stranger = note.sign(f"other\n1\n{'A' * 43}=\n", name="other", signer=log.signers["log"])
    assert status(0, [], str(note.Note(text=f"other\n1\n{'A' * 43}=\n", signatures=(stranger,)))) == 404
    forged = note.parse_note(old, place="x")
    wrong = note.sign(forged.text, name=ORIGIN, signer=log.signers["edge"])
    assert status(0, [], str(note.Note(text=forged.text, signatures=(wrong,)))) == 403
    assert status(0, proof, new) == 422  # a proof where none belongs
    assert status(0, [], old) == 200
    conflict = witness.add_checkpoint(encode_request(0, [], new))
    assert (conflict.status, conflict.body, conflict.content_type) == (409, f"{old_size}\n", "text/x.tlog.size")
    assert status(old_size, [], new) == 422
    assert status(old_size, [bytes(32)] * len(proof), new) == 422
    assert status(old_size, proof, new) == 200
    assert status(journal.size(), [], new) == 200
    reopened = witness_of(log, tmp_path / "w")
    assert reopened.latest(ORIGIN) == checkpoint_of(journal)
    with TestClient(create_app(reopened)) as client:
        import hashlib

        served = client.get(f"/{hashlib.sha256(ORIGIN.encode()).hexdigest()}/checkpoint")
        assert served.status_code == 200
        names = [line.name for line in note.parse_note(served.text, place="x").signatures]
        assert names == [ORIGIN, "witness.test/w"]
        assert client.get(f"/{'0' * 64}/checkpoint").status_code == 404
        assert client.post("/add-checkpoint", content=b"x" * (REQUEST_SIZE_BYTES_MAX + 1)).status_code == 413


def test_a_witness_does_not_follow_a_fork_and_the_asker_hears_of_it(log: Log, journal, tmp_path: Path):
    witness = witness_of(log, tmp_path / "w")
    other = Log(tmp_path / "fork")
    with TestClient(create_app(witness), base_url="http://witness") as client, other.open() as forked:
        log.say(journal, "conv-a", "one", "two")
        witnessing.ask(journal, url="http://witness", witness=witness.verifier, client=client)
        other.say(forked, "conv-a", "another", "history", "and longer")
        with pytest.raises(CorruptError) as fork:
            witnessing.ask(forked, url="http://witness", witness=witness.verifier, client=client)
        assert fork.value.kind == "fork"
    short = Log(tmp_path / "short")
    with TestClient(create_app(witness), base_url="http://witness") as client, short.open() as behind:
        with pytest.raises(CorruptError) as rollback:
            witnessing.ask(behind, url="http://witness", witness=witness.verifier, client=client)
        assert rollback.value.kind == "rollback"


def test_a_witness_whose_record_is_damaged_signs_nothing(log: Log, journal, tmp_path: Path):
    witness = witness_of(log, tmp_path / "w")
    log.say(journal, "conv-a", "one")
    request = encode_request(0, [], journal.checkpoint())
    assert witness.add_checkpoint(request).status == 200
    [record] = (tmp_path / "w").glob("*.checkpoint")
    for content in (b"", b"\xff", record.read_bytes().replace(b"\n9\n", b"\n1\n")):
        record.write_bytes(content)
        with TestClient(create_app(witness)) as client:
            answer = client.post("/add-checkpoint", content=request)
        assert (answer.status_code, answer.text) == (500, "the witness's record is damaged\n")


def test_one_process_serves_a_witness(log: Log, tmp_path: Path):
    """Two with one folder could roll each other back: the old size is checked and replaced within one process."""
    witness = witness_of(log, tmp_path / "w")
    lock = WriterLock(tmp_path / "w" / "witness.lock")
    with pytest.raises(UnavailableError) as refused:
        serve_witness(witness, host="127.0.0.1", port=0)
    assert "another process serves this witness" in refused.value.message
    lock.release()


def test_a_witness_that_is_asked_again_and_again_is_kept_once(log: Log, journal, tmp_path: Path):
    witness = witness_of(log, tmp_path / "w")
    log.say(journal, "conv-a", "one")
    with TestClient(create_app(witness), base_url="http://witness") as client:
        for _ in range(40):
            log.clock.advance(seconds=1)
            last = witnessing.ask(journal, url="http://witness", witness=witness.verifier, client=client)
    signatures = note.parse_note(decode_receipt(journal.receipt("conv-a", 1), place="x").note, place="x").signatures
    assert [str(line) for line in signatures[1:]] == [last.line]


def test_of_two_requests_at_once_a_witness_never_rolls_back(log: Log, journal, tmp_path: Path):
    witness = witness_of(log, tmp_path / "w")
    requests, sizes = [], []
    log.say(journal, "conv-a", "one")
    assert witness.add_checkpoint(encode_request(0, [], journal.checkpoint())).status == 200
    base = journal.size()
    for i in range(6):
        log.say(journal, "conv-a", str(i))
        sizes.append(journal.size())
        requests.append(encode_request(base, journal.consistency_proof(base, journal.size()), journal.checkpoint()))
    answers = []
    threads = [threading.Thread(target=lambda r=r: answers.append(witness.add_checkpoint(r))) for r in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in answers) == [200] + [409] * 5
    assert witness.latest(ORIGIN).size in sizes


def test_a_witness_that_answers_nonsense_is_not_believed(log: Log, journal, tmp_path: Path):
    log.say(journal, "conv-a", "one")
    verifier = witness_of(log, tmp_path / "w").verifier
    forged = note.cosign("other text\n", name=verifier.name, signer=new_signer(SeededIds(verifier.name)), time_s=5)
    for status, body, error in [
        (200, "", CorruptError),
        (200, str(forged), CorruptError),
        (200, "— someone.else AAAAAAAAAA==\n", UnavailableError),
        (500, "", UnavailableError),
        (403, "", RefusedError),
        (409, "not a number\n", UnavailableError),
    ]:
        answer = httpx.MockTransport(lambda _request, s=status, b=body: httpx.Response(s, text=b))
        with httpx.Client(transport=answer) as client, pytest.raises(error):
            witnessing.ask(journal, url="http://w", witness=verifier, client=client)


# -- policies and pins


def test_a_quorum_of_groups_is_judged_as_written(log: Log, tmp_path: Path):
    witnesses = {f"X{i}": witness_of(log, tmp_path / f"w{i}", name=f"w{i}").verifier for i in (1, 2, 3)}
    lines = [f"log {log_verifier(log)}", "# a comment", ""]
    lines += [f"witness {name} {verifier} http://{name}" for name, verifier in witnesses.items()]
    policy = parse_trust_policy("\n".join([*lines, "group two 2 X1 X2 X3", "quorum two"]), place="p")
    one, two, three = witnesses.values()
    assert policy.satisfied_by({one, three, log_verifier(log)})
    assert not policy.satisfied_by({two, log_verifier(log)})
    assert not policy.satisfied_by({one, three})  # and none of the logs
    assert policy.urls["X2"] == "http://X2"
    assert parse_trust_policy("quorum none\n", place="p").satisfied_by(set())
    opaque = b"# \xff\nwitness \xe9 " + str(one).encode() + b"\nquorum \xe9"
    assert parse_trust_policy(opaque, place="p").satisfied_by({one})
    with pytest.raises(RefusedError):
        parse_trust_policy(b"log \xff+00000000+AAAA\nquorum none", place="p")
    for bad in [
        "", "quorum two", "quorum none\nquorum none", "witness none x", f"log {one}", f"witness a {log_verifier(log)}",
        f"witness a {one}\nwitness b {one}\nquorum a", f"witness a {one}\ngroup g 2 a\nquorum g",
        f"witness a {one}\ngroup g 0 a\nquorum g", f"witness a {one}\ngroup g any a\ngroup h any a\nquorum g",
        "group g any b\nquorum g", "what is this", "quorum none\x07", "quorum none\x7f", "quorum none\r",
    ]:  # fmt: skip
        with pytest.raises(RefusedError):
            parse_trust_policy(bad, place="p")


def test_a_journal_behind_what_somebody_has_seen_is_refused_with_the_reason():
    check_not_behind(10, [Pin(size=10, root=bytes(32), source="manifest 3", anchored=False)])
    with pytest.raises(RefusedError) as refused:
        check_not_behind(9, [Pin(size=10, root=bytes(32), source="manifest 3", anchored=False)])
    assert "manifest 3 has seen 10" in refused.value.message


# -- keys


def test_a_rotation_overlaps_and_the_old_key_ends_where_it_says(tmp_path: Path, log: Log):
    from journal import boot

    root = DataRoot(tmp_path / "root")
    boot.create_deployment(root, clock=log.clock, ids=log.ids)
    with boot.open_embedded(root, clock=log.clock, ids=log.ids) as journal:
        from polyc.appending import Author, Draft
        from polyc.signing import KeyFile, load_signer

        def author(name: str) -> Author:
            return Author(journal, load_signer(root.keys / f"{name}.pem"), clock=log.clock, ids=log.ids)

        old = author("harness")
        following = Author(journal, KeyFile(root.keys / "harness.pem"), clock=log.clock, ids=log.ids)
        following.append("conv-b", [Draft(16, b"before")])
        rotation = keys.rotate_key(
            root, author("root"), journal, role="harness", clock=log.clock, ids=log.ids, overlap=2
        )
        new = author("harness")
        assert (old.signer.key_id.hex(), new.signer.key_id.hex()) == (rotation.old_key_id, rotation.new_key_id)
        old.append("conv-a", [Draft(16, b"in the overlap")])
        new.append("conv-a", [Draft(16, b"in the overlap too")])
        with pytest.raises(RefusedError):
            old.append("conv-a", [Draft(16, b"after its end")])
        new.append("conv-a", [Draft(16, b"goes on")])
        following.append("conv-b", [Draft(16, b"took up the new key by itself")])
        standings = {item.key_id: item.state for item in keys.list_keys(journal)}
        assert (standings[rotation.old_key_id], standings[rotation.new_key_id]) == ("ended", "acting")
        keys.rotate_key(root, author("root"), journal, role="log", clock=log.clock, ids=log.ids, overlap=1)
        for i in range(3):  # the journal takes up the new log key by itself
            new.append("conv-a", [Draft(16, str(i).encode())])
    report = verify_file(root.journal_file, policy=root.policy(), level="V2")
    assert report.ok, report.faults
    with boot.open_embedded(root, clock=log.clock, ids=log.ids) as journal:
        assert journal.size() == report.entries


def test_without_a_valid_log_key_nothing_is_sealed(log: Log, journal):
    size = journal.size()
    root = log.author(journal, "root")
    keys.add_key(root, public_key=new_signer(log.ids).public_key, role="log", from_index=size)
    keys.revoke_key(root, key_id=log.signers["log"].key_id, from_index=size + 2)
    with pytest.raises(RefusedError):
        log.say(journal, "conv-a", "nobody can sign the checkpoint")
    assert journal.size() == size + 2


def test_keys_that_make_no_sense_are_refused(log: Log, journal):
    root = log.author(journal, "root")
    with pytest.raises(RefusedError):
        keys.add_key(root, public_key=new_signer(log.ids).public_key, role="root", from_index=0)
    with pytest.raises(RefusedError):
        keys.add_key(root, public_key=new_signer(log.ids).public_key, role="edge", from_index=9, to_index=9)
    with pytest.raises(RefusedError):
        keys.revoke_key(root, key_id=bytes(8), from_index=0)
    with pytest.raises(RefusedError):
        keys.add_key(log.author(journal, "control"), public_key=bytes(32), role="edge", from_index=0)
