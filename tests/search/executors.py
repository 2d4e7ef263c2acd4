"""Executors for tests: a bag of words hashed into a few dimensions; honest about its space, and one that drifts."""

import hashlib
from collections.abc import Sequence

import numpy as np

from search.analyzer import analyze
from search.space import Space

MEANINGS = {"cold": "freeze", "icy": "freeze", "frozen": "freeze", "switch": "points", "turnout": "points"}


class WordsEmbedder:
    """Words of one meaning share a direction; `shift` makes it another executor under the same name."""

    def __init__(self, *, space_id: str = "words", dimensions: int = 64, shift: str = "") -> None:
        self.space = Space(space_id, dimensions)
        self._shift = shift
        self.embedded = 0

    def documents(self, texts: Sequence[str]) -> np.ndarray:
        self.embedded += len(texts)
        return np.array([self.query(text) for text in texts], dtype=np.float32).reshape(len(texts), -1)

    def query(self, text: str) -> np.ndarray:
        vector = np.full(self.space.dimensions, 1e-6)
        for token in analyze(text).parts:
            word = MEANINGS.get(token.text, token.text)
            digest = hashlib.sha256(f"{self._shift}{word}".encode()).digest()
            vector[digest[0] % self.space.dimensions] += 1 if digest[1] % 2 else -1
        return (vector / np.linalg.norm(vector)).astype(np.float32)
