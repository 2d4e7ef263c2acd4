"""Clients of the Query edge, sync and async: rows, Arrow, pandas, or the frames as they come.

    Client("http://127.0.0.1:8081", token).rows("SELECT model, COUNT(*) FROM model_call GROUP BY model")

They speak the plain door over HTTP/1.1: JSON lines for rows, a bare Arrow IPC stream for tables. Rules: an answer whose
stream ended without its trailer (or without Arrow's end mark) raises IncompleteAnswerError, whatever came before; a
truncated answer says so in its trailer; errors are the four families of `polyc.errors` with code and hint. A token may
be a function, so that a long-lived client mints anew; it is sent, never kept in a text, a log or a repr.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self, get_args

import httpx
import msgspec

from polyc.errors import Code, PolycError, RefusedError, UnavailableError
from polyc.limits import QUERY_DEADLINE_S
from query_plane.answer import (
    Answer,
    BatchFrame,
    Catalog,
    Column,
    Frame,
    IncompleteAnswerError,
    SchemaFrame,
    Trailer,
    TrailerFrame,
    gather,
)
from query_plane.wire import Want

SERVICE: Final = "/polychrome.query.v1.QueryService/"
ARROW_TYPE: Final = "application/vnd.apache.arrow.stream"
NDJSON_TYPE: Final = "application/x-ndjson"
TIMEOUT_S: Final = QUERY_DEADLINE_S + 10  # the edge's own deadline comes first

Token = str | Callable[[], str]

_UNAVAILABLE: Final = frozenset({"unavailable", "internal", "deadline_exceeded", "unknown", "data_loss"})


class _Schema(msgspec.Struct):
    columns: tuple[Column, ...] = ()


class _Batch(msgspec.Struct):
    rows: msgspec.Raw


class _Error(msgspec.Struct):
    code: str = "unknown"
    message: str = "the edge gave no reason"
    hint: str | None = None


class _Line(msgspec.Struct):
    schema: _Schema | None = None
    batch: _Batch | None = None
    trailer: Trailer | None = None
    error: _Error | None = None


_decode_line: Final = msgspec.json.Decoder(_Line).decode
_decode_error: Final = msgspec.json.Decoder(_Error).decode


class Client:
    """A connection pool to one edge, under one (renewable) token."""

    def __init__(
        self,
        base_url: str,
        token: Token,
        *,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._token = token
        self._http = httpx.Client(base_url=base_url, timeout=timeout_s, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def query(
        self,
        sql: str,
        *,
        parameters: Mapping[str, object] | None = None,
        row_limit: int | None = None,
        want: Want = "json",
        timeout_s: float | None = None,
    ) -> Answer:
        """The whole answer of one statement."""
        if want == "json":
            frames = list(self.stream(sql, parameters=parameters, row_limit=row_limit, timeout_s=timeout_s))
            return gather(frames, want="json")
        request = _request(self._http, self._token, sql, parameters, row_limit, timeout_s=timeout_s, accept=ARROW_TYPE)
        with _sending():
            response = self._http.send(request)
        return _arrow_answer(response)

    def rows(self, sql: str, **options: Any) -> list[list[Any]]:
        """The rows; cells as in JSON."""
        return self.query(sql, **options).rows

    def arrow(self, sql: str, **options: Any) -> Any:
        """The answer as a pyarrow.Table."""
        return self.query(sql, want="arrow", **options).arrow()

    def pandas(self, sql: str, **options: Any) -> Any:
        """The answer as a pandas.DataFrame, where pandas is installed."""
        return self.arrow(sql, **options).to_pandas()

    def stream(
        self,
        sql: str,
        *,
        parameters: Mapping[str, object] | None = None,
        row_limit: int | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Frame]:
        """The frames as they come, the trailer last; leaving early cancels the statement."""
        request = _request(self._http, self._token, sql, parameters, row_limit, timeout_s=timeout_s, accept=NDJSON_TYPE)
        ended = False
        with _sending():
            response = self._http.send(request, stream=True)
            try:
                if response.status_code != httpx.codes.OK:
                    raise error_of(response.read(), status=response.status_code)
                lines = _Lines()
                for chunk in response.iter_bytes():
                    for line in lines.feed(chunk):
                        frame = frame_of(line)
                        ended = isinstance(frame, TrailerFrame)
                        yield frame
            finally:
                response.close()
        if not ended:
            raise IncompleteAnswerError

    def explain(self, sql: str) -> str:
        """The engine's plan; admin grants only."""
        return "\n".join(str(row[-1]) for row in self.rows(f"EXPLAIN {sql}"))

    def catalog(self) -> Catalog:
        """The tables, columns and functions this grant may name."""
        with _sending():
            response = self._http.post(SERVICE + "DescribeCatalog", content=b"{}", headers=_headers(self._token))
        return _catalog_of(response)


