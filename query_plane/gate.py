"""The gate's first parser: sqlglot says whether a text is one reading SELECT, and over which admitted relations.

Rules, fail closed:
1. Exactly one statement (a trailing `;` or comment is fine), its root a Select, set operation, Values
   or Pivot.
2. No data change, definition, command, lock, INTO or SHOW anywhere in the tree: a statement's type decides nothing,
   DuckDB types `WITH d AS (DELETE …) SELECT` as SELECT.
3. Names are unqualified and resolved per scope: a WITH name hides a relation only where it is visible. A hidden table
   and an absent one are refused with the same words.
4. Functions and table functions are on the allow-lists, WITH nests at most 3 deep, PIVOT names its values.
5. Parameters are `$name`, each declared.

What passes is described, never rewritten: the caller's own text runs. `query_plane.tree` asks the engine's own parser
the same questions and must name the same relations. Which columns to admit is decided here, generously: a column that
is not named anywhere is left out unless a star, a whole row or a natural join could mean it.
"""

import difflib
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from polyc.errors import RefusedError
from query_plane.functions import FUNCTIONS, TABLE_FUNCTIONS, fold, names
from query_plane.lexing import check_bounds

logging.getLogger("sqlglot").disabled = True  # its warnings quote the statement

TABLES_HINT: Final = "polyc tables (over HTTP: DescribeCatalog) lists the tables of this grant"
_INSTEAD: Final = {
    "SHOW": TABLES_HINT,
    "DESCRIBE": "polyc tables TABLE (over HTTP: DescribeCatalog) lists the columns",
    "SUMMARIZE": "write the aggregates that you want: SELECT COUNT(*), MIN(…), MAX(…) FROM …",
}
FUNCTIONS_HINT: Final = "DescribeCatalog lists the functions"
WITH_DEPTH_MAX: Final = 3  # deeper nests multiply planning work; people write one or two levels

_ANALYZE: Final = re.compile(r"[\s(]*analyze\b", re.IGNORECASE)  # for the words alone: the parser refuses it anyway
_ROOTS: Final = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values, exp.Pivot)
_NOT_READING: Final = (
    exp.DML, exp.DDL, exp.Command, exp.Into, exp.Lock, exp.Show, exp.Describe, exp.Summarize, exp.Set, exp.Pragma,
    exp.Use, exp.Attach, exp.Detach, exp.Copy, exp.Transaction, exp.Commit, exp.Rollback, exp.Kill, exp.Analyze,
    exp.Cache, exp.Uncache, exp.Refresh, exp.LoadData, exp.Alter, exp.Drop, exp.TruncateTable, exp.Comment,
    exp.Update, exp.Delete, exp.Insert, exp.Merge, exp.Create, exp.HistoricalData, exp.Returning,
)  # fmt: skip
# What sqlglot calls functions and syntax of the allow-list by another name; test_gate.py recomputes it.
_TYPED_FUNCTIONS: Final = names("""
    And Array ArrayMax ArrayMin ArrayOverlaps BitwiseAndAgg BitwiseOrAgg BitwiseXorAgg Case Cast Coalesce Collate
    Columns CosineDistance CurrentTime CurrentTimestamp DateBin DateFromParts EuclideanDistance Exists Explode Extract
    Grouping JSONArray JSONExtractScalar JSONObject JarowinklerSimilarity Localtime Localtimestamp Or Pad ParseJSON
    PercentileCont PercentileDisc RegexpLike RegexpSplit SHA2 StrPosition StrToTime Struct TimeFromParts TimeToStr
    TimeToUnix TimestampFromParts TimestampTrunc ToMap Transform Try TryCast UnixToTime Xor
""")


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that passed: the relations it reads and which of their columns (None = all)."""

    relations: dict[str, list[str] | None]
    explain: bool


def check(
    sql: str,
    *,
    relations: Mapping[str, Sequence[str]],
    parameters: frozenset[str] = frozenset(),
    may_explain: bool = False,
) -> Statement:
    """What the statement reads, or RefusedError with what to write instead.

    `relations` are the tables and views the realm may name, with their columns.
    """
    scan = check_bounds(sql)
    text = sql
    explain = scan.first_word == "explain"
    if explain:
        if _ANALYZE.match(sql, scan.first_word_end):
            raise RefusedError("EXPLAIN ANALYZE runs the statement", hint="EXPLAIN alone shows the plan")
        if not may_explain:
            raise RefusedError("EXPLAIN is for admin grants", hint="run the statement itself, or ask as an admin")
        text = " " * scan.first_word_end + sql[scan.first_word_end :]
    root = _parse(text, explain=explain)
    try:
        _check_nodes(root, declared=parameters)
        resolver = _Resolver(relations)
        resolver.visit(root, visible=frozenset(), depth=0)
        names = sorted(resolver.found)
        columns = _columns(root, names=names, relations=relations)
    except RecursionError:
        raise RefusedError("the statement is nested too deeply", hint="split it with WITH") from None
    return Statement(relations=dict(zip(names, columns, strict=True)), explain=explain)


def unknown_relation(name: str, known: Sequence[str]) -> RefusedError:
    """The refusal of a name that does not resolve: the same words for a hidden and an absent one (B23).

    The suggestion is taken from admitted names alone.
    """
    close = difflib.get_close_matches(fold(name), known, n=1, cutoff=0.7)
    hint = f'did you mean "{close[0]}"?' if close else TABLES_HINT
    return RefusedError(f'no table "{_short(name)}"', code="not_found", hint=hint)


def _parse(text: str, *, explain: bool) -> exp.Expr:
    try:
        statements = sqlglot.parse(text, dialect="duckdb")
    except RecursionError:
        raise RefusedError("the statement is nested too deeply", hint="split it with WITH") from None
    except SqlglotError as error:
        raise _cannot_parse(error) from None
    except Exception:  # on some texts the parser trips over itself (`SELECT f([{}:]` …): that is no parse, either
        raise RefusedError("the statement cannot be parsed", hint="check brackets, quotes and commas") from None
    real = [statement for statement in statements if statement is not None and not isinstance(statement, exp.Semicolon)]
    if not real:
        raise RefusedError("there is no statement", hint="write one SELECT")
    if len(real) > 1 or statements[0] is not real[0] or len(statements) > 2:
        raise RefusedError("more than one statement", hint="send them one by one")
    root = real[0]
    if not isinstance(root, _ROOTS) or isinstance(root, _NOT_READING):
        word = "EXPLAIN of this" if explain else _keyword_of(root)
        hint = _INSTEAD.get(word, "only SELECT, VALUES, FROM and WITH … SELECT run")
        raise RefusedError(f"{word} is not a reading SELECT", hint=hint)
    return root


def _cannot_parse(error: SqlglotError) -> RefusedError:
    """Class and place; the parser's own text quotes the statement and stays out."""
    details = getattr(error, "errors", None) or [{}]
    line, column = details[0].get("line"), details[0].get("col")
    place = f" at line {line}, column {column}" if line else ""
    return RefusedError(f"the statement cannot be parsed{place}", hint="check brackets, quotes and commas near there")


