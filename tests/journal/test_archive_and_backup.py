"""Archives, backups and fsck: the same log elsewhere, torn tails against damage, and no way back in time."""

import shutil
from pathlib import Path

import pytest

from journal import archive, boot
from journal.archive_import import import_archive
from journal.backup import backup, restore
from journal.database import open_reader, row
from journal.exporting import export
from journal.fsck import fsck
from journal.reading import SqliteReader
from journal.store import SqliteJournal
from journal.verify import Pin, verify, verify_file
from polyc.appending import Author, Draft
from polyc.dataroot import DataRoot
from polyc.errors import CorruptError, RefusedError, UnavailableError
from polyc.signing import load_signer
from tests.journal.log import FENCE, MESSAGE, ORIGIN, TURN_COMPLETE, Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    with log.open() as journal:
        for i in range(4):
            log.say(journal, "conv-a", *[f"a{i}-{n}" for n in range(90)])
            log.say(journal, "conv-b", f"b{i}")
        log.say(journal, "conv-b", "b, anew", new_incarnation=True)
        log.author(journal, "control").append("conv-c", [Draft(TURN_COMPLETE, b"end", closes_fence=True)], fence=FENCE)
    return log


def reader_of(log: Log) -> SqliteReader:
    return SqliteJournal.open_read_only(
        log.path,
        origin=ORIGIN,
        root_public_key=log.signers["root"].public_key,
        log_public_key=log.signers["log"].public_key,
    )


def contents(path: Path, log: Log) -> list:
    with SqliteReader(path, origin=ORIGIN, root_public_key=log.signers["root"].public_key) as reader:
        return list(reader.read_all_raw(from_index=0)) + reader.incarnations()


def exported(log: Log, folder: Path) -> Path:
    with reader_of(log) as reader:
        export(reader, folder)
    return folder


def test_an_archive_imported_elsewhere_has_the_same_entries_checkpoints_and_root(log: Log, tmp_path: Path):
    folder = exported(log, tmp_path / "archive")
    target = tmp_path / "elsewhere" / "journal.sqlite"
    made = import_archive(folder, target, policy=log.policy)
    here, there = verify_file(log.path, policy=log.policy), verify_file(target, policy=log.policy)
    assert (made.size, made.root, made.torn_bytes) == (here.entries, here.root, 0)
    assert (there.root, there.checkpoints) == (here.root, here.checkpoints)
    assert contents(target, log) == contents(log.path, log)
    heir = Log(tmp_path / "heir", seed="heir")
    heir.signers, heir.path = log.signers, target
    with heir.open() as journal:  # with the keys at hand it goes on, closed fences included
        heir.say(journal, "conv-b", "goes on")
        with pytest.raises(RefusedError):
            heir.say(journal, "conv-c", "late", fence=FENCE)
    with pytest.raises(RefusedError):
        import_archive(folder, target, policy=log.policy)


def test_exports_are_the_same_bytes_and_grow_by_new_files_only(log: Log, tmp_path: Path, monkeypatch):
    import journal.exporting

    monkeypatch.setattr(journal.exporting, "ENTRIES_PER_FILE", 100)
    one, two = exported(log, tmp_path / "one"), exported(log, tmp_path / "two")
    files = sorted(path.name for path in one.iterdir())
    assert len(files) > 2
    assert [(one / name).read_bytes() for name in files] == [(two / name).read_bytes() for name in files]
    with log.open() as opened:
        log.say(opened, "conv-d", *["x"] * 120)
    with reader_of(log) as reader:
        again = export(reader, one)
    assert set(files[:-1]) <= set(again.files)
    assert again.added >= 1
    made = import_archive(one, tmp_path / "j.sqlite", policy=log.policy)
    assert made.size == verify_file(log.path, policy=log.policy).entries


def last_file(folder: Path) -> Path:
    return max(folder.iterdir())


