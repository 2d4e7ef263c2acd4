"""Filters as the engine's queries: hard conditions without a score; a name the pack does not know matches nothing."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import tantivy

from polyc.errors import RefusedError
from search.chunk import KINDS, Kind, SessionMeta
from search.pack import IndexName, Names
from search.query.request import SHORT_ID_MIN, Filters, SearchRequest
from search.query.scope import ScopedPack
from search.query.spelling import spelled

_TIME_MAX: Final = 1 << 62
INDEX_KINDS: Final[dict[IndexName, frozenset[Kind]]] = {
    "main": frozenset(KINDS) - {"output"},
    "outputs": frozenset({"output"}),
}


def partition_filter(schema: Any, scoped: ScopedPack) -> Any | None:
    """The scope as a condition, or None when it is the whole pack; made once."""
    if scoped.condition is None and not scoped.whole:
        scoped.condition = _one_of(schema, "partition", scoped.ordinals)
    return scoped.condition


def hit_filters(
    schema: Any, index: IndexName, kinds: Sequence[Kind], names: Names, request: SearchRequest
) -> list[Any] | None:
    """The other conditions on a hit of these kinds in one index, or None when nothing there can satisfy them."""
    conditions = []
    if len(kinds) < len(INDEX_KINDS[index]):
        conditions.append(_one_of(schema, "kind", [KINDS.index(kind) for kind in kinds]))
    filters = request.filters
    for field, wanted, known in (("role", filters.roles, names.roles), ("tool", filters.tools, names.tools)):
        if wanted:
            ordinals = _ordinals(known, set(wanted).__contains__)
            if not ordinals:
                return None
            conditions.append(_one_of(schema, field, ordinals))
    if filters.files:
        files = [spelled(file) for file in filters.files]
        ordinals = _ordinals(names.paths, lambda path: any(_names_file(spelled(path), file) for file in files))
        if not ordinals:
            return None
        conditions.append(_one_of(schema, "path", ordinals))
    if filters.ids:
        conditions.append(_any_of([_id_range(schema, name) for name in filters.ids]))
    if filters.since_us is not None or filters.until_us is not None:
        conditions.append(
            tantivy.Query.range_query(
                schema,
                "time",
                tantivy.FieldType.Integer,
                lower_bound=-_TIME_MAX if filters.since_us is None else filters.since_us,
                upper_bound=_TIME_MAX if filters.until_us is None else filters.until_us,
                include_upper=False,
            )
        )
    return conditions


def conversation_filter(metas: Mapping[str, SessionMeta], filters: Filters) -> Callable[[str], bool] | None:
    """Which conversations may have hits, or None when the request does not say."""
    if not (
        filters.providers
        or filters.provider_sessions
        or filters.workspaces
        or filters.sessions
        or filters.exclude_sessions
        or filters.exclude_trees
        or filters.primary_only
        or filters.source_roots
        or filters.source_groups
    ):
        return None
    _check_sources(metas, filters)
    sessions = named_conversations(filters.sessions, metas)
    excluded = named_conversations(filters.exclude_sessions, metas)

    def admits(partition: str) -> bool:
        meta = metas.get(partition, SessionMeta())
        if filters.providers and meta.origin not in filters.providers:
            return False
        if filters.provider_sessions and meta.provider_session_id not in filters.provider_sessions:
            return False
        if filters.workspaces and not any(_is_workspace(meta, name) for name in filters.workspaces):
            return False
        if not (_is_of_source(meta, filters.source_roots, filters.source_groups)):
            return False
        if filters.primary_only and (meta.link_kind == "subagent" or meta.agent_id is not None):
            return False
        if not {partition, meta.parent, meta.root}.isdisjoint(filters.exclude_trees):
            return False
        if filters.sessions and partition not in sessions:
            return False
        return partition not in excluded

    return admits


def named_conversations(names: Sequence[str], metas: Mapping[str, SessionMeta]) -> frozenset[str]:
    """The conversations of these names: complete ids, or unambiguous beginnings of 8 and more characters.

    A name that no conversation of the scope has names none; one that begins several is refused.
    """
    found: set[str] = set()
    for name in names:
        spellings = (name, f"conv-{name}", f"conv-imp-{name}")
        complete = [known for known in spellings if known in metas]
        if complete:
            found.add(complete[0])
        elif len(name) >= SHORT_ID_MIN:
            begun = [known for known in metas if known.startswith(spellings)]
            if len(begun) > 1:
                raise RefusedError("a conversation's name is ambiguous", hint="give more of its characters")
            found.update(begun)
    return frozenset(found)


def _is_workspace(meta: SessionMeta, name: str) -> bool:
    """By the repository's name, the working folder or one above it, or the last part of it."""
    if name == meta.repo:
        return True
    if meta.cwd is None:
        return False
    folder, wanted = spelled(meta.cwd), spelled(name)
    return wanted in {folder, folder.rpartition("/")[2]} or (wanted[0] in "/~" and _is_below(folder, wanted))


