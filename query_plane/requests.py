"""What callers may ask, out of the bodies they send; bounded, strict, turned into values at once."""

from typing import Any, Final

import msgspec
from protobuf.wkt.google.protobuf.struct_pb import Value

from polyc import strict_json
from polyc.errors import RefusedError
from polyc.limits import QUERY_DEADLINE_S
from polychrome.query.v1.query_pb import ExecuteRequest
from query_plane.core import Request
from query_plane.wire import Want

ROW_LIMIT_HEADER: Final = b"polychrome-row-limit"
DEADLINE_HEADER: Final = b"connect-timeout-ms"

_INTEGER_MIN: Final = -(2**63)
_INTEGER_MAX: Final = 2**64 - 1
_VALUES_MAX: Final = 100_000  # of a list; the body's size bounds them together


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    sql: str
    parameters: dict[str, Any] = {}
    row_limit: int | None = None
    rowLimit: int | None = None  # noqa: N815 the other spelling that proto3 JSON readers accept


_decode: Final = msgspec.json.Decoder(_Body).decode


def from_json(body: bytes, *, headers: dict[bytes, bytes], want: Want) -> Request:
    """The request of a plain JSON body."""
    try:
        strict_json.decode(body)  # of a member that stands twice somebody before us may have read the other one
        decoded = _decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise RefusedError(
            'the body is not {"sql": "SELECT …"}', hint="sql is text; parameters and row_limit are optional"
        ) from None
    if decoded.row_limit is not None and decoded.rowLimit is not None:
        raise RefusedError("the row limit stands twice", hint="row_limit and rowLimit are one member")
    limit = decoded.row_limit if decoded.row_limit is not None else decoded.rowLimit
    return Request(
        sql=decoded.sql,
        parameters={name: _checked(value) for name, value in decoded.parameters.items()},
        row_limit=_row_limit(limit, headers),
        want=want,
        deadline_s=_deadline_s(headers),
    )


def from_message(message: ExecuteRequest, *, headers: dict[bytes, bytes], want: Want) -> Request:
    """The request of a decoded protobuf message."""
    parameters = {name: _checked(_plain(value)) for name, value in message.parameters.items()}
    limit = message.row_limit if message.has_field("row_limit") else None
    return Request(
        sql=message.sql,
        parameters=parameters,
        row_limit=_row_limit(limit, headers),
        want=want,
        deadline_s=_deadline_s(headers),
    )


def _plain(value: Value) -> Any:
    """The Python value of a protobuf one; whole numbers are integers again."""
    kind = value.kind
    if kind is None or kind.field == "null_value":
        return None
    if kind.field == "number_value":
        number = float(kind.value)
        return int(number) if number.is_integer() and abs(number) <= 2**53 else number
    if kind.field == "list_value":
        return [_plain(item) for item in kind.value.values]
    if kind.field == "struct_value":
        raise RefusedError("a parameter is an object", hint="text, numbers, booleans, null and lists of them are taken")
    return kind.value


def _checked(value: Any, *, depth: int = 0) -> Any:
    """The parameter's value, or a refusal of what the engine cannot be given."""
    if isinstance(value, dict) or depth > 2:
        raise RefusedError("a parameter is an object", hint="text, numbers, booleans, null and lists of them are taken")
    if isinstance(value, list):
        if len(value) > _VALUES_MAX:
            raise RefusedError(f"a parameter has more than {_VALUES_MAX} values")
        return [_checked(item, depth=depth + 1) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and not _INTEGER_MIN <= value <= _INTEGER_MAX:
        raise RefusedError("a parameter's number is beyond 64 bits", hint="send it as text and cast it")
    return value


def _row_limit(asked: int | None, headers: dict[bytes, bytes]) -> int | None:
    """The lower of the body's and the header's limit."""
    limits = [] if asked is None else [asked]
    if (raw := headers.get(ROW_LIMIT_HEADER)) is not None:
        if not raw.isdigit() or len(raw) > 9:
            raise RefusedError("the row limit is not a number")
        limits.append(int(raw))
    if any(limit < 0 for limit in limits):
        raise RefusedError("the row limit is negative")
    return min(limits, default=None)


def _deadline_s(headers: dict[bytes, bytes]) -> float:
    """The caller's own deadline, never later than ours."""
    raw = headers.get(DEADLINE_HEADER)
    if raw is None:
        return QUERY_DEADLINE_S
    if not raw.isdigit() or len(raw) > 10:
        raise RefusedError("the deadline is not a number of milliseconds", hint="connect-timeout-ms: 5000")
    return min(int(raw) / 1000, QUERY_DEADLINE_S)
