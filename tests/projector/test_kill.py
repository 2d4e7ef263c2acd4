"""kill -9 of projector and readers in a loop: what stands is always a whole generation, and in the end all of it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from artifacts.gc import collect
from artifacts.layout import spec_of
from artifacts.reader import Reader
from artifacts.store import DirectoryStore
from facts.catalog import TABLES
from journal.boot import create_deployment, open_embedded
from journal.store import SqliteJournal
from polyc.appending import Author
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.errors import UnavailableError
from polyc.ids import SystemIds
from polyc.signing import load_signer
from projector.publish import Projector
from tests.support.archive import contents
from tests.support.conversations import conversation, partition_of, turn

MESSAGES = spec_of(TABLES["messages"])

CHILD = """
import sys
from pathlib import Path
from tests.projector.test_kill import child
child(sys.argv[1], Path(sys.argv[2]))
"""


def reader_of(root: DataRoot) -> tuple[SqliteJournal, Reader]:
    policy = root.policy()
    journal = SqliteJournal.open_read_only(
        root.journal_file,
        origin=policy.origin,
        root_public_key=bytes.fromhex(policy.root_key),
        log_public_key=bytes.fromhex(policy.log_key),
    )
    store = DirectoryStore(root.artifacts)
    return journal, Reader(store, keys=journal.keyring, clock=SystemClock(), ids=SystemIds())


def child(role: str, path: Path) -> None:
    """Projects, or reads, until it is killed."""
    root = DataRoot(path)
    journal, reader = reader_of(root)
    signer = load_signer(root.keys / "projector.pem")
    projector = Projector(
        journal, DirectoryStore(root.artifacts), signer=signer, clock=SystemClock(), ids=SystemIds(), search=False
    )
    print("ready", flush=True)
    while True:
        with contextlib.suppress(UnavailableError):
            if role == "projector":
                projector.run_once(budget_events=100)
                projector.maintain()
            else:
                with reader.pin() as pin:
                    partitions = pin.generation.partitions()
                    rows = pin.generation.admit(MESSAGES, partitions=partitions).num_rows
                    assert rows == pin.generation.row_count(MESSAGES)


@pytest.mark.soak
def test_killed_projectors_and_readers_leave_whole_generations(tmp_path: Path) -> None:
    root, clock, ids = DataRoot(tmp_path), SystemClock(), SystemIds()
    create_deployment(root, clock=clock, ids=ids)
    store = DirectoryStore(root.artifacts)
    with open_embedded(root, clock=clock, ids=ids) as journal:
        author = Author(journal, load_signer(root.keys / "importer.pem"), clock=clock, ids=ids)
        own = Reader(store, keys=journal.keyring, clock=clock, ids=ids)
        for cycle in range(15):
            author.append(partition_of(cycle), list(conversation(cycle, turns=1, words=10)))
            author.append(partition_of(cycle // 2), turn(cycle // 2, 1 + cycle, words=10))
            children = [
                subprocess.Popen(
                    [sys.executable, "-c", CHILD, role, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
                for role in ("projector", "projector", "reader")
            ]
            for process in children:
                process.stdout.readline()
            time.sleep(0.05 + 0.09 * (cycle % 9))  # long enough to be in the middle of something
            for process in children:
                assert process.poll() is None, process.stderr.read().decode()
                os.kill(process.pid, signal.SIGKILL)
                process.communicate()
            with contextlib.suppress(UnavailableError):
                generation = own.latest()
                admitted = generation.admit(MESSAGES, partitions=generation.partitions())
                assert admitted.num_rows == generation.row_count(MESSAGES)
            if cycle % 4 == 3:
                collect(store, keys=journal.keyring, clock=clock)
        projector = Projector(
            journal, store, signer=load_signer(root.keys / "projector.pem"), clock=clock, ids=ids, search=False
        )
        assert own.latest().number > 10, "the projectors came to something before they were killed"
        projector.run_once()
        kept = contents(own.latest())
        projector.rebuild()
        assert contents(own.latest()) == kept
        assert own.latest().frontier.size == journal.size()