def _keyword_of(node: exp.Expr) -> str:
    name = str(node.this) if isinstance(node, exp.Command) else type(node).__name__
    return "".join(char for char in name if char.isalnum())[:20].upper()


def _check_nodes(root: exp.Expr, *, declared: frozenset[str]) -> None:
    used: set[str] = set()
    for node in root.walk():
        if isinstance(node, _NOT_READING):
            raise RefusedError(f"{_keyword_of(node)} is not part of a reading SELECT", hint="only SELECT runs")
        if isinstance(node, exp.Pivot):
            _check_pivot(node)
        elif isinstance(node, exp.Placeholder | exp.Parameter):
            used.add(_parameter_name(node, declared=declared))
        elif isinstance(node, exp.Func) and not isinstance(node.parent, exp.Table):
            _check_function(node)
    if unused := declared - used:
        raise RefusedError(f"parameter ${min(unused)} is not in the statement")


def _check_pivot(node: exp.Pivot) -> None:
    if node.args.get("unpivot"):
        return
    choices = node.args.get("fields") or node.expressions
    if not choices or not all(isinstance(item, exp.In) and item.expressions for item in choices):
        raise RefusedError(
            "PIVOT needs its list of values", hint="give an IN list to PIVOT: ON role IN ('user', 'assistant')"
        )


def _parameter_name(node: exp.Expr, *, declared: frozenset[str]) -> str:
    name = node.name
    if not name or name.isdigit():
        raise RefusedError("parameters have names", hint="write $name and send its value in `parameters`")
    if name not in declared:
        raise RefusedError(f"no value for the parameter ${_short(name)}", hint="send it in `parameters`")
    return name


def _check_function(node: exp.Func) -> None:
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc | exp.CombinedAggFunc):
        name = _bare(node.this)
        if isinstance(node.parent, exp.Dot) and node.parent.expression is not node:
            raise _unknown_function(name)
        if fold(name) not in FUNCTIONS:
            raise _unknown_function(name)
        return
    if type(node).__name__ in _TYPED_FUNCTIONS or any(fold(name) in FUNCTIONS for name in node.sql_names()):
        return
    raise _unknown_function(node.sql_name())


