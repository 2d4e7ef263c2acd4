"""Control's memory, refreshed from the log on each request by what was appended since, never by a replay.

A fresh process starts from the cache in the data root (0600, rebuildable: delete it and nothing is lost) when that
continues this very log, else from the log's beginning. Not evidence: whoever can write the cache can read the keys.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from control.ports import JournalPlane
from control.state import State, fingerprint_of
from polyc.durable import make_private_folder, write_file
from polyc.keyring import KeyRing

CACHE_VERSION: Final = 5  # raised whenever a book's fields or their meaning change
CACHE_EVERY_RECORDS: Final = 2_000  # a cold start reads at most this many records again


class _Cache(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    origin: str
    root_key: bytes
    state: State


class Index:
    """The state as of the newest sealed record; safe for several threads."""

    def __init__(self, journal: JournalPlane, *, root_public_key: bytes, cache_file: Path | None = None) -> None:
        self._journal = journal
        self._root_public_key = root_public_key
        self._cache_file = cache_file
        self._lock = threading.Lock()
        self.keys = KeyRing(root_public_key)
        self._state = self._load() or State()
        self._cached_cursor = self._state.cursor
        for payload in self._state.key_payloads:
            self.keys.apply(payload, place="control cache")

    @contextmanager
    def view(self) -> Iterator[State]:
        """The books after everything that is sealed now; they stand still inside the block and are only read."""
        with self._lock:
            self._refresh()
            yield self._state

    def _refresh(self) -> None:
        """Read on; after an erasure, forget everything (the cache too) and fold anew what is still there (ruling 9)."""
        known = self._state.erased_index
        self._read_on()
        if self._state.erased_index != known:
            if self._cache_file is not None:
                self._cache_file.unlink(missing_ok=True)
            self._cached_cursor = 0
            self._state = self._state.folded_anew()
            self._read_on()
        if self._state.cursor - self._cached_cursor >= CACHE_EVERY_RECORDS:
            self._save()

    def _read_on(self) -> None:
        size = self._journal.size()
        last = None
        if size > self._state.cursor:
            for record in self._journal.read_all(from_index=self._state.cursor, to_index=size):
                self._state.apply(record, self.keys)
                last = record
        if last is not None:
            self._state.fingerprint = fingerprint_of(last)

    def _save(self) -> None:
        if self._cache_file is None:
            return
        cache = _Cache(
            version=CACHE_VERSION,
            origin=self._journal.origin,
            root_key=self._root_public_key,
            state=self._state,
        )
        make_private_folder(self._cache_file.parent)
        write_file(self._cache_file, msgspec.msgpack.encode(cache), mode=0o600)
        self._cached_cursor = self._state.cursor

    def _load(self) -> State | None:
        """The cached state, when it was folded from this log; anything doubtful is simply not used."""
        if self._cache_file is None or not self._cache_file.exists():
            return None
        try:
            cache = msgspec.msgpack.decode(self._cache_file.read_bytes(), type=_Cache)
        except (msgspec.DecodeError, OSError):
            return None
        state = cache.state
        known = (cache.version, cache.origin, cache.root_key)
        if known != (CACHE_VERSION, self._journal.origin, self._root_public_key) or not state.cursor:
            return None
        if state.cursor > self._journal.size():
            return None
        last = next(self._journal.read_all(from_index=state.cursor - 1, to_index=state.cursor), None)
        return state if last is not None and fingerprint_of(last) == state.fingerprint else None
