"""kill -9 of a whole deployment, one process of it or all, while a writer appends.

What was acknowledged is there, every process is gone, the log verifies, and the next `polyc up` serves it.
"""

import itertools
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from journal.client import JournalClient
from polyc.appending import Author, Draft
from polyc.cli.pins import read_only
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.errors import UnavailableError
from polyc.ids import SystemIds, uuid8_bytes
from polyc.signing import load_signer
from tests.cli.runner import polyc
from tests.support.conversations import conversation, partition_of, turn
from tests.support.ports import free_pair

SERVICES = ("journal", "projector", "control", "query", "watch")
WAIT_S = 60.0


class Up:
    """A `polyc up` of its own, and all that it started."""

    def __init__(self, root: Path, home: Path) -> None:
        command = [sys.executable, "-m", "polyc.cli.main", "--data-root", str(root), "up", "--port", str(free_pair())]
        environment = {
            key: value for key, value in os.environ.items() if key not in ("CLAUDE_CONFIG_DIR", "CODEX_HOME")
        }
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment | {"HOME": str(home)}
        )
        assert self.process.stdout is not None
        assert any("Ctrl-C" in line for line in self.process.stdout), self.process.communicate()[1]

    def service(self, name: str) -> int:
        """The process of one service."""
        return next(pid for pid in self._children(self.process.pid) if name in _words(pid))

    def everything(self) -> list[int]:
        """It and all below it: services, zygotes, workers."""
        found = [self.process.pid]
        for pid in found:
            found += self._children(pid)
        return found

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=WAIT_S)
        return self.process.returncode

    @staticmethod
    def _children(pid: int) -> list[int]:
        try:
            tasks = list(Path(f"/proc/{pid}/task").iterdir())
            return [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            return []


def _words(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


def kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def await_end(pids: list[int]) -> list[int]:
    """Those that do not end in time; by their descriptors, so that nothing is asked twice."""
    left = []
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if not select.select([descriptor], [], [], WAIT_S)[0]:
            left.append(pid)
        os.close(descriptor)
    return left


class Writer:
    """Appends turn after turn through the journal's socket until told to stop; keeps what was acknowledged.

    An append whose answer did not come is repeated under its id: then it is there, once, whatever had become of it.
    """

    def __init__(self, root: DataRoot) -> None:
        self.acknowledged: list[tuple[str, int, list[bytes]]] = []
        self._root = root
        self._stop = threading.Event()
        self._grew = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def await_more(self, count: int) -> None:
        """Until so many more appends were acknowledged."""
        with self._grew:
            target = len(self.acknowledged) + count
            assert self._grew.wait_for(lambda: len(self.acknowledged) >= target, WAIT_S), "the writer comes no further"

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        signer = load_signer(self._root.keys / "importer.pem")
        with JournalClient(self._root.socket("journal")) as client:
            author = Author(client, signer, clock=SystemClock(), ids=SystemIds())
            for number, drafts in _conversations():
                if not self._append(author, partition_of(number), drafts):
                    return

    def _append(self, author: Author, partition: str, drafts: list[Draft]) -> bool:
        append_id = uuid8_bytes(partition, str(len(self.acknowledged)))
        while not self._stop.is_set():
            try:
                ack = author.append(partition, drafts, append_id=append_id)
            except UnavailableError:
                self._stop.wait(0.05)
                continue
            with self._grew:
                self.acknowledged.append((partition, ack.first_position, [draft.payload for draft in drafts]))
                self._grew.notify_all()
            return True
        return False


def _conversations() -> Iterator[tuple[int, list[Draft]]]:
    for index in itertools.count():
        for number in range(4):
            yield number, list(conversation(number, turns=1, words=10)) if index == 0 else turn(number, index, words=10)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    assert polyc(tmp_path / "root", "init").code == 0
    (tmp_path / "home").mkdir()
    return tmp_path / "root"


def check(root: Path, writer: Writer) -> None:
    """The log verifies, and holds each acknowledged append once, where it was acknowledged."""
    said = polyc(root, "verify", "--level", "V2")
    assert said.code == 0, said.err
    with read_only(DataRoot(root)) as reader:
        held = {
            head.partition: [record.payload for record in reader.read(head.partition)] for head in reader.partitions()
        }
    for partition, first, payloads in writer.acknowledged:
        assert held[partition][first - 1 : first - 1 + len(payloads)] == payloads
    said_of = {partition: 0 for partition, _first, _payloads in writer.acknowledged}
    for partition, first, payloads in writer.acknowledged:
        assert first == said_of[partition] + 1, "one behind the other: none is there twice"
        said_of[partition] += len(payloads)


def round_of(root: Path, victims: Callable[[Up], list[int]]) -> None:
    """Start, write, kill in the middle of it, kill what is left; then check, and serve again."""
    up, writer = Up(root, root.parent / "home"), Writer(DataRoot(root))
    try:
        writer.await_more(8)
        killed = victims(up)
        kill(killed)
        if up.process.pid not in killed:
            writer.await_more(8)  # what died is started again, and the writer goes on
        everything = up.everything()
        kill([up.process.pid] if up.process.poll() is None else [])
        assert await_end([*killed, *everything]) == []
    finally:
        writer.stop()
        up.process.communicate()
    check(root, writer)
    again = Up(root, root.parent / "home")
    assert again.stop() == 0
    check(root, writer)


def test_whatever_is_killed_nothing_acknowledged_is_lost_and_no_process_stays(root: Path) -> None:
    """The journal, which is started again; the parent, whom nothing outlives; and, served anew, all at once."""
    up, writer = Up(root, root.parent / "home"), Writer(DataRoot(root))
    again = None
    try:
        writer.await_more(8)
        kill([up.service("journal")])
        writer.await_more(8)
        everything = up.everything()
        kill([up.process.pid])
        assert await_end(everything) == []
        again = Up(root, root.parent / "home")
        writer.await_more(8)
        everything = again.everything()
        kill(everything)
        assert await_end(everything) == []
    finally:
        writer.stop()
        for started in (up, again):
            if started is not None:
                started.process.kill()
                started.process.communicate()
    assert len(everything) > len(SERVICES)
    check(root, writer)


@pytest.mark.soak
@pytest.mark.parametrize("name", [*SERVICES, "parent", "everything"])
def test_killed_again_and_again(root: Path, name: str) -> None:
    for _ in range(5):
        match name:
            case "parent":
                round_of(root, lambda up: [up.process.pid])
            case "everything":
                round_of(root, Up.everything)
            case _:
                round_of(root, lambda up: [up.service(name)])
