"""How long a turn that an agent wrote takes until a query sees it: `python -m bench.watch [CORPUS [TURNS]]`.

Four processes as `polyc up` has them: the journal, the projector, the watcher, and this one, which appends a turn to a
transcript and asks for the newest generation until the turn's prompt is admitted. Without CORPUS two hundred small
sessions are written. Every third turn goes to a session of 24 MB: what an append costs must not depend on what stands
before it.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from artifacts.layout import spec_of
from artifacts.reader import Reader
from artifacts.store import DirectoryStore
from bench.measure import Measurement
from facts.catalog import TABLES
from journal.boot import connect
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.ids import SystemIds
from sources.conversation import Identity
from tests.sources.histories import ClaudeFile, tool

MESSAGES = spec_of(TABLES["messages"])
SESSIONS = 200
LARGE_SIZE_BYTES = 24_000_000
LARGE = "1a23e000-0000-4000-8000-000000000000"


def measure(corpus: Path | None = None, turns: int = 40) -> list[Measurement]:
    """The two percentiles as rates, against the bound of 0.7 s."""
    seconds = sorted(watched(corpus, turns))
    return [
        Measurement(
            what=f"turn written until it is a row, p{percent}",
            unit="1/s",
            ours=1 / seconds[min(int(len(seconds) * percent / 100), len(seconds) - 1)],
            peer=1 / 0.7,
            peer_name="the bound of 0.7 s",
            note=f"{seconds[min(int(len(seconds) * percent / 100), len(seconds) - 1)] * 1000:.0f} ms",
        )
        for percent in (50, 95)
    ]


def watched(corpus: Path | None, turns: int) -> list[float]:
    """Seconds from each write to the first generation that shows it."""
    with tempfile.TemporaryDirectory(prefix="polyc-watch-") as folder:
        home = Path(folder) / "home"
        if corpus is None:
            write_sessions(home)
        else:
            shutil.copytree(corpus / "claude", home)
        large = large_session().write(home)
        root = DataRoot(Path(folder) / "root")
        base = [sys.executable, "-m", "polyc.cli.main", "--data-root", str(root.path)]
        subprocess.run([*base, "import", str(home)], check=True, capture_output=True)
        with (
            running([*base, "serve", "journal"]),
            answering(root),
            running([*base, "serve", "projector"]),
            running([*base, "watch", str(home)]),
        ):
            return list(latencies(root, home, large, turns))


def latencies(root: DataRoot, home: Path, large: Path, turns: int) -> Iterator[float]:
    """Append a turn, wait until its message is admitted, rest, and again."""
    clock, ids = SystemClock(), SystemIds()
    small = sorted(path for path in home.rglob("*.jsonl") if "subagents" not in path.parts and path != large)
    with connect(root, clock=clock, ids=ids) as journal:
        reader = Reader(DirectoryStore(root.artifacts), keys=journal.keyring, clock=clock, ids=ids)
        for number in range(-2, turns):  # the first two wait until everybody runs, and are not counted
            path = large if number % 3 == 2 or number == -2 else small[number * 7 % len(small)]
            partition = Identity("claude-code", path.stem).partition
            before = reader.latest().row_count(MESSAGES, [partition])
            appended(path, number)
            begun = time.perf_counter()
            while reader.latest().row_count(MESSAGES, [partition]) == before:
                time.sleep(0.002)
            seconds = time.perf_counter() - begun
            table = reader.latest().admit(MESSAGES, partitions=[partition], columns=["text"])
            assert f"Turn {number}, please." in table["text"].to_pylist()
            if number >= 0:
                yield seconds
            time.sleep(0.05 + 0.37 * (number % 5))


def appended(path: Path, number: int) -> None:
    """A prompt and its answer at the end of a transcript."""
    last = json.loads(path.read_bytes().rstrip(b"\n").rpartition(b"\n")[2])
    turn = ClaudeFile(last.get("sessionId", path.stem), prefix=f"watched-{number}-")
    turn.last = last.get("uuid")
    turn.say(f"Turn {number}, please.")
    turn.answer(f"msg-watched-{number}", "It is done.")
    with path.open("ab") as stream:
        stream.write(turn.bytes())


def write_sessions(home: Path) -> None:
    """Small sessions of a few turns each."""
    for number in range(SESSIONS):
        session = ClaudeFile(f"00000000-0000-4000-8000-{number:012d}")
        for turn in range(5):
            session.say(f"Question {turn} of session {number}?")
            session.answer(f"m{turn}", "An answer of some words. " * 20)
        session.write(home)


def large_session() -> ClaudeFile:
    """One session as large as the largest that people have."""
    session = ClaudeFile(LARGE)
    written = 0
    while written < LARGE_SIZE_BYTES:
        number = len(session.lines)
        session.say(f"Look at file {number}.")
        session.answer(f"m{number}", tool(f"t{number}", command=f"cat file-{number}"), stop="tool_use")
        session.result(f"t{number}", f"{number} line of the file\n" * 250)
        session.answer(f"n{number}", "I have looked at it.")
        written += 7_500
    return session


@contextmanager
def running(command: list[str]) -> Iterator[None]:
    """A process for a while."""
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


@contextmanager
def answering(root: DataRoot) -> Iterator[None]:
    """From when the journal answers on."""
    while not root.socket("journal").exists():
        time.sleep(0.05)
    yield


def main() -> int:
    """Print the percentiles of small sessions and of the large one."""
    corpus = Path(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] != "-" else None
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    seconds = watched(corpus, turns)
    for name, some in (
        ("small sessions", sorted(s for i, s in enumerate(seconds) if i % 3 != 2)),
        ("the session of 24 MB", sorted(seconds[2::3])),
        ("all", sorted(seconds)),
    ):
        p50, p95 = some[len(some) // 2], some[min(int(len(some) * 0.95), len(some) - 1)]
        print(f"{name}: {len(some)} turns, written → row: p50 {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