def test_a_torn_archive_tail_is_cut_and_reported(log: Log, tmp_path: Path):
    folder = exported(log, tmp_path / "archive")
    file = last_file(folder)
    whole = file.read_bytes()
    frames = archive.scan(whole, place="x").frames
    sealed = [frame.end for frame in frames if frame.kind == archive.CHECKPOINT]
    for cut in (len(whole) - 1, len(whole) - 200, sealed[-2] + 1):
        file.write_bytes(whole[:cut])
        target = tmp_path / f"cut-{cut}.sqlite"
        made = import_archive(folder, target, policy=log.policy)
        assert made.torn_bytes == cut - sealed[-2]
        assert verify_file(target, policy=log.policy, level="V2").ok


def test_an_archive_cut_on_the_border_of_a_frame_is_no_torn_tail(log: Log, tmp_path: Path):
    folder = exported(log, tmp_path / "archive")
    file = last_file(folder)
    whole = file.read_bytes()
    sealed = [frame.end for frame in archive.scan(whole, place="x").frames if frame.kind == archive.CHECKPOINT]
    for cut in (*sealed[:-1], 0):
        file.write_bytes(whole[:cut])
        with pytest.raises(CorruptError) as stopped:
            import_archive(folder, tmp_path / "j.sqlite", policy=log.policy)
        assert (stopped.value.kind, stopped.value.place) == ("archive_gap", file.name)


@pytest.mark.parametrize("kind", [archive.ENTRY, archive.SIGNATURE, archive.CHECKPOINT, archive.COSIGNATURE])
def test_each_frame_that_stands_twice_is_named_at_its_offset(log: Log, tmp_path: Path, kind: int):
    with log.open() as journal:
        journal.add_cosignatures(journal.size(), ["— w AAAAAAAA\n"])
    folder = exported(log, tmp_path / "archive")
    file = last_file(folder)
    frames = archive.scan(file.read_bytes(), place="x").frames
    doubled = [frame for frame in frames if frame.kind == kind][-1]
    at = frames.index(doubled)
    frames = (*frames[:at], doubled, *frames[at:])
    file.write_bytes(b"".join(archive.encode_frame(frame.kind, frame.body) for frame in frames))
    with pytest.raises(CorruptError) as stopped:
        import_archive(folder, tmp_path / "j.sqlite", policy=log.policy)
    assert stopped.value.kind in {"gap", "archive_frame", "duplicate"}
    assert stopped.value.place.startswith(f"{file.name}@")


def test_an_append_replayed_behind_itself_is_named_at_its_offset(log: Log, tmp_path: Path):
    folder = exported(log, tmp_path / "archive")
    file = last_file(folder)
    frames = list(archive.scan(file.read_bytes(), place="x").frames)
    entry, signature, checkpoint = frames[-3:]
    index = int.from_bytes(entry.body[:8], "big")
    replayed = (index + 1).to_bytes(8, "big") + entry.body[8:]
    for position in (None, (1 << 64) - 1):
        body = replayed if position is None else replayed[:34] + position.to_bytes(8, "big") + replayed[42:]
        added = archive.encode_frame(entry.kind, body) + archive.encode_frame(signature.kind, signature.body)
        whole = b"".join(archive.encode_frame(frame.kind, frame.body) for frame in frames[:-1])
        file.write_bytes(whole + added + archive.encode_frame(checkpoint.kind, checkpoint.body))
        with pytest.raises(CorruptError) as stopped:
            import_archive(folder, tmp_path / "j.sqlite", policy=log.policy)
        assert stopped.value.kind == ("duplicate" if position is None else "gap")
        assert stopped.value.place == f"{file.name}@{len(whole)}"


def test_damage_before_a_checkpoint_is_not_a_torn_tail(log: Log, tmp_path: Path):
    folder = exported(log, tmp_path / "archive")
    file = last_file(folder)
    whole = file.read_bytes()
    frames = archive.scan(whole, place="x").frames
    middle = frames[len(frames) // 2]
    for at in range(middle.offset, middle.offset + 9):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CorruptError) as stopped:
            import_archive(folder, tmp_path / "j.sqlite", policy=log.policy)
        assert stopped.value.place == f"{file.name}@{middle.offset}"
        assert not (tmp_path / "j.sqlite").exists()