class AsyncClient:
    """As `Client`, for asyncio."""

    def __init__(
        self,
        base_url: str,
        token: Token,
        *,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._token = token
        self._http = httpx.AsyncClient(base_url=base_url, timeout=timeout_s, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def query(
        self,
        sql: str,
        *,
        parameters: Mapping[str, object] | None = None,
        row_limit: int | None = None,
        want: Want = "json",
        timeout_s: float | None = None,
    ) -> Answer:
        """The whole answer of one statement."""
        if want == "json":
            stream = self.stream(sql, parameters=parameters, row_limit=row_limit, timeout_s=timeout_s)
            return gather([frame async for frame in stream], want="json")
        request = _request(self._http, self._token, sql, parameters, row_limit, timeout_s=timeout_s, accept=ARROW_TYPE)
        with _sending():
            response = await self._http.send(request)
        return _arrow_answer(response)

    async def rows(self, sql: str, **options: Any) -> list[list[Any]]:
        """The rows; cells as in JSON."""
        return (await self.query(sql, **options)).rows

    async def arrow(self, sql: str, **options: Any) -> Any:
        """The answer as a pyarrow.Table."""
        return (await self.query(sql, want="arrow", **options)).arrow()

    async def stream(
        self,
        sql: str,
        *,
        parameters: Mapping[str, object] | None = None,
        row_limit: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[Frame]:
        """The frames as they come, the trailer last; leaving early cancels the statement."""
        request = _request(self._http, self._token, sql, parameters, row_limit, timeout_s=timeout_s, accept=NDJSON_TYPE)
        ended = False
        with _sending():
            response = await self._http.send(request, stream=True)
            try:
                if response.status_code != httpx.codes.OK:
                    raise error_of(await response.aread(), status=response.status_code)
                lines = _Lines()
                async for chunk in response.aiter_bytes():
                    for line in lines.feed(chunk):
                        frame = frame_of(line)
                        ended = isinstance(frame, TrailerFrame)
                        yield frame
            finally:
                await response.aclose()
        if not ended:
            raise IncompleteAnswerError

    async def catalog(self) -> Catalog:
        """The tables, columns and functions this grant may name."""
        with _sending():
            response = await self._http.post(SERVICE + "DescribeCatalog", content=b"{}", headers=_headers(self._token))
        return _catalog_of(response)


class _Lines:
    """Bytes to lines at line feeds alone: a reader that also splits at U+2028 cuts texts in two."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return lines


def frame_of(line: bytes) -> Frame:
    """The frame of one NDJSON line; an error line raises its error."""
    try:
        decoded = _decode_line(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UnavailableError("the edge spoke nonsense", code="internal") from None
    if decoded.error is not None:
        raise _family(decoded.error)
    if decoded.schema is not None:
        return SchemaFrame(columns=decoded.schema.columns)
    if decoded.batch is not None:
        return BatchFrame(count=-1, body=bytes(decoded.batch.rows))
    if decoded.trailer is not None:
        return TrailerFrame(trailer=decoded.trailer)
    raise UnavailableError("the edge sent an unknown frame", code="internal")


def error_of(body: bytes, *, status: int) -> PolycError:
    """The error of a response that is not an answer."""
    try:
        return _family(_decode_error(body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UnavailableError(f"HTTP status {status}, and no reason", code="unknown")


def _family(error: _Error) -> PolycError:
    code: Code = error.code if error.code in get_args(Code) else "unknown"  # type: ignore[assignment] # checked here
    family = UnavailableError if code in _UNAVAILABLE else RefusedError
    return family(error.message, code=code, hint=error.hint)


def _headers(token: Token, accept: str = "application/json") -> dict[str, str]:
    bearer = token if isinstance(token, str) else token()
    return {"authorization": f"Bearer {bearer}", "content-type": "application/json", "accept": accept}


def _request(
    http: httpx.Client | httpx.AsyncClient,
    token: Token,
    sql: str,
    parameters: Mapping[str, object] | None,
    row_limit: int | None,
    *,
    timeout_s: float | None,
    accept: str,
) -> httpx.Request:
    body: dict[str, object] = {"sql": sql}
    body |= {"parameters": dict(parameters)} if parameters else {}
    body |= {"row_limit": row_limit} if row_limit is not None else {}
    headers = _headers(token, accept)
    headers |= {"connect-timeout-ms": str(max(1, int(timeout_s * 1000)))} if timeout_s is not None else {}
    return http.build_request("POST", SERVICE + "Execute", content=msgspec.json.encode(body), headers=headers)


@contextmanager
def _sending() -> Iterator[None]:
    """Transport errors as ours; a connection that breaks while an answer streams leaves it incomplete."""
    try:
        yield
    except httpx.RemoteProtocolError:
        raise IncompleteAnswerError from None
    except httpx.TimeoutException:
        raise UnavailableError("the edge did not answer in time", code="deadline_exceeded") from None
    except httpx.TransportError:
        raise UnavailableError("the edge cannot be reached", hint="is it running? polyc up") from None


def _arrow_answer(response: httpx.Response) -> Answer:
    """The answer in an Arrow stream: its end mark is its trailer, and the counts are its own."""
    if response.status_code != httpx.codes.OK:
        raise error_of(response.content, status=response.status_code)
    import pyarrow as pa  # noqa: PLC0415 clients that want rows need no Arrow

    trailer: dict[bytes, bytes] = {}
    try:
        with pa.ipc.open_stream(response.content) as reader:
            schema = reader.schema
            for batch in reader.iter_batches_with_custom_metadata():
                trailer = dict(batch.custom_metadata or {})
    except (pa.ArrowInvalid, OSError):
        raise IncompleteAnswerError from None
    if b"truncated" not in trailer:
        raise IncompleteAnswerError
    texts = {name.decode(): value.decode() for name, value in trailer.items()}
    return Answer(
        columns=tuple(Column(field.name, str(field.type)) for field in schema),
        rows=[],
        trailer=Trailer(
            query_id=texts.get("query_id", ""),
            row_count=int(texts["row_count"]),
            truncated=texts["truncated"] == "true",
            reason=texts.get("reason", ""),
            generations=tuple(filter(None, texts.get("generations", "").split(","))),
            as_of=texts.get("as_of", ""),
            frontier=texts.get("frontier", ""),
        ),
        arrow_stream=response.content,
    )


def _catalog_of(response: httpx.Response) -> Catalog:
    if response.status_code != httpx.codes.OK:
        raise error_of(response.content, status=response.status_code)
    try:
        return msgspec.json.decode(response.content, type=Catalog)
    except msgspec.DecodeError:
        raise UnavailableError("the edge spoke nonsense", code="internal") from None
