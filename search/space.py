"""Spaces of embeddings: what makes two vectors comparable, and who makes them.

A `Space` is declared by its executor. Vectors of different spaces are never mixed; an executor whose canary text no
longer gives the vector that was recorded has drifted: it is refused, never used in silence (E17).
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

CANARY: Final = "The points at the depot froze; the night shift re-ran migration 0042 and the tests went green."
_CANARY_SCALE: Final = 10_000
_CANARY_COSINE_MIN: Final = 0.999  # rounding and other processors stay above; another model does not


class Space(msgspec.Struct, frozen=True):
    """A declared vector space."""

    space_id: str
    dimensions: int
    metric: Literal["cosine"] = "cosine"

    @property
    def folder(self) -> str:
        """The space's folder name: readable, and unique for the whole declaration."""
        readable = "".join(char if char.isalnum() or char in "-." else "-" for char in self.space_id)[:48]
        digest = hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:8]
        return f"{readable}-{digest}"


class Embedder(Protocol):
    """An executor: text to unit vectors (numpy float32, one row a text)."""

    space: Space

    def documents(self, texts: Sequence[str]) -> Any:
        """Vectors of texts that are stored."""

    def query(self, text: str) -> Any:
        """The vector of a question."""


def canary_of(embedder: Embedder) -> list[int]:
    """What the executor makes of the canary text, in ten-thousandths."""
    vector = embedder.documents([CANARY])[0]
    return [round(float(value) * _CANARY_SCALE) for value in vector]


def has_drifted(recorded: Sequence[int], now: Sequence[int]) -> bool:
    """Whether two canaries are too far apart to be of one executor.

    >>> has_drifted([10000, 0], [9990, 300]), has_drifted([10000, 0], [0, 10000]), has_drifted([1], [1, 0])
    (False, True, True)
    """
    if len(recorded) != len(now):
        return True
    dot = sum(a * b for a, b in zip(recorded, now, strict=True))
    size: float = (sum(a * a for a in recorded) * sum(b * b for b in now)) ** 0.5
    return size == 0 or dot / size < _CANARY_COSINE_MIN