def test_a_missing_file_and_a_file_of_another_log_are_named(log: Log, tmp_path: Path, monkeypatch):
    import journal.exporting

    monkeypatch.setattr(journal.exporting, "ENTRIES_PER_FILE", 100)
    folder = exported(log, tmp_path / "archive")
    names = sorted(path.name for path in folder.iterdir())
    (folder / names[1]).rename(tmp_path / "aside")
    with pytest.raises(CorruptError) as stopped:
        import_archive(folder, tmp_path / "j.sqlite", policy=log.policy)
    assert stopped.value.kind == "archive_gap"
    with pytest.raises(RefusedError):
        import_archive(tmp_path / "nothing", tmp_path / "j.sqlite", policy=log.policy)
    (tmp_path / "aside").rename(folder / names[1])
    other = Log(tmp_path / "other", seed="other").policy
    import msgspec

    with pytest.raises(CorruptError):
        import_archive(folder, tmp_path / "j.sqlite", policy=msgspec.structs.replace(other, origin="x.test/y"))
    with pytest.raises(CorruptError):  # the right name, other keys
        import_archive(folder, tmp_path / "j.sqlite", policy=other)


def test_an_erased_payload_stays_erased_in_an_archive(log: Log, tmp_path: Path):
    from journal import erasure

    with log.open() as journal:
        head = journal.head("conv-a")
        erasure.erase(log.author(journal, "control"), partition="conv-a", incarnation=head.incarnation, position=90)
    folder = exported(log, tmp_path / "archive")
    assert b"a0-89" not in b"".join(path.read_bytes() for path in folder.iterdir())
    import_archive(folder, tmp_path / "j.sqlite", policy=log.policy)
    assert verify_file(tmp_path / "j.sqlite", policy=log.policy).erased == 1


# -- backups


@pytest.fixture
def root(tmp_path: Path, log: Log) -> DataRoot:
    root = DataRoot(tmp_path / "root")
    boot.create_deployment(root, clock=log.clock, ids=log.ids)
    say(root, log, "one")
    return root


def say(root: DataRoot, log: Log, *texts: str) -> int:
    with boot.open_embedded(root, clock=log.clock, ids=log.ids) as journal:
        author = Author(journal, load_signer(root.keys / "harness.pem"), clock=log.clock, ids=log.ids)
        author.append("conv-a", [Draft(MESSAGE, text.encode()) for text in texts])
        return journal.size()


def test_a_backup_of_a_running_journal_restores_to_the_same_log(root: DataRoot, log: Log, tmp_path: Path):
    with boot.open_embedded(root, clock=log.clock, ids=log.ids) as journal:
        made = backup(root, tmp_path / "backup")
        assert made.size == journal.size()
    shutil.rmtree(root.journal_file.parent)
    restored = restore(tmp_path / "backup", root)
    assert (restored.size, restored.root, restored.aside) == (made.size, made.root, None)
    assert verify(root, level="V2").ok
    assert say(root, log, "goes on") == made.size + 1
    with pytest.raises(RefusedError):
        backup(root, tmp_path / "backup")


def test_an_older_copy_under_something_newer_is_refused_with_the_reason(root: DataRoot, log: Log, tmp_path: Path):
    backup(root, tmp_path / "backup")
    size = say(root, log, "newer")
    with pytest.raises(RefusedError) as refused:
        restore(tmp_path / "backup", root)
    assert f"has seen {size}" in refused.value.message
    report = verify(root)
    pin = Pin(size=size, root=bytes.fromhex(report.root), source="manifest 5", anchored=False)
    shutil.rmtree(root.journal_file.parent)
    with pytest.raises(RefusedError) as refused:
        restore(tmp_path / "backup", root, pins=[pin])
    assert "manifest 5" in refused.value.message
    assert not root.journal_file.exists()


