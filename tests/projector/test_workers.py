"""kill -9 of a projector that rebuilds takes its worker processes along; kill -9 of one of those can be tried again."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from polyc.errors import UnavailableError
from projector.workers import Worker, Workers, together

WAIT_S = 60  # a bound for a hung test, never a measurement

PARENT = "from tests.projector.test_workers import parent; parent()"


class Never:
    """A journal, a store, a meaning: whoever opens one says so and waits for what never comes."""

    def __init__(self) -> None:
        print("waiting", flush=True)
        threading.Event().wait()


def opened(worker: Worker, _number: int) -> None:
    """A piece of work that does not get beyond its journal."""
    raise AssertionError(f"{worker.journal} was opened")


def parent() -> None:
    """Rebuild by two processes until killed."""
    workers = Workers(count=2, open_journal=Never, open_store=Never, open_meaning=Never)
    with together(workers, stopping=lambda: False) as share:
        list(share(opened, range(2)))


def killed(_worker: Worker, number: int) -> int:
    """A piece of work whose process is killed under it, when the number is odd."""
    if number % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_worker_that_is_killed_leaves_something_to_try_again() -> None:
    workers = Workers(count=1, open_journal=Never, open_store=Never, open_meaning=Never)
    with together(workers, stopping=lambda: False) as share:
        assert list(share(killed, [0])) == [0]
        with pytest.raises(UnavailableError, match="was killed"):
            list(share(killed, [1]))


def test_workers_end_with_a_parent_that_was_killed() -> None:
    """The pipe of their output is closed by nobody but them."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"waiting\n"] * 2
        process.kill()
        process.communicate(timeout=WAIT_S)
