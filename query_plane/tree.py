"""The gate's second parser: the engine's own tree, walked with allow-lists (query-plane.md, step 8).

Runs in the worker before anything is bound. `json_serialize_sql` gives the tree that the engine would plan; every
node, table reference, expression, function and cast type in it must be one this module names, every structural object
must have exactly the fields it is known to have, and the relations read must equal those that `query_plane.gate`
found. An unknown word anywhere is a refusal: a newer engine's node is not guessed at.

The texts of refusals name the kind of node, never a value.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from polyc.errors import RefusedError
from query_plane.functions import FUNCTIONS, OPERATORS, TABLE_FUNCTIONS, TYPES, fold

NODES_MAX: Final = 20_000  # a 32 KiB text makes about 8 000; more is a tree that grows by itself

_QUERY_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_REFERENCES: Final = frozenset(
    {"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY", "PIVOT"}
)
_MODIFIERS: Final = frozenset({"ORDER_MODIFIER", "LIMIT_MODIFIER", "DISTINCT_MODIFIER"})
_ORDERS: Final = frozenset({"ASCENDING", "DESCENDING", "ORDER_DEFAULT"})
_EXPRESSIONS: Final[dict[str, frozenset[str]]] = {
    "BETWEEN": frozenset({"COMPARE_BETWEEN", "COMPARE_NOT_BETWEEN"}),
    "CASE": frozenset({"CASE_EXPR"}),
    "CAST": frozenset({"OPERATOR_CAST"}),
    "COLLATE": frozenset({"COLLATE"}),
    "COLUMN_REF": frozenset({"COLUMN_REF"}),
    "COMPARISON": frozenset(
        {
            "COMPARE_EQUAL",
            "COMPARE_NOTEQUAL",
            "COMPARE_LESSTHAN",
            "COMPARE_GREATERTHAN",
            "COMPARE_LESSTHANOREQUALTO",
            "COMPARE_GREATERTHANOREQUALTO",
            "COMPARE_DISTINCT_FROM",
            "COMPARE_NOT_DISTINCT_FROM",
        }
    ),
    "CONJUNCTION": frozenset({"CONJUNCTION_AND", "CONJUNCTION_OR"}),
    "CONSTANT": frozenset({"VALUE_CONSTANT"}),
    "FUNCTION": frozenset({"FUNCTION"}),
    "LAMBDA": frozenset({"LAMBDA"}),
    "OPERATOR": frozenset(
        {
            "ARRAY_EXTRACT",
            "ARRAY_SLICE",
            "ARRAY_CONSTRUCTOR",
            "STRUCT_EXTRACT",
            "ARROW",
            "COMPARE_IN",
            "COMPARE_NOT_IN",
            "GROUPING_FUNCTION",
            "OPERATOR_COALESCE",
            "OPERATOR_IS_NULL",
            "OPERATOR_IS_NOT_NULL",
            "OPERATOR_NOT",
            "OPERATOR_TRY",
            "OPERATOR_UNPACK",
        }
    ),
    "PARAMETER": frozenset({"VALUE_PARAMETER"}),
    "POSITIONAL_REFERENCE": frozenset({"POSITIONAL_REFERENCE"}),
    "STAR": frozenset({"STAR"}),
    "SUBQUERY": frozenset({"SUBQUERY"}),
    "TYPE": frozenset({"TYPE"}),
    "WINDOW": frozenset(
        {
            "WINDOW_AGGREGATE",
            "WINDOW_ROW_NUMBER",
            "WINDOW_RANK",
            "WINDOW_RANK_DENSE",
            "WINDOW_NTILE",
            "WINDOW_PERCENT_RANK",
            "WINDOW_CUME_DIST",
            "WINDOW_FIRST_VALUE",
            "WINDOW_LAST_VALUE",
            "WINDOW_NTH_VALUE",
            "WINDOW_LEAD",
            "WINDOW_LAG",
            "WINDOW_FILL",
        }
    ),
}
_STRUCTURES: Final = frozenset(
    frozenset(fields.split())
    for fields in (
        "named_param_map node", "expression name", "then_expr when_expr", "map", "alias star_expr values",
        "catalog column schema table", "kind text", "key value", "path",
        "entries pivot_enum pivot_expressions unpivot_names",
        "is_percentage method repeatable sample_rate sample_size seed",
        "aliases key_targets materialized payload_aggregates query_node", "id type_info", "is_null type value",
        "is_null type",
    )
)  # fmt: skip
_COLLATIONS: Final = frozenset({"nocase", "noaccent", "nfc", "binary", "c", "posix"})


def check_tree(serialized: str, *, relations: Iterable[str]) -> None:
    """Return when the engine's tree is one reading statement over exactly these relations; RefusedError otherwise."""
    try:
        document = json.loads(serialized)
        if document.get("error") is not False:
            raise _engine_refusal(document)
        statements = document["statements"]
        if len(statements) != 1:
            raise RefusedError("more than one statement", hint="send them one by one")
        walk = _Walk()
        walk.visit(statements[0], visible=frozenset())
    except RecursionError:
        raise RefusedError("the statement is nested too deeply", hint="split it with WITH") from None
    if walk.found != set(relations):
        raise RefusedError(
            "the two parsers disagree about the tables of this statement",
            hint="qualify nothing, and give WITH names of their own",
        )


