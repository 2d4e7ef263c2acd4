"""Nothing acknowledged is lost: power loss at any write, kill -9 at any moment, a full or failing disk."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

import journal.database
from journal.verify import verify_file
from polyc.errors import CorruptError, UnavailableError
from tests.journal.log import Log
from tests.journal.power import ForgetfulDisk

PARTITIONS = 3


def workload(log: Log, disk: ForgetfulDisk, *, appends: int, synchronous: str) -> list[tuple[int, str, str]]:
    """Append and note after which operation of the disk each append was acknowledged."""
    acknowledged = []
    with log.open(vfs=disk.name, synchronous=synchronous) as journal:
        for i in range(appends):
            partition, text = f"conv-{i % PARTITIONS}", f"{i}:" + "x" * (i * 37 % 900)
            log.say(journal, partition, text, "second")
            acknowledged.append((len(disk.log), partition, text))
    return acknowledged


def lost(log: Log, left: Path, acknowledged: list[tuple[int, str, str]], *, at: int) -> list[str]:
    """Open what was left; which acknowledged appends are not there?"""
    survivor = Log(left, seed="survivor")
    survivor.path = left / "journal.sqlite"
    survivor.signers, survivor.policy = log.signers, log.policy
    missing = []
    with survivor.open() as opened:
        seen = {f"conv-{i}": [r.payload for r in opened.read(f"conv-{i}")] for i in range(PARTITIONS)}
        for when, partition, text in acknowledged:
            if when <= at and text.encode() not in seen[partition]:
                missing.append(text)
        assert all(len(payloads) % 2 == 0 for payloads in seen.values()), "half an append survived"
        survivor.say(opened, "conv-0", "goes", "on")
    assert verify_file(survivor.path, policy=log.policy, level="V2").ok
    return missing


def rounds(tmp_path: Path, monkeypatch, *, synchronous: str, count: int, seed: int) -> int:
    """How many crashes lost something acknowledged."""
    monkeypatch.setattr(journal.database, "WAL_AUTOCHECKPOINT_PAGES", 24)  # checkpoints happen within the workload
    log = Log(tmp_path / "log")
    disk = ForgetfulDisk(f"forgetful-{synchronous}-{seed}")
    acknowledged = workload(log, disk, appends=25, synchronous=synchronous)
    chance = random.Random(seed)
    losses = 0
    for number in range(count):
        at = chance.randint(acknowledged[0][0], len(disk.log))
        left = tmp_path / f"left-{number}"
        disk.leave(left, at=at, chance=chance, keep=chance.choice([0.0, 0.5, 0.9]))
        try:
            losses += bool(lost(log, left, acknowledged, at=at))
        except CorruptError:
            losses += 1
    return losses


def test_a_power_loss_at_any_write_loses_nothing_acknowledged(tmp_path: Path, monkeypatch):
    assert rounds(tmp_path, monkeypatch, synchronous="FULL", count=40, seed=1) == 0


def test_with_synchronous_normal_the_same_method_finds_losses(tmp_path: Path, monkeypatch):
    assert rounds(tmp_path, monkeypatch, synchronous="NORMAL", count=20, seed=2) > 0


@pytest.mark.soak
def test_a_power_loss_at_any_write_loses_nothing_acknowledged_over_many_rounds(tmp_path: Path, monkeypatch):
    for seed in range(20):
        assert rounds(tmp_path / str(seed), monkeypatch, synchronous="FULL", count=100, seed=seed) == 0


def after(count: int, kind: str, error: Exception):
    """Let `count` operations of this kind pass, then fail every one."""
    passed = [0]

    def refuse(op):
        if op.kind != kind or not op.file.endswith("-wal"):
            return None
        passed[0] += 1
        return error if passed[0] > count else None

    return refuse


@pytest.mark.parametrize("count", range(5))
def test_a_full_disk_acknowledges_nothing_keeps_reading_and_goes_on_when_there_is_room(tmp_path: Path, count: int):
    log = Log(tmp_path)
    disk = ForgetfulDisk(f"full-{count}")
    with log.open(vfs=disk.name) as opened:
        log.say(opened, "conv-a", "before")
        disk.refuse = after(count, "write", apsw.FullError("no space left on device"))
        with pytest.raises(UnavailableError) as refused:
            log.say(opened, "conv-a", "x" * 30_000)
        assert refused.value.code == "resource_exhausted"
        assert [r.payload for r in opened.read("conv-a")] == [b"before"]
        disk.refuse = lambda _op: None
        log.say(opened, "conv-a", "after")
    with log.open() as opened:
        assert [r.payload for r in opened.read("conv-a")] == [b"before", b"after"]
    assert verify_file(log.path, policy=log.policy, level="V2").ok


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_after_an_io_error_nothing_more_is_acknowledged_until_it_opens_anew(tmp_path: Path, kind: str):
    log = Log(tmp_path)
    disk = ForgetfulDisk(f"eio-{kind}")
    with log.open(vfs=disk.name) as opened:
        log.say(opened, "conv-a", "before")
        disk.refuse = after(0, kind, apsw.IOError("input/output error"))
        with pytest.raises(UnavailableError):
            log.say(opened, "conv-a", "lost")
        disk.refuse = lambda _op: None
        with pytest.raises(UnavailableError):  # an fsync that failed once may succeed without having written
            log.say(opened, "conv-a", "not trusted")
        assert [r.payload for r in opened.read("conv-a")] == [b"before"]
    with log.open() as opened:
        assert [r.payload for r in opened.read("conv-a")][:1] == [b"before"]
        log.say(opened, "conv-a", "after")
    assert verify_file(log.path, policy=log.policy, level="V2").ok


KILLED = """
import sys, threading
from pathlib import Path
from polyc.clock import SystemClock
from polyc.ids import SystemIds
from tests.journal.log import Log
log = Log(Path(sys.argv[1]))
log.clock, log.ids = SystemClock(), SystemIds()
journal = log.open()
mutex = threading.Lock()
def write(name):
    for n in range(10_000):
        ack = log.say(journal, name, f"{name}:{ack_of(journal, name) + 1}")
        with mutex:
            print(name, ack.last_position, flush=True)
