"""Follow mode embeds by itself: beside a projector that publishes, a thread gives new search packs their vectors.

It follows the settings (`polyc semantic enable` and `disable` need no restart) and never holds up what is lexical: a
generation is searchable when it is published, and hybrid answers say `semantic_incomplete` until its vectors are there.
What cannot be done is said once and tried again with the next generation; `polyc semantic status` tells the state.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from artifacts.newest import Newest
from artifacts.store import DirectoryStore
from polyc.cli.console import note
from polyc.clock import Clock
from polyc.dataroot import DataRoot
from polyc.errors import PolycError
from polyc.published import EdgeTrust
from polyc.signing import load_signer
from search.settings import load_settings, make_embedder, settings_file
from search.space import Embedder

POLL_S: Final = 2.0  # settings change without a publication, and search packs may come a moment after the tables
END_S: Final = 3.0  # a text in hand; a longer one ends with the process: it is a daemon thread


class _EndedError(Exception):
    """The service ends: what is embedded in this batch is given up."""


@contextmanager
def embedding(root: DataRoot, *, clock: Clock) -> Iterator[Callable[[], None]]:
    """Embeds while the block runs; gives what to call when something was published."""
    follower = Follower(root, clock=clock)
    thread = threading.Thread(target=follower.run, name="embedding", daemon=True)
    thread.start()
    try:
        yield follower.wake
    finally:
        follower.end()
        thread.join(END_S)


class Follower:
    """Catches up with the newest generation whenever it is woken, and every two seconds."""

    def __init__(self, root: DataRoot, *, clock: Clock) -> None:
        self._root = root
        self._store = DirectoryStore(root.artifacts)
        trust = EdgeTrust(root.published, root.policy(), clock=clock)
        self._newest = Newest(self._store, keys=lambda: trust.bundle().keys, origin=root.policy().origin)
        self._due = threading.Event()
        self._ending = False
        self._version = 0
        self._embedder: Embedder | None = None
        self._said: str | None = None

    def wake(self) -> None:
        """Something was published."""
        self._due.set()

    def end(self) -> None:
        """Stop at the next batch of texts."""
        self._ending = True
        self._due.set()

    def run(self) -> None:
        """Until the end."""
        while not self._ending:
            self._due.wait(POLL_S)
            self._due.clear()
            try:
                self.catch_up()
                self._said = None
            except _EndedError:
                return
            except (PolycError, OSError) as error:
                self._say(error.message if isinstance(error, PolycError) else "the artifacts cannot be read")

    def catch_up(self) -> int:
        """Embed what the newest generation lacks; returns how many texts."""
        embedder = self._enabled()
        if embedder is None or self._ending:
            return 0
        from search.build.vectors import VectorBuild

        newest = self._newest.latest()
        signer = load_signer(self._root.keys / "projector.pem")
        build = VectorBuild(self._store, embedder, signer, frontier=newest.body.frontier.size)
        if not build.missing(newest.body.search):
            return 0
        embedded = build.catch_up(newest.body.search, progress=self._progress)
        build.sweep(newest.body.search)
        return embedded

    def _enabled(self) -> Embedder | None:
        """The executor of the settings as they are now."""
        try:
            version = settings_file(self._root).stat().st_mtime_ns
        except FileNotFoundError:
            self._version, self._embedder = 0, None
            return None
        if version != self._version:
            settings = load_settings(self._root)
            self._embedder = None if settings is None else make_embedder(settings)
            self._version = version
        return self._embedder

    def _progress(self, _done: int, _total: int) -> None:
        if self._ending:
            raise _EndedError

    def _say(self, what: str) -> None:
        if what != self._said:
            note(f"polyc: warning: no vectors for now: {what}")
            self._said = what
