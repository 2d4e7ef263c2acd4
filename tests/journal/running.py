"""A journal's process in a thread of the test's own, for tests of its sockets."""

import threading

from journal import server
from polyc.appending import Author, Draft
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.ids import SystemIds
from polyc.signing import load_signer
from tests.journal.log import MESSAGE


class Running:
    """A journal process in a thread of this one."""

    def __init__(self, root: DataRoot) -> None:
        self.root = root
        self._stop, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        assert self._ready.wait(30)

    def _serve(self) -> None:
        server.serve(self.root, clock=SystemClock(), ids=SystemIds(), stop=self._stop, ready=self._ready.set)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def author(self, port, role: str) -> Author:
        signer = load_signer(self.root.keys / f"{role}.pem")
        return Author(port, signer, clock=SystemClock(), ids=SystemIds())

    def say(self, port, partition: str, *texts: str) -> None:
        self.author(port, "harness").append(partition, [Draft(MESSAGE, text.encode()) for text in texts])
