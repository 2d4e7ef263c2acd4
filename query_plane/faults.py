"""What an engine's exception tells the caller: its class, the place, what to write instead; never a value or a path.

DuckDB's conversion errors quote the cell, its catalog errors suggest hidden names, its I/O errors show paths. So its
text is not passed on; known shapes are taken apart for the *names* in them, which come from the caller's own text.
Anything unknown is `internal`: the text stays here.
"""

import difflib
import json
import re
from collections.abc import Sequence
from typing import Final

import duckdb

from polyc.errors import Code
from query_plane.functions import fold
from query_plane.wire import Refused

_COLUMN: Final = re.compile(
    r'Referenced column "((?:[^"]|"")*)" (?:was )?not found|does not have a column named "((?:[^"]|"")*)"'
    r'|Column "?([^"\n]*)"? (?:referenced|in REPLACE list|in EXCLUDE list)'
)
_AMBIGUOUS: Final = re.compile(r'Ambiguous reference to column name "((?:[^"]|"")*)"')
_FUNCTION_TYPES: Final = re.compile(
    r"No function matches the given name and argument types '([a-z0-9_]+)\(([A-Z0-9_, ()\[\]\"]*)\)'"
)
_JSON: Final = re.compile(r"\{.*\}", re.DOTALL)
_GROUP: Final = "must appear in the GROUP BY clause"

_CLASSES: Final[tuple[tuple[type[Exception], Code, str, str | None], ...]] = (
    (
        duckdb.ConversionException,
        "invalid_argument",
        "a value does not convert to the type asked for",
        "TRY_CAST gives NULL instead",
    ),
    (
        duckdb.OutOfRangeException,
        "out_of_range",
        "a number is out of its type's range",
        "cast to a wider type first, e.g. ::HUGEINT",
    ),
    (
        duckdb.InvalidInputException,
        "invalid_argument",
        "a function was given a value it cannot take",
        "TRY(…) gives NULL instead",
    ),
    (
        duckdb.InterruptException,
        "deadline_exceeded",
        "the statement took longer than it may",
        "name fewer conversations or columns",
    ),
    (
        duckdb.OutOfMemoryException,
        "resource_exhausted",
        "the statement needs more memory than it may use",
        "filter or aggregate earlier",
    ),
    (duckdb.ParserException, "invalid_argument", "the statement cannot be parsed", None),
    (duckdb.BinderException, "invalid_argument", "a name or a type in the statement does not fit", None),
    (
        duckdb.CatalogException,
        "not_found",
        "a name in the statement is not known",
        "polyc tables (over HTTP: DescribeCatalog) lists what may be named",
    ),
    (duckdb.TypeMismatchException, "invalid_argument", "types in the statement do not fit together", "cast one side"),
    (duckdb.NotImplementedException, "unimplemented", "the engine cannot do this", None),
    (duckdb.PermissionException, "permission_denied", "this is not admitted", None),
    (duckdb.IOException, "permission_denied", "this is not admitted", None),
    (
        MemoryError,
        "resource_exhausted",
        "the statement needs more memory than it may use",
        "filter or aggregate earlier",
    ),
)

# Errors of a running stream arrive as OSError with the class's name in front of the text.
_PREFIXES: Final[tuple[tuple[str, type[Exception]], ...]] = (
    ("Conversion Error", duckdb.ConversionException),
    ("Out of Range Error", duckdb.OutOfRangeException),
    ("Invalid Input Error", duckdb.InvalidInputException),
    ("INTERRUPT Error", duckdb.InterruptException),
    ("Interrupted", duckdb.InterruptException),
    ("Out of Memory Error", duckdb.OutOfMemoryException),
    ("bad allocation", MemoryError),
    ("std::bad_alloc", MemoryError),
)


def explain(error: BaseException, *, sql: str, columns: Sequence[str]) -> Refused:
    """The refusal or failure of an exception; `columns` are the admitted ones, for suggestions."""
    kind, text = _kind_of(error)
    place = _place_of(text, sql)
    for class_, code, message, hint in _CLASSES:
        if issubclass(kind, class_):
            said = (_binder(text, columns) if class_ is duckdb.BinderException else None) or (message, hint)
            refused = code not in {"deadline_exceeded", "resource_exhausted"}
            return Refused(code=code, message=said[0] + place, hint=said[1], refused=refused)
    return Refused(code="internal", message="the engine failed", hint=None, refused=False)


def _kind_of(error: BaseException) -> tuple[type[BaseException], str]:
    text = str(error)
    if isinstance(error, OSError) or type(error) is duckdb.Error:
        for prefix, kind in _PREFIXES:
            if prefix in text[:200]:
                return kind, text
    return type(error), text


def _place_of(text: str, sql: str) -> str:
    """` at line L, column C`, when the engine names a position."""
    found = _JSON.search(text)
    if found is None:
        return ""
    try:
        position = int(json.loads(found.group())["position"])
    except (ValueError, KeyError, TypeError):
        return ""
    before = sql.encode()[:position].decode(errors="ignore")
    return f" at line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


def _binder(text: str, columns: Sequence[str]) -> tuple[str, str | None] | None:
    """What binding refused, in our words, for the shapes that people meet."""
    if found := _COLUMN.search(text):
        name = next(group for group in found.groups() if group is not None)
        close = difflib.get_close_matches(fold(name), columns, n=1, cutoff=0.7)
        return (
            f'no column "{name[:64]}"',
            f'did you mean "{close[0]}"?'
            if close
            else "polyc tables TABLE (over HTTP: DescribeCatalog) lists the columns",
        )
    if found := _AMBIGUOUS.search(text):
        return f'column "{found.group(1)[:64]}" is in several tables', "write table.column"
    if found := _FUNCTION_TYPES.search(text):
        return f"{found.group(1)}() does not take ({found.group(2)[:100]})", "cast the argument"
    if _GROUP in text:
        return "a column is neither grouped nor aggregated", "add it to GROUP BY, or write GROUP BY ALL"
    return None
