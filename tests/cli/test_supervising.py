"""Supervision: what dies is started again, what keeps dying ends everything, and the journal stops last."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from polyc.cli.serving import SUPERVISED_VARIABLE
from polyc.cli.supervising import Child, Supervisor, check_free
from polyc.clock import ManualClock, SystemClock
from polyc.errors import RefusedError, UnavailableError
from polyc.limits import RESTARTS_MAX

# A process that says it is up, waits, and says that it was told to stop.
OBEDIENT = """
import pathlib, signal, sys, threading
name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
(folder / name).write_text("up")
stop.wait()
with (folder / "stopped").open("a") as file:
    file.write(name + " ")
"""


def obedient(name: str, folder: Path) -> Child:
    return Child(name, [sys.executable, "-c", OBEDIENT, name, str(folder)], (folder / name).exists)


def failing(name: str, *, answers: bool = True) -> Child:
    return Child(name, [sys.executable, "-c", "raise SystemExit(7)"], lambda: answers)


def test_they_stop_in_the_reverse_order_of_their_start(tmp_path: Path) -> None:
    supervisor = Supervisor(
        [obedient(name, tmp_path) for name in ("journal", "projector", "query")],
        clock=SystemClock(),
        stop=threading.Event(),
    )
    supervisor.start()
    supervisor.stop_all()
    assert (tmp_path / "stopped").read_text().split() == ["query", "projector", "journal"]


def test_a_child_that_dies_is_started_again(tmp_path: Path) -> None:
    child, stop = obedient("journal", tmp_path), threading.Event()
    supervisor = Supervisor([child], clock=SystemClock(), stop=stop)
    supervisor.start()
    first = child.process
    assert first is not None
    first.kill()
    first.wait()
    (tmp_path / "journal").unlink()
    watcher = threading.Thread(target=supervisor.watch)
    watcher.start()
    while not child.answers():  # the second one says so itself
        os.sched_yield()
    stop.set()
    watcher.join()
    assert child.process is not None
    assert child.process.pid != first.pid
    supervisor.stop_all()


def test_a_child_that_keeps_dying_ends_everything_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    child = failing("query")
    supervisor = Supervisor([child], clock=ManualClock(), stop=threading.Event())
    supervisor.start()
    assert supervisor.watch() == 1
    supervisor.stop_all()
    assert len(child.starts_s) == RESTARTS_MAX + 1
    assert "query ended with code 7" in capsys.readouterr().err


def test_a_child_that_never_answers_is_named() -> None:
    supervisor = Supervisor([failing("journal", answers=False)], clock=ManualClock(), stop=threading.Event())
    with pytest.raises(UnavailableError) as raised:
        supervisor.start()
    supervisor.stop_all()
    assert raised.value.message == "journal ended with code 7 before it answered"


def test_a_taken_port_is_refused_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RefusedError) as raised:
            check_free(taken.getsockname()[1])
    assert raised.value.code == "failed_precondition"
    with pytest.raises(RefusedError):
        check_free(65536)


def test_a_supervised_process_does_not_outlive_its_supervisor(tmp_path: Path) -> None:
    environment = {**os.environ, SUPERVISED_VARIABLE: "1"}
    code = "from polyc.cli.serving import stop_event; stop_event().wait()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, env=environment, cwd=tmp_path)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0
