"""A DB-API 2.0 (PEP 249) face of the Query edge, for tools that expect one; reading only.

    connection = query_plane.dbapi.connect("http://127.0.0.1:8081", token=token)
    cursor = connection.cursor()
    cursor.execute("SELECT role, COUNT(*) FROM messages WHERE role = :role GROUP BY role", {"role": "user"})

Parameters are written `$name` or, as PEP 249 has it, `:name`. There are no transactions: `commit` does nothing,
`rollback` is not supported. A truncated answer raises `DataError` on `execute`, unless `allow_truncated` was said:
a tool that cannot see the trailer must not take a part for the whole.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from polyc.errors import PolycError, RefusedError
from query_plane.answer import Answer
from query_plane.client import Client, Token

apilevel: Final = "2.0"
threadsafety: Final = 1
paramstyle: Final = "named"


class Warning(Exception):  # noqa: A001, N818 PEP 249 names it
    """PEP 249: never raised here."""


class Error(Exception):
    """PEP 249: any error; `code` and `hint` are the edge's."""

    def __init__(self, message: str, *, code: str = "unknown", hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class InterfaceError(Error):
    """PEP 249: used against its rules."""


class DatabaseError(Error):
    """PEP 249: something on the other side."""


class DataError(DatabaseError):
    """PEP 249: a value, a range, or an answer that was cut."""


class OperationalError(DatabaseError):
    """PEP 249: not the statement's fault."""


class IntegrityError(DatabaseError):
    """PEP 249: never raised here."""


class InternalError(DatabaseError):
    """PEP 249: a fault of the edge."""


class ProgrammingError(DatabaseError):
    """PEP 249: the statement was refused."""


class NotSupportedError(DatabaseError):
    """PEP 249: there is nothing to roll back."""


Description = tuple[str, str, None, None, None, None, None]

# `:name` outside quotes, comments and casts; quoted texts and comments are matched first and left alone.
_PARAMETER: Final = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|::|:([A-Za-z_][A-Za-z0-9_]*)", re.DOTALL
)
_FAMILIES: Final[dict[str, type[DatabaseError]]] = {
    "out_of_range": DataError,
    "internal": InternalError,
    "data_loss": InternalError,
}


def connect(
    base_url: str, *, token: Token, allow_truncated: bool = False, row_limit: int | None = None
) -> "Connection":
    """A connection to an edge; no request is made yet."""
    return Connection(Client(base_url, token), allow_truncated=allow_truncated, row_limit=row_limit)


class Connection:
    """PEP 249: a connection; also a context manager that closes."""

    def __init__(self, client: Client, *, allow_truncated: bool, row_limit: int | None) -> None:
        self._client = client
        self.allow_truncated = allow_truncated
        self.row_limit = row_limit
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def cursor(self) -> "Cursor":
        """A new cursor."""
        return Cursor(self)

    def close(self) -> None:
        """Close; cursors of it are of no use afterwards."""
        self._is_closed = True
        self._client.close()

    def commit(self) -> None:
        """Nothing: nothing was changed."""

    def rollback(self) -> NoReturn:
        """Not supported: nothing could have been changed."""
        raise NotSupportedError("there are no transactions", code="unimplemented")

    def run(self, sql: str, parameters: Mapping[str, object] | None) -> Answer:
        """The answer of a statement, errors as PEP 249 has them."""
        if self._is_closed:
            raise InterfaceError("the connection is closed", code="failed_precondition")
        try:
            answer = self._client.query(sql, parameters=parameters, row_limit=self.row_limit)
        except PolycError as error:
            default = ProgrammingError if isinstance(error, RefusedError) else OperationalError
            family = _FAMILIES.get(error.code, default)
            raise family(error.message, code=error.code, hint=error.hint) from error
        if answer.trailer.truncated and not self.allow_truncated:
            raise DataError(
                f"the answer was cut at its {answer.trailer.reason.replace('_', ' ')}",
                code="out_of_range",
                hint="add LIMIT, aggregate, or connect with allow_truncated=True",
            )
        return answer


class Cursor:
    """PEP 249: a cursor over one answer."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[Description] | None = None
        self.rowcount = -1
        self._rows: Iterator[list[Any]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def execute(self, operation: str, parameters: Mapping[str, object] | None = None) -> Self:
        """Run one statement."""
        answer = self.connection.run(named_to_dollar(operation), parameters)
        self.description = [(column.name, column.type, None, None, None, None, None) for column in answer.columns]
        self.rowcount = len(answer.rows)
        self._rows = iter(answer.rows)
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Mapping[str, object]]) -> Self:
        """Run the statement for each set of parameters; the last answer stays."""
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, None at the end."""
        if self._rows is None:
            raise InterfaceError("nothing was executed", code="failed_precondition")
        row = next(self._rows, None)
        return None if row is None else tuple(row)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, at most `size` or `arraysize`."""
        rows = []
        for _ in range(self.arraysize if size is None else size):
            row = self.fetchone()
            if row is None:
                break
            rows.append(row)
        return rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return list(self)

    def close(self) -> None:
        """Forget the answer."""
        self._rows = None

    def setinputsizes(self, sizes: object) -> None:
        """PEP 249: nothing to do."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """PEP 249: nothing to do."""


def named_to_dollar(sql: str) -> str:
    """`:name` as the edge writes it.

    >>> named_to_dollar("SELECT ':a', x::INT FROM t WHERE r = :role -- :c")
    "SELECT ':a', x::INT FROM t WHERE r = $role -- :c"
    """
    return _PARAMETER.sub(lambda found: f"${found.group(1)}" if found.group(1) else found.group(), sql)