def _is_below(folder: str, root: str) -> bool:
    return folder.startswith(f"{root.rstrip('/')}/")


def _check_sources(metas: Mapping[str, SessionMeta], filters: Filters) -> None:
    """Refuse a selector that selects nothing of the scope: a mistyped one must not look like an empty archive."""
    alternatives = [((root,), ()) for root in filters.source_roots] + [
        ((), (group,)) for group in filters.source_groups
    ]
    for roots, groups in alternatives:
        if not any(_is_of_source(meta, roots, groups) for meta in metas.values()):
            raise RefusedError(
                "a source root or group is not known in what you may read",
                code="not_found",
                hint="a folder that agents ran in, or a repository's exact name",
            )


def _is_of_source(meta: SessionMeta, roots: Sequence[str], groups: Sequence[str]) -> bool:
    """Whether the conversation ran at or below one of the folders, or in one of the repositories; no selector: yes."""
    if not (roots or groups):
        return True
    return meta.repo in groups or (
        meta.cwd is not None and any(_is_below(f"{spelled(meta.cwd)}/", spelled(root)) for root in roots)
    )


def _names_file(path: str, wanted: str) -> bool:
    """The path itself, or its last parts; both as they are compared."""
    return path == wanted or path.endswith("/" + wanted.lstrip("/"))


_IDENT_DIGITS: Final = 16  # the index knows the first 8 bytes of an id


def _id_range(schema: Any, name: str) -> Any:
    """The chunks whose id begins so."""
    digits = name[:_IDENT_DIGITS]
    low = int(digits.ljust(_IDENT_DIGITS, "0"), 16)
    high = int(digits.ljust(_IDENT_DIGITS, "f"), 16)
    return tantivy.Query.range_query(schema, "ident", tantivy.FieldType.Unsigned, lower_bound=low, upper_bound=high)


def _any_of(queries: list[Any]) -> Any:
    if len(queries) == 1:
        return queries[0]
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])


def _ordinals(known: Sequence[str], accepts: Callable[[str], bool]) -> list[int]:
    return [ordinal for ordinal, name in enumerate(known, 1) if accepts(name)]


_TERMS_MAX: Final = 500


def _one_of(schema: Any, field: str, values: Sequence[int]) -> Any:
    """One of the values: few as an OR of terms, many as the engine's query of a set.

    The set costs a look through the field's whole dictionary, up to fifty times the OR of a few terms; the OR holds a
    posting list open for each term and falls behind at about 500: 0.9 and 0.9 ms for 250 of 2,500 conversations, 6.0
    and 1.7 ms for 1,250 of them, 55 and 6.5 ms for 10,000 of 50,000.
    """
    if len(values) > _TERMS_MAX:
        query = tantivy.Query.term_set_query(schema, field, list(values))
    else:
        query = _any_of([tantivy.Query.term_query(schema, field, value) for value in values])
    return tantivy.Query.const_score_query(query, 0.0)
