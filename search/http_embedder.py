"""An external executor: an HTTP endpoint of the OpenAI embeddings form, with a space that its operator declares.

It gets raw text of chunks and questions, so enabling it sends transcripts to that endpoint: `polyc semantic enable`
says so. The key is read from the environment variable the operator names, never from an argument or a file of ours.
Vectors are scaled to unit length; a wrong number of dimensions, a NaN or another order is refused.
"""

import math
import os
from collections.abc import Sequence
from typing import Any, Final

import httpx
import msgspec

from polyc.errors import UnavailableError
from search.space import Space

_BATCH: Final = 32
_TIMEOUT_S: Final = 30.0
_BODY_BYTES_MAX: Final = 64 * 1024 * 1024


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Reply(msgspec.Struct):
    data: list[_Item]


class HttpEmbedder:
    """Asks `url` for the vectors of `model`."""

    def __init__(
        self,
        *,
        url: str,
        model: str,
        space: Space,
        key_variable: str | None = None,
        client: httpx.Client | None = None,
    ) -> None:
        self.space = space
        self._url = url
        self._model = model
        self._key_variable = key_variable
        self._client = client or httpx.Client(timeout=_TIMEOUT_S)

    def documents(self, texts: Sequence[str]) -> Any:
        """One unit vector a text."""
        import numpy as np  # noqa: PLC0415 an extra: loaded when it is asked for

        vectors = [vector for at in range(0, len(texts), _BATCH) for vector in self._ask(texts[at : at + _BATCH])]
        return np.array(vectors, dtype=np.float32).reshape(len(texts), self.space.dimensions)

    def query(self, text: str) -> Any:
        """The vector of a question."""
        return self.documents([text])[0]

    def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        headers = {}
        if self._key_variable:
            headers["authorization"] = f"Bearer {os.environ.get(self._key_variable, '')}"
        try:
            response = self._client.post(self._url, json={"model": self._model, "input": list(texts)}, headers=headers)
            if response.status_code != httpx.codes.OK or len(response.content) > _BODY_BYTES_MAX:
                raise _unusable(f"answered {response.status_code}")
            reply = msgspec.json.decode(response.content, type=_Reply)
        except httpx.HTTPError:
            raise _unusable("cannot be reached") from None
        except msgspec.DecodeError:
            raise _unusable("answered in another form") from None
        if sorted(item.index for item in reply.data) != list(range(len(texts))):
            raise _unusable("answered for other texts")
        return [self._unit(item.embedding) for item in sorted(reply.data, key=lambda item: item.index)]

    def _unit(self, vector: list[float]) -> list[float]:
        size = math.sqrt(math.fsum(value * value for value in vector))
        if len(vector) != self.space.dimensions or not math.isfinite(size) or size == 0:
            raise _unusable("answered a vector outside the declared space")
        return [value / size for value in vector]


def _unusable(what: str) -> UnavailableError:
    return UnavailableError(f"the semantic executor {what}", hint="polyc semantic status")
