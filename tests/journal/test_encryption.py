"""`encryption = per-conversation`: what was said stands in no byte of the log, and erasing a key reaches every copy."""

import shutil
from pathlib import Path

import pytest

from journal import boot, erasure, server
from journal.backup import backup
from journal.client import JournalClient
from journal.exporting import export
from journal.reading import SqliteReader
from journal.receipt import verify_receipt
from journal.verify import verify
from polyc.appending import Author, Draft, Head, sign_append
from polyc.clock import ManualClock
from polyc.dataroot import DataRoot
from polyc.errors import CorruptError, RefusedError, UnavailableError
from polyc.ids import SeededIds
from polyc.payloads import PayloadKey, PayloadKeys
from polyc.signing import load_signer
from tests.journal.log import MESSAGE

NEEDLE = b"nobody else may read this"


class Deployment:
    def __init__(self, folder: Path) -> None:
        self.root = DataRoot(folder)
        self.clock, self.ids = ManualClock(), SeededIds("encrypted")
        self.policy = boot.create_deployment(self.root, clock=self.clock, ids=self.ids, encryption="per-conversation")

    def open(self):
        return boot.open_embedded(self.root, clock=self.clock, ids=self.ids)

    def author(self, port, role: str) -> Author:
        return Author(port, load_signer(self.root.keys / f"{role}.pem"), clock=self.clock, ids=self.ids)

    def say(self, port, partition: str, *payloads: bytes, **options):
        drafts = [Draft(MESSAGE, payload) for payload in payloads]
        return self.author(port, "harness").append(partition, drafts, **options)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path / "root")


def log_bytes(root: DataRoot) -> bytes:
    return b"".join(path.read_bytes() for path in root.journal_file.parent.iterdir())


def payloads(reader, partition: str = "conv-a") -> list:
    return [record.payload for record in reader.read(partition)]


def test_what_was_said_is_read_back_and_stands_in_no_byte_of_the_log(deployment: Deployment, tmp_path: Path):
    with deployment.open() as journal:
        assert isinstance(journal, PayloadKeys)
        deployment.say(journal, "conv-a", NEEDLE, b"", b"more")
        assert payloads(journal) == [NEEDLE, b"", b"more"]
        (head,) = [head for head in journal.partitions() if head.partition == "conv-a"]
        assert journal.opening(head)[1] == NEEDLE
        assert [r.payload for r in journal.read_all(from_index=8)] == [NEEDLE, b"", b"more"]
        assert NEEDLE not in log_bytes(deployment.root)
        proved = verify_receipt(journal.receipt("conv-a", 1), policy=deployment.policy)
        assert proved.position == 1
    assert verify(deployment.root, level="V2").ok
    with deployment.open() as journal:
        assert payloads(journal) == [NEEDLE, b"", b"more"]
    plain = Deployment.__new__(Deployment)
    plain.root, plain.clock, plain.ids = DataRoot(tmp_path / "plain"), ManualClock(), SeededIds("plain")
    boot.create_deployment(plain.root, clock=plain.clock, ids=plain.ids)
    with plain.open() as journal:  # the sibling: the method finds what is not encrypted
        plain.say(journal, "conv-a", NEEDLE)
        assert NEEDLE in log_bytes(plain.root)


def test_erasing_a_conversation_destroys_its_key_and_reaches_every_copy(deployment: Deployment, tmp_path: Path):
    root = deployment.root
    with deployment.open() as journal:
        deployment.say(journal, "conv-a", NEEDLE)
        deployment.say(journal, "conv-b", b"stays")
        secret = journal.payload_key("conv-a", journal.head("conv-a").incarnation).raw
        copy = tmp_path / "copy"
        shutil.copytree(root.journal_file.parent, copy)
        backup(root, tmp_path / "backup")
        with SqliteReader(
            root.journal_file, origin=journal.origin, root_public_key=bytes.fromhex(deployment.policy.root_key)
        ) as reader:
            export(reader, tmp_path / "archive")
        assert secret in log_bytes(root)
        head = journal.head("conv-a")
        control = deployment.author(journal, "control")
        erasure.erase(control, partition="conv-a", incarnation=head.incarnation)
        assert secret not in log_bytes(root)
        assert payloads(journal) == [None]
        assert payloads(journal, "conv-b") == [b"stays"]
        with pytest.raises(RefusedError):
            deployment.say(journal, "conv-a", b"after")
        assert deployment.say(journal, "conv-a", b"anew", new_incarnation=True).first_position == 1
    assert verify(root, level="V2").ok
    for copied in (tmp_path / "backup", tmp_path / "archive"):
        held = b"".join(path.read_bytes() for path in copied.rglob("*") if path.is_file())
        assert secret not in held, "a key left with a copy"
        assert NEEDLE not in held


