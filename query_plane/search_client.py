"""The client of search: one question to an edge, its answer as values. For programs, and for the command line.

    SearchClient("http://127.0.0.1:8421", token).search(SearchBody(query="retry handling"))

It speaks the plain JSON door over HTTP/1.1 with what Python brings, so that it loads in a few milliseconds: a command
that an agent calls at every turn must not load an engine. Errors are the families of `polyc.errors`. The token is sent,
never kept in a text, a log or a repr; a function instead of a text is asked for one at each search.
"""

import http.client
from collections.abc import Callable
from contextlib import closing
from typing import Final
from urllib.parse import urlsplit

import msgspec

from polyc.errors import HTTP_STATUS, Code, PolycError, RefusedError, UnavailableError
from polyc.limits import SEARCH_WAIT_MS_MAX
from search.query.answer import SearchAnswer
from search.query.wire import SearchBody

PATH: Final = "/polychrome.search.v1.SearchService/Search"
_TIMEOUT_S: Final = SEARCH_WAIT_MS_MAX / 1000 + 10  # the edge's own bound comes first
_ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_FAMILIES: Final = frozenset({"unavailable", "internal", "deadline_exceeded", "unknown", "data_loss"})


class _Error(msgspec.Struct):
    code: str = "unknown"
    message: str = "the edge gave no reason"
    hint: str | None = None


class SearchClient:
    """Asks one edge under one (renewable) token."""

    def __init__(self, base_url: str, token: str | Callable[[], str]) -> None:
        self._address = urlsplit(base_url)
        self._token = token

    def search(self, body: SearchBody) -> SearchAnswer:
        """The answer; RefusedError or UnavailableError as the edge says."""
        content = self.ask(msgspec.json.encode(body))
        try:
            return msgspec.json.decode(content, type=SearchAnswer)
        except msgspec.DecodeError:
            raise UnavailableError("the edge spoke nonsense", code="internal") from None

    def ask(self, body: bytes) -> bytes:
        """The JSON answer to a JSON question."""
        bearer = self._token if isinstance(self._token, str) else self._token()
        kind = http.client.HTTPSConnection if self._address.scheme == "https" else http.client.HTTPConnection
        headers = {"authorization": f"Bearer {bearer}", "content-type": "application/json"}
        with closing(kind(self._address.netloc, timeout=_TIMEOUT_S)) as connection:
            try:
                connection.request("POST", PATH, body, headers)
                response = connection.getresponse()
                content = response.read(_ANSWER_BYTES_MAX)
            except TimeoutError:
                raise UnavailableError("the edge did not answer in time", code="deadline_exceeded") from None
            except (OSError, http.client.HTTPException):
                raise UnavailableError("the edge cannot be reached", hint="is it running? polyc up") from None
        if response.status != http.client.OK:
            raise _error_of(content, status=response.status)
        return content


def _error_of(content: bytes, *, status: int) -> PolycError:
    try:
        error = msgspec.json.decode(content, type=_Error)
    except msgspec.DecodeError:
        return UnavailableError(f"HTTP status {status}, and no reason", code="unknown")
    code: Code = error.code if error.code in HTTP_STATUS else "unknown"
    family = UnavailableError if code in _FAMILIES else RefusedError
    return family(error.message, code=code, hint=error.hint)
