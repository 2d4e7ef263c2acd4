"""What may follow in a half-written statement: the completion source of `polyc sql`.

Looks at words, not at grammar: a statement being typed does not parse. Suggestions come from the grant's own catalog
alone, so they tell nothing that DescribeCatalog does not.
"""

import re
from typing import Final

from query_plane.answer import Catalog, TableInfo

# fmt: off
KEYWORDS: Final = (
    "AND", "AS", "ASC", "BETWEEN", "CASE", "COUNT(*)", "CROSS JOIN", "DESC", "DISTINCT", "ELSE", "END", "EXCLUDE",
    "EXISTS", "FILTER", "FROM", "FULL JOIN", "GROUP BY", "GROUP BY ALL", "HAVING", "IN", "IS NOT NULL", "IS NULL",
    "JOIN", "LEFT JOIN", "LIKE", "LIMIT", "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER BY", "OVER", "PARTITION BY",
    "QUALIFY", "REPLACE", "SELECT", "THEN", "UNION", "UNION ALL", "USING", "VALUES", "WHEN", "WHERE", "WITH",
)
# fmt: on

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_QUALIFIED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z0-9_]*)\Z")
_NAMES: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_AFTER_FROM: Final = re.compile(r"\b(?:from|join|pivot|table)\s+[A-Za-z0-9_]*\Z", re.IGNORECASE)
_ALIASED: Final = r"\b{0}\s+(?:as\s+)?([A-Za-z_][A-Za-z0-9_]*)"
_SUGGESTIONS_MAX: Final = 50


def completions(catalog: Catalog, text: str, cursor: int) -> list[str]:
    """The words that may stand where the cursor is, best first; each replaces the word being typed."""
    before = text[:cursor]
    tables = {table.name: table for table in catalog.tables}
    if qualified := _QUALIFIED.search(before):
        named = _table_of(qualified.group(1), text, tables)
        return _starting(qualified.group(2), [c.name for c in named.columns] if named is not None else [])
    word = found.group() if (found := _WORD.search(before)) else ""
    if _AFTER_FROM.search(before):
        return _starting(word, list(tables))
    mentioned = [tables[name] for name in dict.fromkeys(_NAMES.findall(text.lower())) if name in tables]
    columns = [column.name for table in mentioned for column in table.columns]
    if not word:
        return list(dict.fromkeys(columns))[:_SUGGESTIONS_MAX]
    return _starting(word, [*columns, *tables, *_cased(word), *(f"{name}(" for name in catalog.functions)])


def _table_of(name: str, text: str, tables: dict[str, TableInfo]) -> TableInfo | None:
    """The table of a name before a dot: its own, or an alias given in the text."""
    if name.lower() in tables:
        return tables[name.lower()]
    for table in tables.values():
        found = re.search(_ALIASED.format(re.escape(table.name)), text, re.IGNORECASE)
        if found and found.group(1).lower() == name.lower():
            return table
    return None


def _starting(word: str, candidates: list[str]) -> list[str]:
    lower = word.lower()
    return list(dict.fromkeys(name for name in candidates if name.lower().startswith(lower)))[:_SUGGESTIONS_MAX]


def _cased(word: str) -> list[str]:
    """Keywords in the case the person types in."""
    return [keyword.lower() for keyword in KEYWORDS] if word.islower() else list(KEYWORDS)