def test_a_copy_without_its_keys_is_unavailable_not_erased(deployment: Deployment, tmp_path: Path):
    with deployment.open() as journal:
        deployment.say(journal, "conv-a", NEEDLE)
        backup(deployment.root, tmp_path / "backup")
    with SqliteReader(
        tmp_path / "backup" / "journal.sqlite",
        origin=deployment.policy.origin,
        root_public_key=bytes.fromhex(deployment.policy.root_key),
    ) as reader:
        with pytest.raises(UnavailableError):
            payloads(reader)
        assert reader.keyring().all()  # keys stay readable


def test_a_crash_between_the_event_and_the_key_is_completed_at_the_next_start(deployment: Deployment):
    with deployment.open() as journal:
        deployment.say(journal, "conv-a", NEEDLE)
        incarnation = journal.head("conv-a").incarnation
        journal._sealer._secrets = None  # the process dies before it comes to the key
        erasure.erase(deployment.author(journal, "control"), partition="conv-a", incarnation=incarnation)
        assert journal.reading_key("conv-a", incarnation) is not None
    with deployment.open() as journal:
        assert journal.reading_key("conv-a", incarnation) is None
        assert payloads(journal) == [None]


def test_a_repeat_is_known_in_clear_although_its_bytes_differ(deployment: Deployment):
    with deployment.open() as journal:
        deployment.say(journal, "conv-a", NEEDLE, append_id=b"i" * 16)
        assert deployment.say(journal, "conv-a", NEEDLE, append_id=b"i" * 16).repeated
        with pytest.raises(RefusedError) as refused:
            deployment.say(journal, "conv-a", NEEDLE.upper(), append_id=b"i" * 16)
        assert refused.value.code == "already_exists"


def test_a_plain_payload_is_refused_where_payloads_are_encrypted(deployment: Deployment):
    with deployment.open() as journal:
        signer = load_signer(deployment.root.keys / "harness.pem")
        from polyc import entry

        incarnation = bytes(range(16))
        plain = sign_append(
            [Draft(MESSAGE, b"x")],
            head=Head("conv-a", incarnation, 0, entry.genesis(journal.origin, "conv-a", incarnation)),
            origin=journal.origin,
            signer=signer,
            append_id=bytes(16),
            recorded_at_us=deployment.clock.now_us(),
            ids=deployment.ids,
        )
        with pytest.raises(RefusedError) as refused:
            journal.append(plain)
        assert refused.value.code == "failed_precondition"


def test_a_client_encrypts_and_decrypts_on_its_own_side(deployment: Deployment, tmp_path: Path):
    with deployment.open() as journal:
        started = server.start_full(server.JournalServicer(journal, on_keys=lambda: None), tmp_path / "j.sock")
        with JournalClient(tmp_path / "j.sock") as client:
            deployment.say(client, "conv-a", NEEDLE)
            assert payloads(client) == [NEEDLE]
            assert [r.payload for r in client.read_all(from_index=8)] == [NEEDLE]
            head = client.head("conv-a")
            erasure.erase(deployment.author(client, "control"), partition="conv-a", incarnation=head.incarnation)
            assert payloads(client) == [None]
        started.stop(None).wait()


def test_a_payload_belongs_to_its_place():
    key = PayloadKey(bytes(32), partition="conv-a", incarnation=bytes(16))
    stored = key.encrypt(b"said", position=3, nonce=bytes(12))
    assert key.decrypt(stored, position=3, place="x") == b"said"
    with pytest.raises(CorruptError):
        key.decrypt(stored, position=4, place="x")
    with pytest.raises(CorruptError):
        PayloadKey(bytes(32), partition="conv-b", incarnation=bytes(16)).decrypt(stored, position=3, place="x")
    with pytest.raises(CorruptError):
        key.decrypt(b"short", position=3, place="x")
    assert bytes(32).hex() not in repr(key)