def test_a_backup_that_is_not_what_it_was_when_it_was_made_is_refused(root: DataRoot, log: Log, tmp_path: Path):
    early, late = tmp_path / "early", tmp_path / "late"
    backup(root, early)
    say(root, log, "two")
    backup(root, late)
    shutil.rmtree(root.journal_file.parent)
    statement = (late / "backup.json").read_text()
    shutil.copyfile(early / "journal.sqlite", late / "journal.sqlite")  # an older copy under the newer statement
    with pytest.raises(CorruptError) as refused:
        restore(late, root)
    assert (refused.value.kind, refused.value.place) == ("rollback", "checkpoint 10")
    changes = ["{", statement[:-2] + ', "size": 9}', statement.replace("polychrome.local", "elsewhere"), '{"size": 9}']
    changes += [statement.replace("/v1", "/v9"), statement.replace('"root": "', '"root": "zz')]
    for changed in changes:
        (late / "backup.json").write_text(changed)
        with pytest.raises(CorruptError) as refused:
            restore(late, root)
        assert (refused.value.kind, refused.value.place) == ("backup", str(late / "backup.json"))
    (late / "backup.json").unlink()
    with pytest.raises(RefusedError):
        restore(late, root)
    assert not root.journal_file.exists()


def test_a_backup_of_another_log_does_not_take_a_deployments_place(root: DataRoot, log: Log, tmp_path: Path):
    other = DataRoot(tmp_path / "other")
    boot.create_deployment(other, clock=log.clock, ids=log.ids)
    backup(other, tmp_path / "backup")
    size = say(root, log, "two")
    root.journal_file.unlink()  # nothing here remembers; the policy file does
    with pytest.raises(CorruptError):
        restore(tmp_path / "backup", root)
    assert size
    assert not root.journal_file.exists()


def test_a_backup_with_another_history_is_a_fork(root: DataRoot, log: Log, tmp_path: Path):
    made = backup(root, tmp_path / "backup")
    pin = Pin(size=made.size - 1, root=bytes(32), source="manifest 2", anchored=False)
    with pytest.raises(CorruptError) as refused:
        restore(tmp_path / "backup", root, pins=[pin])
    assert refused.value.kind == "fork"


def test_nothing_is_restored_under_a_running_writer_or_from_a_damaged_copy(root: DataRoot, log: Log, tmp_path: Path):
    backup(root, tmp_path / "backup")
    with boot.open_embedded(root, clock=log.clock, ids=log.ids), pytest.raises(UnavailableError):
        restore(tmp_path / "backup", root)
    copy = tmp_path / "backup" / "journal.sqlite"
    data = copy.read_bytes()
    connection = open_reader(copy)
    at = data.index(row(connection, "SELECT body FROM append WHERE idx = 0")[0][:64])
    connection.close()
    copy.write_bytes(data[:at] + b"X" + data[at + 1 :])
    with pytest.raises(CorruptError):
        restore(tmp_path / "backup", root)
    with pytest.raises(RefusedError):
        restore(tmp_path / "nothing", root)


# -- fsck


def test_fsck_repairs_what_is_derived_and_nothing_else(root: DataRoot, log: Log):
    say(root, log, *[str(i) for i in range(600)])
    import apsw

    assert fsck(root).findings == ()
    connection = apsw.Connection(str(root.journal_file))
    connection.execute("DELETE FROM tile WHERE level = 0 AND n = 1")
    connection.execute("UPDATE tile SET hashes = zeroblob(8192) WHERE level = 0 AND n = 0")
    connection.execute("INSERT INTO tile VALUES (0, 77, x'00')")
    connection.execute("UPDATE part SET leaf = zeroblob(32) WHERE name = 'conv-a'")
    connection.close()
    found = fsck(root)
    assert len(found.findings) == 4
    assert not found.repaired
    assert not verify(root).ok
    assert fsck(root, repair=True).repaired
    assert fsck(root).findings == ()
    assert verify(root, level="V2").ok
    connection = apsw.Connection(str(root.journal_file))
    connection.execute("DELETE FROM tile")
    connection.execute("UPDATE append SET body = CAST(body || x'00' AS BLOB) WHERE idx = 9")
    connection.close()
    with pytest.raises(CorruptError):  # evidence is not repaired
        fsck(root, repair=True)
