"""Fixed statements of Control, run at the Query edge like anybody's: over HTTP, under a grant, on the audit.

Control is the Query plane's client and knows nothing else of it. Each statement gets a grant of its own, for its
surface and its scope, which lives in this process alone. Texts are constants of ours; values go as parameters.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import httpx
import msgspec

from polyc.errors import HTTP_STATUS, Code, CorruptError, RefusedError, UnavailableError
from polyc.grants import Realm, Scope, Surface
from polyc.limits import QUERY_CLIENT_TIMEOUT_S, STATEMENT_ROWS_MAX

_EXECUTE: Final = "/polychrome.query.v1.QueryService/Execute"
_SEARCH: Final = "/polychrome.search.v1.SearchService/Search"


class Answer(NamedTuple):
    """A whole answer: names of columns, rows by position, and whether a limit cut it."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    truncated: bool
    as_of: int | None = None  # the checkpoint size the answer stands on; fleet grants are told (ruling 33)
    generation: str | None = None  # an opaque name


class MintForStatement(Protocol):
    """Mints the grant of one statement; `control.grants_api.mint_for_statement` with its context."""

    def __call__(self, *, subject: str, realm: Realm, scope: Scope, surface: Surface) -> str:
        """The token."""


class Statements:
    """Runs fixed statements at one Query edge; safe for several threads."""

    def __init__(self, base_url: str, *, mint: MintForStatement) -> None:
        self._mint = mint
        self._client = httpx.Client(
            base_url=base_url, timeout=QUERY_CLIENT_TIMEOUT_S, trust_env=False, follow_redirects=False
        )

    def run(
        self,
        sql: str,
        *,
        subject: str,
        scope: Scope,
        realm: Realm = "fleet",
        surface: Surface = "dashboard",
        parameters: Mapping[str, Any] | None = None,
        row_limit: int | None = None,
    ) -> Answer:
        """The whole answer; RefusedError or UnavailableError as the edge says, CorruptError for half an answer."""
        token = self._mint(subject=subject, realm=realm, scope=scope, surface=surface)
        return execute(self._client, token, sql, parameters=parameters, row_limit=row_limit)

    def close(self) -> None:
        """Give up the connections."""
        self._client.close()


def execute(
    client: httpx.Client,
    token: str,
    sql: str,
    *,
    parameters: Mapping[str, Any] | None = None,
    row_limit: int | None = None,
) -> Answer:
    """One Execute call with this bearer, its frames put together; an answer without its trailer is none (F13)."""
    body: dict[str, Any] = {"sql": sql, "row_limit": row_limit or STATEMENT_ROWS_MAX}
    if parameters:
        body["parameters"] = dict(parameters)
    try:
        response = client.post(
            _EXECUTE, content=msgspec.json.encode(body), headers=_headers(token, accept="application/x-ndjson")
        )
    except httpx.HTTPError:
        raise UnavailableError("the query edge does not answer", hint="polyc up") from None
    if response.status_code != HTTP_STATUS_OK:
        raise _error_of(response)
    return _answer_of(response.content)


HTTP_STATUS_OK: Final = 200


def describe_catalog(client: httpx.Client, token: str) -> dict[str, Any]:
    """The tables, columns and functions that the bearer may name."""
    try:
        response = client.post(
            "/polychrome.query.v1.QueryService/DescribeCatalog",
            content=b"{}",
            headers=_headers(token, accept="application/json"),
        )
    except httpx.HTTPError:
        raise UnavailableError("the query edge does not answer", hint="polyc up") from None
    if response.status_code != HTTP_STATUS_OK:
        raise _error_of(response)
    catalog: dict[str, Any] = msgspec.json.decode(response.content, type=dict[str, Any])
    return catalog


def search(client: httpx.Client, token: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """One Search call with this bearer; the fields are those of docs/search.md."""
    try:
        response = client.post(
            _SEARCH, content=msgspec.json.encode(question), headers=_headers(token, accept="application/json")
        )
    except httpx.HTTPError:
        raise UnavailableError("the query edge does not answer", hint="polyc up") from None
    if response.status_code != HTTP_STATUS_OK:
        raise _error_of(response)
    answer: dict[str, Any] = msgspec.json.decode(response.content, type=dict[str, Any])
    return answer


def _headers(token: str, *, accept: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "content-type": "application/json", "accept": accept}


def _answer_of(content: bytes) -> Answer:
    columns: tuple[str, ...] = ()
    rows: list[list[Any]] = []
    trailer: dict[str, Any] | None = None
    for line in content.splitlines():
        frame = msgspec.json.decode(line, type=dict[str, Any])
        if "schema" in frame:
            columns = tuple(str(column["name"]) for column in frame["schema"].get("columns", ()))
        elif "batch" in frame:
            rows.extend(frame["batch"].get("rows", ()))
        elif "trailer" in frame:
            trailer = frame["trailer"]
        elif "error" in frame:
            raise _error(frame["error"])
    if trailer is None:
        raise CorruptError("the answer ended without its trailer", place="query edge", kind="incomplete")
    as_of = str(trailer.get("as_of") or "")
    generations = trailer.get("generations") or [None]
    return Answer(
        columns, rows, bool(trailer.get("truncated")), int(as_of) if as_of.isdigit() else None, generations[0]
    )


def _error_of(response: httpx.Response) -> RefusedError | UnavailableError:
    try:
        return _error(msgspec.json.decode(response.content, type=dict[str, Any]))
    except msgspec.DecodeError:
        return UnavailableError(f"the query edge answered {response.status_code}")


def _error(detail: dict[str, Any]) -> RefusedError | UnavailableError:
    code, message = str(detail.get("code", "unknown")), str(detail.get("message", ""))
    hint = detail.get("hint")
    known: Code = code if code in HTTP_STATUS else "unknown"
    if known in {"unavailable", "unknown", "internal", "data_loss"}:
        return UnavailableError(message, code=known)
    return RefusedError(message, code=known, hint=None if hint is None else str(hint))
