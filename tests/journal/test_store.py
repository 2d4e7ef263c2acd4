"""The embedded store's own laws: one writer, group commit, torn tails, interior damage, faults of the disk."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from journal.store import SqliteJournal
from journal.verify import verify_file
from journal.wal import inspect_wal
from polyc import entry
from polyc.appending import Head
from polyc.errors import ConflictError, CorruptError, RefusedError, UnavailableError
from polyc.limits import APPEND_QUEUE_MAX
from tests.journal.forger import copy_live
from tests.journal.log import ORIGIN, Log


def texts(journal, partition="conv-a"):
    return [record.payload.decode() for record in journal.read(partition)]


def test_what_was_acknowledged_is_there_after_reopening(log: Log):
    with log.open() as journal:
        log.say(journal, "conv-a", "one", "two")
        size, note = journal.size(), journal.checkpoint()
    with log.open() as journal:
        assert texts(journal) == ["one", "two"]
        assert (journal.size(), journal.checkpoint()) == (size, note)
        assert log.say(journal, "conv-a", "three").first_position == 3


def test_a_second_writer_is_refused_at_open_and_told_who_writes(log: Log):
    with log.open(socket="/run/j.sock"):
        with pytest.raises(UnavailableError) as refused:
            log.open()
        assert str(os.getpid()) in refused.value.message
        assert "/run/j.sock" in refused.value.message
    log.open().close()


def test_the_lock_of_a_killed_process_is_free(log: Log):
    log.open().close()
    code = (
        "import sys; from pathlib import Path; from journal.lock import WriterLock\n"
        "lock = WriterLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    lock = log.path.with_name("journal.lock")
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(UnavailableError):
            log.open()
        other.kill()
        other.wait()
        log.open().close()


def test_many_writers_share_commits_and_every_one_is_answered(log: Log):
    with log.open() as journal:
        before = len(checkpoints(log))
        errors = []

        def write(i: int) -> None:
            try:
                for n in range(5):
                    log.say(journal, f"conv-{i}", f"{i}-{n}")
            except Exception as error:  # the test's main thread tells it
                errors.append(error)

        threads = [threading.Thread(target=write, args=(i,)) for i in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        for i in range(32):
            assert texts(journal, f"conv-{i}") == [f"{i}-{n}" for n in range(5)]
        assert len(checkpoints(log)) - before < 160, "no commit was shared"


def checkpoints(log: Log) -> list:
    import apsw

    connection = apsw.Connection(str(log.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute("SELECT size FROM checkpoint").fetchall()
    finally:
        connection.close()


def test_a_full_queue_is_resource_exhausted_and_appends_nothing(log: Log):
    with log.open(queue_max=4) as journal:
        appends = [log.sign(f"conv-{i}", b"x") for i in range(4)]
        hold, holding = threading.Event(), threading.Event()

        def occupy(_connection) -> None:
            holding.set()
            hold.wait()

        busy = threading.Thread(target=journal._exclusively, args=(occupy,))
        busy.start()
        holding.wait()
        waiting = journal.submit(appends)
        with pytest.raises(RefusedError) as refused:
            journal.append(log.sign("conv-x", b"x"))
        assert refused.value.code == "resource_exhausted"
        hold.set()
        busy.join()
        assert [pending.result().first_position for pending in waiting] == [1, 1, 1, 1]
        assert journal.head("conv-x") is None
    assert APPEND_QUEUE_MAX > 4


def test_append_many_answers_in_order_and_chains_within_one_commit(log: Log):
    with log.open() as journal:
        first = log.sign("conv-a", b"1")
        from polyc import entry
        from polyc.appending import Head

        leaf = entry.leaf_hash(first.entries[-1].header)
        incarnation = entry.decode_header(first.entries[0].header, place="x").incarnation
        second = log.sign("conv-a", b"2", head=Head("conv-a", incarnation, 1, leaf))
        acks = journal.append_many([first, second])
        assert [ack.first_position for ack in acks] == [1, 2]
        assert acks[0].checkpoint == acks[1].checkpoint


def test_a_reader_in_another_process_sees_only_sealed_entries(log: Log):
    with log.open() as journal:
        log.say(journal, "conv-a", "one")
        with SqliteJournal.open_read_only(
            log.path,
            origin=ORIGIN,
            root_public_key=log.signers["root"].public_key,
            log_public_key=log.signers["log"].public_key,
        ) as reader:
            assert texts(reader) == ["one"]
            assert reader.wait_beyond(reader.size(), 0.0) == reader.size()
            waiter = threading.Thread(target=lambda: seen.append(reader.wait_beyond(size, 30.0)))
            seen, size = [], reader.size()
            waiter.start()
            log.say(journal, "conv-a", "two")
            waiter.join()
            assert seen == [size + 1]
            assert texts(reader) == ["one", "two"]


def test_a_journal_of_another_log_is_refused(log: Log, tmp_path: Path):
    log.open().close()
    with pytest.raises(CorruptError) as refused:
        SqliteJournal.open(
            log.path,
            origin="polychrome.test/other",
            root_public_key=log.signers["root"].public_key,
            log_signer=log.signers["log"],
            clock=log.clock,
            ids=log.ids,
        )
    assert refused.value.kind == "origin"
    stranger = Log(tmp_path / "s", seed="stranger")
    stranger.path = log.path
    with pytest.raises(CorruptError) as refused:
        stranger.open()
    assert refused.value.kind == "signature"


# -- the write-ahead log as crashes and bad disks leave it


def crashed(log: Log, tmp_path: Path) -> tuple[Log, list[str]]:
    """The files of a journal that died after six acknowledged appends."""
    with log.open() as journal:
        for i in range(6):
            log.say(journal, "conv-a", f"{i}" * 50)
        copy_live(log, tmp_path / "crashed")
    other = Log(tmp_path / "crashed", seed="heir")
    other.signers = log.signers
    return other, [f"{i}" * 50 for i in range(6)]


def wal(log: Log) -> Path:
    return log.path.with_name(log.path.name + "-wal")


def test_a_killed_writer_leaves_every_acknowledged_append(log: Log, tmp_path: Path):
    dead, said = crashed(log, tmp_path)
    with dead.open() as journal:
        assert texts(journal) == said
        assert journal.torn_bytes == 0


def commit_borders(data: bytes, frame: int) -> list[int]:
    """Where commits end: behind each frame whose header states the size of the database."""
    starts = range(32, len(data), frame)
    return [32] + [at + frame for at in starts if data[at + 4 : at + 8] != bytes(4)]


def test_a_wal_cut_at_any_byte_opens_with_a_prefix_reports_the_cut_and_goes_on(log: Log, tmp_path: Path):
    dead, said = crashed(log, tmp_path)
    whole = wal(dead).read_bytes()
    pristine = dead.path.read_bytes()
    frames = inspect_wal(wal(dead)).committed_frames
    frame = (len(whole) - 32) // frames
    borders = commit_borders(whole, frame)
    cuts = {32 + frame * n + d for n in range(frames - 9, frames + 1) for d in (-1, 0, 1, 24)}
    cuts |= set(range(len(whole) - 2 * frame, len(whole), 701))
    for cut in sorted(cut for cut in cuts if cut <= len(whole)):
        dead.path.write_bytes(pristine)
        wal(dead).write_bytes(whole[:cut])
        dead.path.with_name(dead.path.name + "-shm").unlink(missing_ok=True)
        with dead.open() as journal:
            kept = texts(journal)
            assert kept == said[: sum(border <= cut for border in borders) - sum(b <= cut for b in borders[:-6])]
            assert journal.torn_bytes == cut - max(border for border in borders if border <= cut)
            dead.say(journal, "conv-a", "after", "the cut")
        with dead.open() as journal:  # what was acknowledged after the cut is not hidden behind it
            assert texts(journal) == [*kept, "after", "the cut"]


@pytest.mark.parametrize("fill", [b"\x00", b"\xff"])
def test_a_last_block_of_zeros_or_ones_is_a_torn_tail(log: Log, tmp_path: Path, fill: bytes):
    dead, said = crashed(log, tmp_path)
    data = wal(dead).read_bytes()
    wal(dead).write_bytes(data[:-4096] + fill * 4096)
    with dead.open() as journal:
        assert texts(journal) == said[:5]
        assert journal.torn_bytes > 0


def test_a_flipped_bit_in_the_middle_of_the_wal_stops_and_removes_nothing(log: Log, tmp_path: Path):
    dead, _said = crashed(log, tmp_path)
    data = wal(dead).read_bytes()
    frames = inspect_wal(wal(dead)).committed_frames
    frame = (len(data) - 32) // frames
    at = 32 + frame * (frames // 2) + 100
    damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    wal(dead).write_bytes(damaged)
    with pytest.raises(CorruptError) as stopped:
        dead.open()
    assert stopped.value.kind == "wal"
    assert f"@{frames // 2 + 1}" in stopped.value.place
    assert wal(dead).read_bytes() == damaged
    shutil.copyfile(dead.path, tmp_path / "copy")  # the sibling: SQLite alone opens it and forgets the rest
    shutil.copyfile(wal(dead), tmp_path / "copy-wal")
    import apsw

    connection = apsw.Connection(str(tmp_path / "copy"))
    assert connection.execute("SELECT sum(n) FROM append").get < 8 + 6
    connection.close()


@pytest.mark.parametrize("at", range(0, 32, 3))
def test_a_flipped_bit_in_the_wals_header_stops_too_and_sqlite_alone_would_forget_all_of_it(
    log: Log, tmp_path: Path, at: int
):
    dead, _said = crashed(log, tmp_path)
    data = wal(dead).read_bytes()
    damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    wal(dead).write_bytes(damaged)
    with pytest.raises(CorruptError) as stopped:
        dead.open()
    assert (stopped.value.kind, stopped.value.place) == ("wal", "journal.sqlite-wal@0")
    assert wal(dead).read_bytes() == damaged
    wal(dead).write_bytes(data)
    with dead.open() as journal:
        assert journal.size() > 8


def test_a_torn_header_over_frames_that_the_database_holds_is_a_torn_tail(log: Log, tmp_path: Path):
    dead, _said = crashed(log, tmp_path)
    moved = apsw.Connection(str(dead.path))  # what a checkpoint of the WAL did before its header was written anew
    moved.execute("PRAGMA wal_checkpoint(PASSIVE)")
    data = wal(dead).read_bytes()
    size = moved.execute("SELECT max(size) FROM checkpoint").get
    copy = tmp_path / "powerless"
    copy.mkdir()
    shutil.copyfile(dead.path, copy / "journal.sqlite")
    (copy / "journal.sqlite-wal").write_bytes(data[:20] + bytes(12) + data[32:])
    assert inspect_wal(copy / "journal.sqlite-wal").interior_damage is None
    moved.close()
    with dead.open() as journal:
        assert journal.size() == size


def test_a_failed_commit_leaves_heads_tree_and_keys_as_they_were(log: Log):
    with log.open() as journal:
        log.say(journal, "conv-a", "one")
        before = (journal.head("conv-a"), journal.size(), journal.checkpoint())
        sealer = journal._sealer

        class NoCommit:
            """A connection whose COMMIT finds the disk full."""

            def __init__(self, real) -> None:
                self.real = real

            def __getattr__(self, name: str):
                return getattr(self.real, name)

            def execute(self, statement: str, *rest: object):
                if statement == "COMMIT":
                    import apsw

                    raise apsw.FullError("disk full")
                return self.real.execute(statement, *rest)

        real, sealer._connection = sealer._connection, NoCommit(sealer._connection)
        with pytest.raises(UnavailableError) as refused:
            log.say(journal, "conv-a", "lost")
        assert refused.value.code == "resource_exhausted"
        sealer._connection = real
        assert (journal.head("conv-a"), journal.size(), journal.checkpoint()) == before
        log.say(journal, "conv-a", "two")
        assert texts(journal) == ["one", "two"]
    with log.open() as journal:
        assert texts(journal) == ["one", "two"]


def test_a_repeat_signed_anew_at_the_head_is_found_beside_others_in_one_commit(log: Log):
    with log.open() as journal:
        log.say(journal, "conv-a", "one", append_id=b"i" * 16)
        again = log.sign("conv-a", b"one", head=journal.head("conv-a"), append_id=b"i" * 16)
        other, fresh = log.sign("conv-b", b"new"), log.sign("conv-c", b"fresh")
        acks = journal.append_many([other, again, fresh])
        assert [ack.repeated for ack in acks] == [False, True, False]
        assert (acks[1].first_position, journal.head("conv-a").position) == (1, 1)
        assert texts(journal, "conv-b") == ["new"]
        assert texts(journal, "conv-c") == ["fresh"]
    assert verify_file(log.path, policy=log.policy, level="V2").ok


def test_an_author_who_opens_partitions_without_end_is_slowed_and_nobody_else_is(log: Log, monkeypatch):
    monkeypatch.setattr("journal.store.PARTITIONS_OPENED_BURST", 10)
    with log.open(opens_per_s=2.0) as journal:  # sys-keys was the first of ten
        for i in range(9):
            log.say(journal, f"conv-{i}", "x")
        with pytest.raises(RefusedError) as refused:
            log.say(journal, "conv-9", "x")
        assert (refused.value.code, journal.head("conv-9")) == ("resource_exhausted", None)
        log.say(journal, "conv-0", "goes on")
        log.clock.advance(seconds=1)
        log.say(journal, "conv-9", "x")
        log.say(journal, "conv-10", "x")
        with pytest.raises(RefusedError):
            log.say(journal, "conv-11", "x")


def test_an_incarnation_that_was_used_before_is_not_started_again(log: Log):
    with log.open() as journal:
        log.say(journal, "conv-a", "one")
        first = journal.head("conv-a")
        log.say(journal, "conv-a", "two", new_incarnation=True)
        now = journal.head("conv-a").incarnation
        genesis = Head("conv-a", first.incarnation, 0, entry.genesis(ORIGIN, "conv-a", first.incarnation))
        with pytest.raises(RefusedError) as refused:
            journal.append(log.sign("conv-a", b"three", head=genesis, replaces=now))
        assert refused.value.code == "already_exists"
        unborn = Head("conv-a", bytes(16), 0, bytes(32))  # not from its genesis on
        with pytest.raises(ConflictError):
            journal.append(log.sign("conv-a", b"three", head=unborn, replaces=now))
        journal.append(log.sign("conv-a", b"three", head=log.genesis("conv-a"), replaces=now))
