"""The Flight SQL door: ADBC and JDBC tools read over it; the same core, the same grants, the same audit.

A statement rides in its own ticket, so nothing outlives a query: GetFlightInfo makes the ticket and runs nothing
(the answer's schema is told by DoGet's stream), DoGet runs it. The bearer comes with each call. What a client asks of
the catalog is answered from the grant's DescribeCatalog. The last chunk carries the trailer as its metadata.

Optional: nothing else imports this module, and an edge serves it only when told to. Prepared statements, transactions
and everything that writes are not offered.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from pyarrow import flight

from polyc.errors import PolycError, RefusedError
from polyc.limits import WRITE_DEADLINE_S
from query_plane.answer import BatchFrame, Catalog, Frame, SchemaFrame, TrailerFrame
from query_plane.core import Headers, QueryCore, Request

T = TypeVar("T")

_TYPES: Final = "type.googleapis.com/arrow.flight.protocol.sql."
_STATEMENT: Final = "CommandStatementQuery"
_TICKET: Final = "TicketStatementQuery"
_HANDLE_SIZE_BYTES_MAX: Final = 64 * 1024
_LENGTH_DELIMITED: Final = 2

_CATALOGS: Final = pa.schema([pa.field("catalog_name", pa.string(), nullable=False)])
_SCHEMAS: Final = pa.schema(
    [pa.field("catalog_name", pa.string()), pa.field("db_schema_name", pa.string(), nullable=False)]
)
_TABLE_TYPES: Final = pa.schema([pa.field("table_type", pa.string(), nullable=False)])
_TABLES: Final = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("table_type", pa.string(), nullable=False),
    ]
)
_TABLES_WITH_SCHEMA: Final = _TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
_ERRORS: Final[dict[str, type[Exception]]] = {
    "unauthenticated": flight.FlightUnauthenticatedError,
    "permission_denied": flight.FlightUnauthorizedError,
    "unavailable": flight.FlightUnavailableError,
    "deadline_exceeded": flight.FlightTimedOutError,
    "canceled": flight.FlightCancelledError,
    "internal": flight.FlightInternalError,
    "not_found": KeyError,
    "invalid_argument": pa.ArrowInvalid,
    "out_of_range": pa.ArrowInvalid,
    "unimplemented": NotImplementedError,
}
_ARROW_TYPES: Final = {
    "VARCHAR": pa.string(),
    "JSON": pa.string(),
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UBIGINT": pa.uint64(),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
    "BLOB": pa.binary(),
    "DECIMAL(38,0)": pa.decimal128(38, 0),
}


class FlightDoor(flight.FlightServerBase):  # type: ignore[misc] # pyarrow is not typed
    """Serves in threads of its own; every query runs in the core's event loop."""

    def __init__(self, core: QueryCore, loop: asyncio.AbstractEventLoop, *, location: str) -> None:
        super().__init__(location, middleware={"bearer": _BearerFactory()})
        self._core = core
        self._loop = loop

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """The one endpoint of a command: its ticket says all of it, and nothing has run."""
        name, value = _unpack(descriptor.command)
        if name == _STATEMENT:
            self._authenticated(context)
            handle = _field(value, 1)
            if len(handle) > _HANDLE_SIZE_BYTES_MAX:
                raise pa.ArrowInvalid("the statement is too long")
            ticket = _pack(_TICKET, _encoded(1, handle))
            schema = None
        else:
            ticket = descriptor.command
            schema = self._catalog_answer(context, name, value).schema
        endpoint = flight.FlightEndpoint(ticket, [])
        return flight.FlightInfo(schema, descriptor, [endpoint])

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The rows of a ticket."""
        name, value = _unpack(ticket.ticket)
        if name != _TICKET:
            return flight.RecordBatchStream(self._catalog_answer(context, name, value))
        headers = _headers(context)
        sql = _field(value, 1).decode("utf-8", "replace")

        async def read() -> Request:
            return Request(sql=sql, want="arrow")

        reading = _Reading(self._core, self._loop, headers, read)
        return flight.GeneratorStream(reading.schema, reading.chunks())

    def _authenticated(self, context: Any) -> None:
        with _as_flight_errors():
            self._run(_call(lambda: self._core.authenticate(_headers(context))))

    def _catalog_answer(self, context: Any, name: str, value: bytes) -> pa.Table:
        with _as_flight_errors():
            catalog = self._run(_call(lambda: self._core.catalog(_headers(context))))
        return _catalog_table(catalog, name, value)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class _Reading:
    """The frames of one query, pulled from another thread; closed whatever becomes of the reader."""

    def __init__(
        self, core: QueryCore, loop: asyncio.AbstractEventLoop, headers: Headers, read: Callable[[], Any]
    ) -> None:
        self._loop = loop
        self._frames = core.execute(headers, read)
        self._giving_up: asyncio.TimerHandle | None = None
        self._is_given_up = False
        self._parts = _Parts(self._next)
        with _as_flight_errors():
            try:
                self._reader = pa.ipc.open_stream(pa.PythonFile(self._parts, mode="r"))
            except BaseException:
                self._close()
                if self._parts.error is not None:
                    raise self._parts.error from None
                raise
        self.schema = self._reader.schema

    def chunks(self) -> Iterator[Any]:
        """Batches; the last, empty one with the trailer."""
        with _as_flight_errors():
            try:
                for item in self._reader.iter_batches_with_custom_metadata():
                    said = {key.decode(): text.decode() for key, text in dict(item.custom_metadata or {}).items()}
                    yield (item.batch, pa.py_buffer(msgspec.json.encode(said))) if said else item.batch
                self._parts.drain()
            except OSError:
                if self._parts.error is not None:
                    raise self._parts.error from None
                raise
            finally:
                self._close()

    def _next(self) -> Frame | None:
        return asyncio.run_coroutine_threadsafe(self._pulled(), self._loop).result()

    async def _pulled(self) -> Frame | None:
        """The next frame; who does not come back for another one in time is gone, and its query ends (F20)."""
        if self._giving_up is not None:
            self._giving_up.cancel()
        if self._is_given_up:
            raise RefusedError("the reader took nothing for too long", code="canceled")
        frame = await anext(self._frames, None)
        if frame is not None:
            self._giving_up = self._loop.call_later(WRITE_DEADLINE_S, self._give_up)
        return frame

    def _give_up(self) -> None:
        self._is_given_up = True
        self._ending = self._loop.create_task(self._frames.aclose())

    def _close(self) -> None:
        if self._giving_up is not None:
            self._loop.call_soon_threadsafe(self._giving_up.cancel)
        with suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._frames.aclose(), self._loop).result()


class _Parts:
    """The Arrow bytes of frames as a file that is read once."""

    closed = False

    def __init__(self, pull: Callable[[], Frame | None]) -> None:
        self._pull = pull
        self._rest = b""
        self._ended = False
        self.error: PolycError | None = None

    def read(self, size: int = -1) -> bytes:
        while not self._ended and (size < 0 or len(self._rest) < size):
            self._rest += self._more()
        taken, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return taken

    def drain(self) -> None:
        """Let the query come to its outcome."""
        while not self._ended:
            self._more()

    def close(self) -> None:
        self.closed = True

    def _more(self) -> bytes:
        try:
            frame = self._pull()
        except PolycError as error:
            self.error, self._ended = error, True
            raise OSError("the answer broke off") from None
        match frame:
            case None:
                self._ended = True
                return b""
            case SchemaFrame() | TrailerFrame():
                return frame.arrow
            case BatchFrame():
                return frame.body


class _BearerFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc] # pyarrow is not typed
    """Keeps a call's headers where its handler finds them."""

    def start_call(self, _info: Any, headers: dict[str, list[str]]) -> Any:
        return _Bearer(headers)