def _engine_refusal(document: dict[str, Any]) -> RefusedError:
    """The engine could not parse it: class and place only, its text quotes the statement."""
    position = document.get("position")
    place = f" at character {int(position) + 1}" if position is not None and str(position).isdigit() else ""
    return RefusedError(f"the statement cannot be parsed{place}", hint="one reading SELECT in DuckDB's dialect")


class _Walk:
    """One pass over one tree, bounded; `visible` are the WITH names that hide relations at a node."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._nodes = 0

    def visit(self, value: Any, *, visible: frozenset[str]) -> None:
        """Check a value and all below it."""
        if isinstance(value, list):
            for item in value:
                self.visit(item, visible=visible)
        elif isinstance(value, dict):
            self._nodes += 1
            if self._nodes > NODES_MAX:
                raise RefusedError(f"the statement has more than {NODES_MAX} parts")
            self._object(value, visible=visible)

    def _object(self, value: dict[str, Any], *, visible: frozenset[str]) -> None:
        kind = value.get("type")
        if "class" in value:
            self._expression(value)
            self._fields(value, visible=visible)
        elif "cte_map" in value:
            self._query_node(value, visible=visible)
        elif not isinstance(kind, str):
            if frozenset(value) not in _STRUCTURES:
                raise _unknown("structure", ",".join(sorted(value)))
            self._fields(value, visible=visible)
        elif kind in _MODIFIERS or (kind in _ORDERS and set(value) == {"type", "null_order", "expression"}):
            self._fields(value, visible=visible)
        elif kind in _REFERENCES and "query_location" in value:
            self._reference(value, visible=visible)
        else:
            raise _unknown("node", kind)

    def _fields(self, value: dict[str, Any], *, visible: frozenset[str]) -> None:
        for item in value.values():
            if isinstance(item, dict | list):
                self.visit(item, visible=visible)

    def _query_node(self, node: dict[str, Any], *, visible: frozenset[str]) -> None:
        if node.get("type") not in _QUERY_NODES:
            raise _unknown("node", node.get("type"))
        for entry in node["cte_map"]["map"]:
            body = entry["value"]
            if frozenset(body) not in _STRUCTURES:
                raise _unknown("structure", ",".join(sorted(body)))
            self.visit(body, visible=visible)  # a recursive body adds its own name for its right side alone
            visible = visible | {fold(entry["key"])}
        for key, item in node.items():
            if key == "cte_map" or not isinstance(item, dict | list):
                continue
            inner = visible
            if node["type"] == "RECURSIVE_CTE_NODE" and key == "right":
                inner = visible | {fold(node["cte_name"])}
            self.visit(item, visible=inner)

    def _reference(self, node: dict[str, Any], *, visible: frozenset[str]) -> None:
        match node["type"]:
            case "BASE_TABLE":
                self._base_table(node, visible=visible)
            case "TABLE_FUNCTION":
                self._table_function(node, visible=visible)
                return
            case "PIVOT" if any(pivot["pivot_enum"] for pivot in node["pivots"]):
                raise RefusedError("PIVOT over an enum type is not admitted", hint="give an IN list to PIVOT")
            case _:
                pass
        self._fields(node, visible=visible)

    def _base_table(self, node: dict[str, Any], *, visible: frozenset[str]) -> None:
        path = node["qualified_name"]["path"]
        if len(path) != 1 or node["schema_name"] or node["catalog_name"] or node["at_clause"] is not None:
            raise RefusedError(f'no table "{".".join(path)[:64]}"', code="not_found")
        name = fold(path[0])
        if name not in visible:
            self.found.add(name)

    def _table_function(self, node: dict[str, Any], *, visible: frozenset[str]) -> None:
        function = node["function"]
        is_plain = function.get("class") == "FUNCTION" and len(function["qualified_name"]["path"]) == 1
        if not is_plain or fold(function["function_name"]) not in TABLE_FUNCTIONS or function["export_state"]:
            raise _unknown("table function", function.get("function_name"))
        rest = {key: item for key, item in (node | {"function": None}).items() if item is not None}
        self._fields(function, visible=visible)
        self._fields(rest, visible=visible)

    def _expression(self, node: dict[str, Any]) -> None:
        types = _EXPRESSIONS.get(node["class"])
        if types is None or node.get("type") not in types:
            raise _unknown("expression", node.get("type"))
        match node["class"]:
            case "FUNCTION" | "WINDOW":
                self._function(node)
            case "TYPE":
                if len(node["qualified_name"]["path"]) != 1 or fold(node["type_name"]) not in TYPES:
                    raise _unknown("type", node["type_name"])
            case "COLLATE":
                if not {fold(part) for part in node["collation"].split(".")} <= _COLLATIONS:
                    raise _unknown("collation", node["collation"])
            case _:
                pass

    def _function(self, node: dict[str, Any]) -> None:
        # `m.text.upper()` reads as the function upper of the schema text: the last part alone decides, because there
        # are no functions but the engine's own. Operators are never qualified.
        name = fold(node["function_name"])
        is_plain = len(node["qualified_name"]["path"]) == 1
        if not (name in FUNCTIONS or (name in OPERATORS and is_plain)):
            raise _unknown("function", node["function_name"])
        if node.get("export_state"):
            raise _unknown("function", "EXPORT_STATE")


def _unknown(what: str, name: object) -> RefusedError:
    text = "".join(char if char.isprintable() else "?" for char in str(name))[:64]
    return RefusedError(f"{what} {text} is not on the list of what a statement may use")
