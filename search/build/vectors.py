"""Embeds the transcript chunks of search packs and writes their signed sidecars (search.vectors).

Only what was not embedded before in this space: equal text has equal vectors, so a merge of packs copies. A pack whose
sidecar is whole is left alone, so that catching up after a tick costs the tick's new text. Sidecars of packs that no
generation names any more are removed by `sweep`.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from artifacts.store import Store
from polyc.signing import Signer
from search.chunk import Chunk
from search.opened import OpenPack
from search.space import Embedder, canary_of
from search.vectors import (
    HEADER_FILE,
    KEY_BYTES,
    KEYS_FILE,
    ROWS_FILE,
    SEMANTIC,
    VECTORS_FILE,
    VectorHeader,
    sign_header,
    text_key,
    vectors_name,
)

Progress = Callable[[int, int], None]
_BATCH: Final = 32  # texts between two looks at the progress


class VectorBuild:
    """Writes the sidecars of one space; `frontier` is the log size at which the signer's key is judged."""

    def __init__(self, store: Store, embedder: Embedder, signer: Signer, *, frontier: int) -> None:
        self._store = store
        self._embedder = embedder
        self._signer = signer
        self._frontier = frontier
        self._canary: list[int] | None = None
        self._known: dict[bytes, tuple[str, int]] | None = None

    def catch_up(self, packs: Sequence[str], *, progress: Progress | None = None) -> int:
        """Give every pack its vectors; returns how many texts had to be embedded. `progress(done, all)` by texts."""
        embedded = 0
        for identity in self.missing(packs):
            embedded += self._write(identity, progress or _silent)
        return embedded

    def missing(self, packs: Sequence[str]) -> list[str]:
        """The packs without vectors in this space."""
        space = self._embedder.space
        return [identity for identity in packs if not self._store.exists(vectors_name(space, identity, HEADER_FILE))]

    def coverage(self, packs: Sequence[str]) -> tuple[int, int]:
        """How many transcript chunks wait for their vectors, and how many there are."""
        missing = set(self.missing(packs))
        waiting = every = 0
        for identity in packs:
            pack = OpenPack(self._store, identity)
            count = sum(1 for _ in _transcripts(pack))
            pack.close()
            every += count
            waiting += count if identity in missing else 0
        return waiting, every

    def sweep(self, packs: Sequence[str]) -> int:
        """Remove the sidecars of packs that are not among these (of this space); returns how many."""
        gone = sorted(identity for identity, _ in self._sidecars() if identity not in packs)
        for identity in gone:
            self._store.delete(vectors_name(self._embedder.space, identity))
        self._known = None
        return len(gone)

    def _write(self, identity: str, progress: Progress) -> int:
        pack = OpenPack(self._store, identity)
        found = list(_transcripts(pack))
        keys = [text_key(chunk.text) for _, chunk in found]
        vectors, embedded = self._vectors([chunk.text for _, chunk in found], keys, progress)
        files = {
            VECTORS_FILE: vectors.astype("<f4").tobytes(),
            ROWS_FILE: np.array([row for row, _ in found], dtype="<u4").tobytes(),
            KEYS_FILE: b"".join(keys),
        }
        if self._canary is None:
            self._canary = canary_of(self._embedder)
        header = VectorHeader(
            v=1,
            space=self._embedder.space,
            canary=self._canary,
            pack=identity,
            rows=len(found),
            files={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
            frontier=self._frontier,
        )
        with self._store.stage() as folder:
            for name, content in files.items():
                (folder / name).write_bytes(content)
            (folder / HEADER_FILE).write_bytes(sign_header(header, self._signer))
            self._store.publish(folder, vectors_name(self._embedder.space, identity))
        pack.close()
        self._remember(identity, keys)
        return embedded

    def _vectors(self, texts: Sequence[str], keys: Sequence[bytes], progress: Progress) -> tuple[np.ndarray, int]:
        """The vectors of texts: copied where the key is known, embedded once where it is not."""
        known = self._known_keys()
        fresh: dict[bytes, str] = {}
        for key, text in zip(keys, texts, strict=True):
            if key not in known:
                fresh.setdefault(key, text)
        made: dict[bytes, np.ndarray] = {}
        waiting = list(fresh)
        for at in range(0, len(waiting), _BATCH):
            batch = waiting[at : at + _BATCH]
            made |= zip(batch, self._embedder.documents([fresh[key] for key in batch]), strict=True)
            progress(at + len(batch), len(waiting))
        size = self._embedder.space.dimensions
        vectors = np.empty((len(texts), size), dtype=np.float32)
        for row, key in enumerate(keys):
            vectors[row] = made[key] if key in made else self._copied(*known[key], size)
        return vectors, len(fresh)

    def _copied(self, identity: str, row: int, size: int) -> np.ndarray:
        name = vectors_name(self._embedder.space, identity, VECTORS_FILE)
        return np.frombuffer(self._store.read_range(name, 4 * size * row, 4 * size), dtype="<f4")

    def _known_keys(self) -> dict[bytes, tuple[str, int]]:
        """Where the vector of each text lies, over all sidecars of the space."""
        if self._known is None:
            self._known = {}
            for identity, keys_name in self._sidecars():
                content = self._store.read(keys_name)
                keys = [content[at : at + KEY_BYTES] for at in range(0, len(content), KEY_BYTES)]
                self._remember(identity, keys)
        return self._known

    def _sidecars(self) -> list[tuple[str, str]]:
        """The packs that have a sidecar in this space, with the name of its keys."""
        prefix, end = f"{SEMANTIC}{self._embedder.space.folder}.", f"/{KEYS_FILE}"
        names = [entry.name for entry in self._store.list(SEMANTIC)]
        return [
            (name.removeprefix(prefix).removesuffix(end), name)
            for name in names
            if name.startswith(prefix) and name.endswith(end)
        ]

    def _remember(self, identity: str, keys: Sequence[bytes]) -> None:
        if self._known is not None:
            for row, key in enumerate(keys):
                self._known.setdefault(key, (identity, row))


def _transcripts(pack: OpenPack) -> Iterator[tuple[int, Chunk]]:
    """The rows of the main index that people and models said, in order."""
    for row in range(pack.description.chunks.get("main", 0)):
        chunk = pack.chunk("main", row)
        if chunk.kind == "transcript":
            yield row, chunk


def _silent(done: int, total: int) -> None:
    """Nobody watches."""