def ack_of(journal, name):
    head = journal.head(name)
    return head.position if head else 0
threads = [threading.Thread(target=write, args=(f"conv-{sys.argv[2]}-{i}",), daemon=True) for i in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def kill_rounds(tmp_path: Path, count: int) -> None:
    """Kill the writer after a few acknowledgements, again and again, on the same journal."""
    chance = random.Random(9)
    log = Log(tmp_path)
    acknowledged: dict[str, int] = {}
    for number in range(count):
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            for _line in range(chance.randint(1, 60)):
                name, position = writer.stdout.readline().split()
                acknowledged[name.decode()] = int(position)
            writer.send_signal(signal.SIGKILL)
            for line in writer.stdout.read().splitlines(keepends=True):
                if line.endswith(b"\n"):  # acknowledged before the kill, told before it
                    name, position = line.split()
                    acknowledged[name.decode()] = int(position)
        with log.open() as opened:
            for name, position in acknowledged.items():
                texts = [record.payload.decode() for record in opened.read(name)]
                assert len(texts) >= position, "an acknowledged append is gone"
                assert texts == [f"{name}:{n + 1}" for n in range(len(texts))]
    assert verify_file(log.path, policy=log.policy, level="V2").ok


def test_kill_minus_nine_at_any_moment_loses_nothing_acknowledged(tmp_path: Path):
    kill_rounds(tmp_path, 10)


@pytest.mark.soak
def test_kill_minus_nine_at_any_moment_loses_nothing_acknowledged_200_times(tmp_path: Path):
    kill_rounds(tmp_path, 200)
