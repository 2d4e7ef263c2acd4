"""What is not of its form is named, wherever foreign bytes come in: archives, erasure orders, receipts, cosignatures."""

from pathlib import Path

import msgspec
import pytest

from journal import archive, boot, erasure, notices
from journal.archive_import import import_archive
from journal.exporting import export
from journal.port import Opened
from journal.reading import SqliteReader
from journal.receipt import decode_receipt
from polyc import canonical, note
from polyc.appending import Draft
from polyc.dataroot import DataRoot
from polyc.errors import CorruptError, RefusedError
from polyc.vocabulary import BY_KIND
from tests.journal.log import ORIGIN, Log


def head(**changes: object) -> bytes:
    value = {"format": archive.FORMAT, "from": 0, "origin": ORIGIN} | changes
    return archive.encode_frame(archive.HEAD, canonical.encode(value))


def first_frame(data: bytes) -> archive.Frame:
    checkpoint = archive.encode_frame(archive.CHECKPOINT, b"x")
    return archive.scan(data + checkpoint, place="f").frames[0]


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (head(format="other"), "archive_head"),
        (head(more=1), "archive_head"),
        (head(origin="else.where/log"), "origin"),
        (head(**{"from": -1}), "archive_head"),
        (head(**{"from": "0"}), "archive_head"),
        (head(**{"from": False}), "archive_head"),
        (archive.encode_frame(archive.ENTRY, b"x"), "archive_head"),
    ],
)
def test_a_head_that_is_not_ours_is_named(frame: bytes, kind: str):
    with pytest.raises(CorruptError) as refused:
        archive.decode_head(first_frame(frame), origin=ORIGIN, place="f")
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    "body",
    [
        b"",
        bytes(8) + b"\x00\xff" + b"short",
        bytes(8) + b"\x00\x01" + b"h" + b"\x02",
        bytes(8) + b"\x00\x01" + b"h" + b"\x00more",
        bytes(8) + b"\x00\x01" + b"h" + b"\x01" + bytes(15),
        bytes(8) + b"\x00\x01" + b"h",
    ],
)
def test_an_entry_frame_that_is_cut_or_has_too_much_is_named(body: bytes):
    frame = first_frame(archive.encode_frame(archive.ENTRY, body))
    with pytest.raises(CorruptError):
        archive.decode_entry(frame, b"", place="f")


@pytest.mark.parametrize(
    "frames",
    [
        [(archive.SIGNATURE, bytes(64))],
        [(archive.HEAD, b"{}")],
        [(archive.COSIGNATURE, b"line")],
        [(archive.CHECKPOINT, b"\xff")],
    ],
)
def test_a_frame_that_does_not_stand_there_or_is_no_text_is_named(frames: list[tuple[int, bytes]]):
    whole = head() + b"".join(archive.encode_frame(*frame) for frame in frames)
    scanned = archive.scan(whole + archive.encode_frame(archive.CHECKPOINT, b"note"), place="f")
    with pytest.raises(CorruptError):
        list(archive.items(scanned.frames, place="f"))


@pytest.fixture
def exported(tmp_path: Path) -> tuple[Log, Path]:
    log = Log(tmp_path)
    with log.open() as journal:
        log.say(journal, "conv-a", "one", "two")
    with SqliteReader(log.path, origin=ORIGIN, root_public_key=log.signers["root"].public_key) as reader:
        export(reader, tmp_path / "archive")
    return log, tmp_path / "archive"


def test_an_archive_without_names_gaps_or_a_beginning_is_refused(exported: tuple[Log, Path], tmp_path: Path):
    log, folder = exported
    (file,) = folder.iterdir()
    target = tmp_path / "new" / "journal.sqlite"
    for name, error in [
        ("000000000005-000000000010.pja", RefusedError),
        ("x-y.pja", CorruptError),
        ("٠٠٠٠٠٠٠٠٠٠٠٠-٠٠٠٠٠٠٠٠٠٠١٠.pja", CorruptError),
        (f"000000000000-{'9' * 100}.pja", CorruptError),
    ]:
        file = file.rename(folder / name)
        with pytest.raises(error):
            import_archive(folder, target, policy=log.policy)
    file.rename(folder / "000000000000-000000000010.pja")
    (folder / "000000000020-000000000030.pja").write_bytes(b"")
    with pytest.raises(CorruptError) as refused:
        import_archive(folder, target, policy=log.policy)
    assert refused.value.kind == "archive_gap"
    (folder / "000000000020-000000000030.pja").unlink()
    import_archive(folder, target, policy=log.policy)
    with pytest.raises(RefusedError):  # there is one now
        import_archive(folder, target, policy=log.policy)