class _Bearer(flight.ServerMiddleware):  # type: ignore[misc] # pyarrow is not typed
    def __init__(self, headers: dict[str, list[str]]) -> None:
        super().__init__()
        self.pairs = [
            (name.lower().encode(), value if isinstance(value, bytes) else value.encode("latin-1", "replace"))
            for name, values in headers.items()
            for value in values
        ]


class _as_flight_errors:  # noqa: N801 reads as the statement it is
    """Our errors as Flight's; the hint follows the message."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, PolycError):
            text = error.message if error.hint is None else f"{error.message} ({error.hint})"
            raise _ERRORS.get(error.code, flight.FlightServerError)(text) from None


def start(core: QueryCore, *, port: int, host: str = "127.0.0.1") -> FlightDoor:
    """Serve in a thread beside the running loop; `shutdown()` ends it."""
    door = FlightDoor(core, asyncio.get_running_loop(), location=f"grpc://{host}:{port}")
    threading.Thread(target=door.serve, name="flight", daemon=True).start()
    return door


async def _call(function: Callable[[], T]) -> T:
    return function()


def _headers(context: Any) -> Headers:
    return list(context.get_middleware("bearer").pairs)


def _catalog_table(catalog: Catalog, name: str, value: bytes) -> pa.Table:
    """What a client asks of the catalog; all tables lie in one schema that need not be written."""
    match name:
        case "CommandGetCatalogs":
            return pa.Table.from_pylist([], _CATALOGS)
        case "CommandGetDbSchemas":
            return pa.Table.from_pylist([{"catalog_name": None, "db_schema_name": ""}], _SCHEMAS)
        case "CommandGetTableTypes":
            return pa.Table.from_pylist([{"table_type": "TABLE"}, {"table_type": "VIEW"}], _TABLE_TYPES)
        case "CommandGetTables":
            with_schema = _field(value, 5) == b"\x01"
            rows = [
                {
                    "catalog_name": None,
                    "db_schema_name": None,
                    "table_name": table.name,
                    "table_type": table.kind.upper(),
                    "table_schema": pa.schema([(c.name, _ARROW_TYPES[c.type]) for c in table.columns])
                    .serialize()
                    .to_pybytes(),
                }
                for table in catalog.tables
            ]
            return pa.Table.from_pylist(rows, _TABLES_WITH_SCHEMA if with_schema else _TABLES)
        case _:
            raise NotImplementedError(f"{name} is not offered: this door reads")


def _unpack(command: bytes) -> tuple[str, bytes]:
    """The kind of a command and its bytes."""
    message = AnyMessage()
    try:
        message.ParseFromString(command)
    except Exception:
        raise pa.ArrowInvalid("not a Flight SQL command") from None
    return message.type_url.removeprefix(_TYPES), message.value


def _pack(name: str, value: bytes) -> bytes:
    return bytes(AnyMessage(type_url=_TYPES + name, value=value).SerializeToString())


def _encoded(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | _LENGTH_DELIMITED]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def _field(message: bytes, number: int) -> bytes:
    """The last value of a field (bytes of a text, the one byte of a flag); empty when absent.

    >>> _field(_encoded(1, b"SELECT 1"), 1), _field(b"", 1)
    (b'SELECT 1', b'')
    """
    found, position = b"", 0
    while position < len(message):
        key, position = _read_varint(message, position)
        if key & 7 == _LENGTH_DELIMITED:
            size, position = _read_varint(message, position)
            value, position = message[position : position + size], position + size
        elif key & 7 == 0:
            start = position
            _, position = _read_varint(message, position)
            value = message[start:position]
        else:
            raise pa.ArrowInvalid("not a Flight SQL command")
        if key >> 3 == number:
            found = value
    return found


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while position < len(message) and shift < 64:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
    raise pa.ArrowInvalid("not a Flight SQL command")
