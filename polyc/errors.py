"""The four families of errors, by what the caller should do.

`RefusedError`: your request; safe to show; audited. `CorruptError`: evidence does not verify, stop.
`UnavailableError`: try again. `AssertionError`: our bug (never raised for outside input).
Each carries a `code` of Connect's vocabulary (one for RPC, HTTP and command line) and an optional `hint`.
No message may hold a token, a key, a payload or a cell value.
"""

from typing import Any, Final, Literal

Code = Literal[
    "canceled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
]

HTTP_STATUS: Final[dict[Code, int]] = {  # connectrpc.com/docs/protocol, "Error Codes"
    "canceled": 499,
    "unknown": 500,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "out_of_range": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "data_loss": 500,
    "unauthenticated": 401,
}


class PolycError(Exception):
    """Any error that is ours to explain; `code` says what kind, `hint` what to do instead."""

    default_code: Code = "unknown"

    def __init__(self, message: str, *, code: Code | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code: Code = code or self.default_code
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """An error of a worker process reaches its parent as it is: Exception's own way calls `__init__` again."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[PolycError], arguments: tuple[Any, ...], members: dict[str, Any]) -> PolycError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(members)
    return error


class RefusedError(PolycError):
    """The request cannot be granted as it stands; nothing happened; the text is safe to show."""

    default_code: Code = "invalid_argument"


class ConflictError(RefusedError):
    """Somebody else appended first: `actual` is the last position of the partition now (0 = empty)."""

    default_code: Code = "aborted"

    def __init__(self, message: str, *, actual: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.actual = actual


class IdempotencyConflictError(RefusedError):
    """The append id was used before, for other bytes."""

    default_code: Code = "already_exists"


class UnavailableError(PolycError):
    """Nothing is wrong with the request; try again (or start the service that is missing)."""

    default_code: Code = "unavailable"


class CorruptError(PolycError):
    """Evidence does not verify: stop. `place` names where (partition, position, file, …)."""

    default_code: Code = "data_loss"

    def __init__(self, message: str, *, place: str, kind: str = "corrupt", hint: str | None = None) -> None:
        super().__init__(f"{place}: {message}", hint=hint)
        self.place = place
        self.kind = kind