def _unknown_function(name: str) -> RefusedError:
    close = difflib.get_close_matches(fold(name), sorted(FUNCTIONS), n=1, cutoff=0.8)
    hint = f"did you mean {close[0]}()?" if close else FUNCTIONS_HINT
    return RefusedError(f"no function {_short(fold(name))}()", code="not_found", hint=hint)


def _bare(name: object) -> str:
    """The text of a function's name, whether it was quoted or not."""
    return name.name if isinstance(name, exp.Identifier) else str(name).strip('"')


def _short(name: str) -> str:
    """A name from the caller's own text, cut and printable, for the caller alone."""
    text = "".join(char if char.isprintable() else "?" for char in name)
    return text if len(text) <= 64 else text[:63] + "…"


class _Resolver:
    """Collects the relations a tree reads; WITH names are visible exactly where the engine sees them."""

    def __init__(self, relations: Mapping[str, Sequence[str]]) -> None:
        self._relations = relations
        self.found: set[str] = set()

    def visit(self, node: exp.Expr, *, visible: frozenset[str], depth: int) -> None:
        """Walk a node whose surroundings make these WITH names visible."""
        with_ = node.args.get("with_")
        if with_ is not None:
            visible = self._visit_with(with_, visible=visible, depth=depth)
        if isinstance(node, exp.Table):
            self._visit_table(node, visible=visible)
        for key, value in node.args.items():
            if key == "with_":
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, exp.Expr):
                    self.visit(child, visible=visible, depth=depth)

    def _visit_with(self, with_: exp.Expr, *, visible: frozenset[str], depth: int) -> frozenset[str]:
        if depth >= WITH_DEPTH_MAX:
            raise RefusedError(f"WITH is nested deeper than {WITH_DEPTH_MAX}", hint="put the parts side by side")
        for cte in with_.expressions:
            name = fold(cte.alias)
            # A CTE sees itself only when it is a recursive union; else the name means what it means outside.
            is_recursive = bool(with_.args.get("recursive")) and isinstance(cte.this, exp.SetOperation)
            self.visit(cte.this, visible=visible | {name} if is_recursive else visible, depth=depth + 1)
            visible = visible | {name}
        return visible

    def _visit_table(self, node: exp.Table, *, visible: frozenset[str]) -> None:
        source = node.this
        if isinstance(source, exp.Func):
            self._check_table_function(node, source)
            return
        if not isinstance(source, exp.Identifier):
            raise RefusedError("a relation has no plain name", hint="name a table of the catalog")
        if node.args.get("db") or node.args.get("catalog"):
            qualified = ".".join(part.name for part in node.parts)
            raise unknown_relation(qualified, sorted(self._relations))
        name = fold(source.name)
        if name in visible:
            return
        if name not in self._relations:
            raise unknown_relation(source.name, sorted(self._relations))
        self.found.add(name)

    @staticmethod
    def _check_table_function(node: exp.Table, source: exp.Func) -> None:
        if isinstance(source, exp.GenerateSeries):
            name = "generate_series"
        elif isinstance(source, exp.Anonymous):
            name = fold(_bare(source.this))
        else:
            name = fold(source.sql_name())
        if name not in TABLE_FUNCTIONS or node.args.get("db") or node.args.get("catalog"):
            allowed = ", ".join(sorted(TABLE_FUNCTIONS))
            raise RefusedError(f"no table function {_short(name)}()", code="not_found", hint=f"there are {allowed}")


def _columns(root: exp.Expr, *, names: Sequence[str], relations: Mapping[str, Sequence[str]]) -> list[list[str] | None]:
    """For each relation, the columns the text could mean; None = all of them."""
    if _needs_every_column(root):
        return [None] * len(names)
    words = {fold(node.name) for node in root.find_all(exp.Identifier)}
    words |= {fold(node.name) for node in root.find_all(exp.Literal) if node.is_string}
    return [[column for column in relations[name] if fold(column) in words] for name in names]


def _needs_every_column(root: exp.Expr) -> bool:
    row_names = {fold(node.alias_or_name) for node in root.find_all(exp.Table, exp.Subquery, exp.CTE)}
    for node in root.walk():
        if isinstance(node, exp.Columns | exp.Pivot):
            return True
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return True
        if isinstance(node, exp.Join) and str(node.args.get("method") or "").upper() == "NATURAL":
            return True
        if isinstance(node, exp.Column) and not node.table and fold(node.name) in row_names:
            return True
        if isinstance(node, exp.Anonymous) and fold(_bare(node.this)) == "columns":
            return True
    return False
