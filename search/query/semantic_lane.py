"""The semantic lane: exact cosine over the vectors of a scope, read from verified sidecars.

Vectors lie in the order of their pack, so a partition is a contiguous range: a scope is a gather of ranges, never a
filter after the fact. A first pass in 32 bits proposes, the order is computed in 64 bits a row at a time, so that it
does not depend on which other rows were looked at. Only transcript chunks have vectors.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import numpy as np
import tantivy

from artifacts.store import Store
from polyc.errors import CorruptError, UnavailableError
from polyc.keyring import KeyRing
from search.query.fusion import SemanticMatch
from search.query.lexical_lane import Spot, spots
from search.query.request import SearchRequest
from search.query.scope import ScopedPack
from search.query.units import Unit
from search.space import Embedder, canary_of, has_drifted
from search.vectors import HEADER_FILE, ROWS_FILE, VECTORS_FILE, VectorHeader, vectors_name, verify_header

_SPARE: Final = 64  # proposed beyond the depth, since 32 bits may swap neighbours

Unready = Literal["semantic_disabled", "semantic_incomplete", "semantic_space_drifted", "semantic_unsupported_scope"]


class Vectors:
    """The vectors of one pack."""

    def __init__(self, header: VectorHeader, vectors: Any, rows: Any) -> None:
        self.header = header
        self.vectors = vectors
        self.rows = rows


class SemanticIndex:
    """Opens sidecars of one space and judges whether they may be used."""

    def __init__(self, store: Store, keys: Callable[[], KeyRing], embedder: Embedder) -> None:
        self._store = store
        self._keys = keys
        self.embedder = embedder
        self._open: dict[str, Vectors] = {}
        self._canary: list[int] | None = None

    def covers(self, pack: str) -> bool:
        """Whether the pack's vectors are there."""
        return pack in self._open or self._store.exists(vectors_name(self.embedder.space, pack, HEADER_FILE))

    def missing(self, packs: Sequence[ScopedPack]) -> list[str]:
        """The packs with rows but without vectors."""
        return [
            scoped.pack.identity
            for scoped in packs
            if scoped.pack.description.chunks.get("main", 0) and not self.covers(scoped.pack.identity)
        ]

    def open(self, pack: str) -> Vectors:
        """The verified vectors of a pack; UnavailableError when the executor is not the one that made them."""
        if pack not in self._open:
            space = self.embedder.space
            content = self._store.read(vectors_name(space, pack, HEADER_FILE))
            header = verify_header(content, space=space, pack=pack, keys=self._keys())
            self._check_canary(header)
            vectors = np.frombuffer(self._file(header, VECTORS_FILE), dtype="<f4").reshape(-1, space.dimensions)
            rows = np.frombuffer(self._file(header, ROWS_FILE), dtype="<u4")
            if not len(vectors) == len(rows) == header.rows:
                raise CorruptError("vectors and rows differ in number", place=pack, kind="vectors")
            self._open[pack] = Vectors(header, vectors, rows)
        return self._open[pack]

    def keep(self, packs: Sequence[str]) -> None:
        """Forget what no generation in use needs."""
        self._open = {pack: vectors for pack, vectors in self._open.items() if pack in set(packs)}

    def _check_canary(self, header: VectorHeader) -> None:
        if self._canary is None:
            self._canary = canary_of(self.embedder)
        if has_drifted(header.canary, self._canary):
            raise UnavailableError(
                "the executor of the semantic space has drifted",
                code="failed_precondition",
                hint="polyc semantic rebuild",
            )

    def _file(self, header: VectorHeader, file: str) -> Any:
        place = vectors_name(header.space, header.pack, file)
        local = self._store.local(place)
        try:
            content = np.memmap(local, dtype="u1", mode="r") if local is not None and header.rows else self._read(place)
        except FileNotFoundError:
            raise CorruptError("vector file is missing", place=place, kind="missing") from None
        if hashlib.sha256(content.data).hexdigest() != header.files.get(file):
            raise CorruptError("vector file does not have the bytes it was signed with", place=place, kind="digest")
        return content

    def _read(self, place: str) -> Any:
        return np.frombuffer(self._store.read(place), dtype="u1")


def semantic_matches(
    index: SemanticIndex, units: Sequence[Unit], request: SearchRequest, *, depth: int
) -> list[SemanticMatch]:
    """The `depth` most similar chunks under scope and filters; equal similarity: newest, then chunk id."""
    question = np.asarray(index.embedder.query(" ".join((request.text, *request.terms))), dtype=np.float32)
    found: list[SemanticMatch] = []
    for unit in {unit.place: unit for unit in units if unit.name == "main"}.values():  # weights are lexical
        found += _of_unit(index, unit, request, question, depth)
    found.sort(key=lambda match: (-match.similarity, match.spot.minus_time, match.spot.ident))
    return found[:depth]


def _of_unit(
    index: SemanticIndex, unit: Unit, request: SearchRequest, question: Any, depth: int
) -> Iterator[SemanticMatch]:
    vectors = index.open(unit.scoped.pack.identity)
    candidates = _rows_of(unit.scoped, vectors)
    if len(candidates) == 0:
        return
    whole = len(candidates) == len(vectors.rows)
    rough = (vectors.vectors if whole else vectors.vectors[candidates]) @ question
    order = np.argsort(-rough, kind="stable")
    taken = 0
    for start in range(0, len(order), depth + _SPARE):
        batch = candidates[order[start : start + depth + _SPARE]]
        exact = (vectors.vectors[batch].astype(np.float64) * question.astype(np.float64)).sum(axis=1)
        addresses = [tantivy.DocAddress(0, int(row)) for row in vectors.rows[batch]]
        roles = unit.index.searcher.fast_field_values("role", addresses)
        for spot, similarity, role in zip(spots(unit, addresses), exact, roles, strict=True):
            if _admits(unit, request, spot, role):
                taken += 1
                yield SemanticMatch(float(similarity), spot)
        if taken >= depth:
            return


def _rows_of(scoped: ScopedPack, vectors: Vectors) -> Any:
    """The places of the scope's vectors."""
    if scoped.whole:
        return np.arange(len(vectors.rows))
    starts = np.concatenate([[0], np.cumsum([entry.main.chunks for entry in scoped.pack.entries])])
    ordinals = np.asarray(scoped.ordinals)
    first = np.searchsorted(vectors.rows, starts[ordinals])
    last = np.searchsorted(vectors.rows, starts[ordinals + 1])
    return np.concatenate([np.arange(begin, end) for begin, end in zip(first, last, strict=True)])


def _admits(unit: Unit, request: SearchRequest, spot: Spot, role: int) -> bool:
    """The filters that the lexical lane leaves to the engine; scope and conversations were gathered before."""
    filters = request.filters
    if filters.roles:
        names = unit.scoped.pack.names.roles
        if role == 0 or names[role - 1] not in filters.roles:
            return False
    if filters.since_us is not None and -spot.minus_time < filters.since_us:
        return False
    return filters.until_us is None or -spot.minus_time < filters.until_us