@pytest.mark.parametrize("change", ["order", "endless", "root"])
def test_frames_that_give_another_log_than_their_checkpoints_are_refused(
    exported: tuple[Log, Path], tmp_path: Path, change: str
):
    log, folder = exported
    (file,) = folder.iterdir()
    frames = list(archive.scan(file.read_bytes(), place="f").frames)
    entries = [at for at, frame in enumerate(frames) if frame.kind == archive.ENTRY]
    if change == "order":
        frames[entries[0]], frames[entries[1]] = frames[entries[1]], frames[entries[0]]
    elif change == "endless":  # the last entry of an append is gone: its signature stands behind another one
        del frames[entries[-1]]
    else:
        del frames[next(at for at, frame in enumerate(frames) if frame.kind == archive.CHECKPOINT) - 2]
    file.write_bytes(b"".join(archive.encode_frame(frame.kind, frame.body) for frame in frames))
    with pytest.raises(CorruptError):
        import_archive(folder, tmp_path / "new" / "journal.sqlite", policy=log.policy)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"type":"erased","id":"x","partition":"conv-a","incarnation":"zz"}',
     b'{"type":"erased","id":"x","partition":"conv-a","incarnation":"00"}'],
)  # fmt: skip
def test_an_order_to_erase_that_names_nothing_erases_nothing(tmp_path: Path, body: bytes):
    log = Log(tmp_path)
    with log.open() as journal:
        log.say(journal, "conv-a", "one")
        size = journal.size()
        with pytest.raises(RefusedError):
            log.author(journal, "control").append(erasure.NOTICES_PARTITION, [Draft(BY_KIND["erased"].code, body)])
        assert journal.size() == size


def test_what_the_journal_says_of_itself_is_said_once(tmp_path: Path):
    log = Log(tmp_path)
    with log.open() as journal:
        control = log.author(journal, "control")
        assert notices.record_torn_tail(control, Opened(size=8, torn_bytes=0)) is None
        for _ in range(2):
            notices.record_torn_tail(control, Opened(size=8, torn_bytes=4096))
            notices.record_gap(control, detail="a week in May")
        told = [msgspec.json.decode(record.payload) for record in journal.read(erasure.NOTICES_PARTITION)]
    assert [(event["type"], event.get("from_index")) for event in told] == [("recovery", 8), ("gap", None)]
    assert "4096 bytes" in told[0]["detail"]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\xff" + text,
        lambda text: text.replace("c2sp.org/tlog-proof@v1", "c2sp.org/tlog-proof@v2"),
        lambda text: text.replace("index 8", "index 08"),
        lambda text: text.replace("index 8", "indes 8"),
        lambda text: text.replace("index 8\n", "index 8\nAAAA\n"),
        lambda text: text.replace("extra ", "extra AAAA"),
        lambda text: text + "x" * 1024 * 1024,
    ],
)
def test_a_receipt_of_another_spelling_is_not_one(tmp_path: Path, change):
    log = Log(tmp_path)
    with log.open() as journal:
        log.say(journal, "conv-a", "one")
        text = journal.receipt("conv-a", 1)
    assert "index 8\n" in text
    with pytest.raises(CorruptError):
        decode_receipt(change(text), place="r")
    with pytest.raises(CorruptError):
        decode_receipt(b"\xff", place="r")


def test_cosignatures_belong_to_a_checkpoint_and_are_bounded(tmp_path: Path):
    log = Log(tmp_path)
    with log.open() as journal:
        body = note.parse_note(journal.checkpoint(), place="x").text
        lines = [
            str(note.cosign(body, name=f"w{i}.example", signer=log.signers["edge"], time_s=i + 1)) for i in range(65)
        ]
        with pytest.raises(RefusedError):
            journal.add_cosignatures(journal.size() + 1, lines[:1])
        with pytest.raises(RefusedError) as refused:
            journal.add_cosignatures(journal.size(), lines)
        assert refused.value.code == "resource_exhausted"
        journal.add_cosignatures(journal.size(), lines[:1])


def test_a_deployment_whose_making_was_interrupted_keeps_its_log(tmp_path: Path):
    log, root = Log(tmp_path), DataRoot(tmp_path / "root")
    first = boot.create_deployment(root, clock=log.clock, ids=log.ids)
    root.policy_file.unlink()  # the last thing that is made
    assert boot.create_deployment(root, clock=log.clock, ids=log.ids) == first
    assert boot.create_deployment(root, clock=log.clock, ids=log.ids) == first
