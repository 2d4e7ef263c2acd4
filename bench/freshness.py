"""How long an acknowledged turn takes until a new query sees it: `python -m bench.freshness [CONVERSATIONS [TURNS]]`.

The projector follows in a process of its own; this one appends a turn, then asks for the newest generation until its
frontier covers the acknowledgement and the turn's messages are admitted.
"""

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from artifacts.layout import spec_of
from artifacts.reader import Reader
from artifacts.store import DirectoryStore
from bench.deployment import embedded
from facts.catalog import TABLES
from journal.boot import connect
from journal.server import serve
from polyc.appending import Author
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.ids import SystemIds
from polyc.signing import load_signer
from tests.support.conversations import conversation, partition_of, turn

MESSAGES = spec_of(TABLES["messages"])


def measure_freshness(conversations: int, turns: int) -> list[float]:
    """Seconds from each acknowledgement to the first admission that holds the turn."""
    with tempfile.TemporaryDirectory(prefix="polyc-fresh-") as folder:
        with embedded(Path(folder)) as deployment:
            author = Author(
                deployment.journal, load_signer(deployment.root.keys / "importer.pem"),
                clock=deployment.clock, ids=deployment.ids,
            )  # fmt: skip
            for number in range(conversations):
                author.append(partition_of(number), list(conversation(number, turns=1, words=40)))
        return _follow(Path(folder), conversations, turns)


def _follow(root: Path, conversations: int, turns: int) -> list[float]:
    data, clock, ids, stop = DataRoot(root), SystemClock(), SystemIds(), threading.Event()
    server = threading.Thread(target=serve, args=(data,), kwargs={"clock": clock, "ids": ids, "stop": stop})
    server.start()
    while not data.socket("journal").exists():
        time.sleep(0.05)
    command = [sys.executable, "-m", "polyc.cli.main", "--data-root", str(root), "serve", "projector"]
    projector = subprocess.Popen(command)
    try:
        with connect(data, clock=clock, ids=ids) as journal:
            author = Author(journal, load_signer(data.keys / "importer.pem"), clock=clock, ids=ids)
            store = DirectoryStore(data.artifacts)
            reader = Reader(store, keys=journal.keyring, clock=clock, ids=ids)
            while not any(store.list("gen/")) or reader.latest().frontier.size < journal.size():
                time.sleep(0.05)
            seconds = []
            for number in range(turns):
                partition = partition_of(number % conversations)
                before = reader.latest().row_count(MESSAGES, [partition])
                ack = author.append(partition, turn(number % conversations, 1 + number // conversations, words=40))
                started = time.perf_counter()
                while reader.latest().frontier.size <= ack.first_index:
                    time.sleep(0.002)
                assert reader.latest().admit(MESSAGES, partitions=[partition]).num_rows > before
                seconds.append(time.perf_counter() - started)
                time.sleep(0.05 + 0.37 * (number % 5))
            return seconds
    finally:
        projector.terminate()
        projector.wait()
        stop.set()
        server.join()


def main() -> int:
    """Print the percentiles."""
    conversations, turns = [*map(int, sys.argv[1:]), 500, 40][:2] if len(sys.argv) > 1 else (500, 40)
    seconds = sorted(measure_freshness(conversations, turns))
    p50, p95 = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.95)]
    print(
        f"{conversations:,} conversations, {turns} turns: visible after p50 {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
