"""What is asked: a search request as a value, checked once.

Text is text: no request is refused for what its words contain. A request without a searchable word finds nothing and
says so. Refused by name are only contradictions (a content scope beside event types), numbers out of their bounds and
unknown words of closed vocabularies.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from polyc.errors import RefusedError
from polyc.limits import SEARCH_FILTERS_MAX, SEARCH_LIMIT_DEFAULT, SEARCH_LIMIT_MAX, SEARCH_TEXT_BYTES_MAX
from search.chunk import KINDS, Kind

Mode = Literal["lexical", "semantic", "hybrid"]
ContentScope = Literal["all", "transcript", "calls", "outputs"]

SCOPE_KINDS: Final[dict[ContentScope, tuple[Kind, ...]]] = {
    "all": KINDS,
    "transcript": ("transcript", "summary"),
    "calls": ("call",),
    "outputs": ("output",),
}
# ctx-search.txt, "Content scopes": a class-specific search does not carry the weights that mix the classes.
SCOPE_WEIGHTS: Final[dict[ContentScope, dict[Kind, float]]] = {
    "all": {"transcript": 1.0, "summary": 0.9, "call": 0.8, "output": 0.6, "other": 0.8},
    "transcript": {"transcript": 1.0, "summary": 0.9},
    "calls": {"call": 1.0},
    "outputs": {"output": 1.0},
}
SHORT_ID_MIN: Final = 8  # characters of a conversation's id that may name it
CHUNK_ID: Final = re.compile(r"[0-9a-f]{8,32}")
EVENT_TYPES: Final[dict[str, Kind]] = {
    "message": "transcript",
    "transcript": "transcript",
    "summary": "summary",
    "tool_call": "call",
    "command_started": "call",
    "call": "call",
    "tool_output": "output",
    "command_output": "output",
    "command_finished": "output",
    "output": "output",
    "other": "other",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What narrows a search; classes combine with AND, the values of one class with OR. Times are half-open, in µs."""

    providers: tuple[str, ...] = ()
    provider_sessions: tuple[str, ...] = ()
    workspaces: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    since_us: int | None = None
    until_us: int | None = None
    sessions: tuple[str, ...] = ()
    exclude_sessions: tuple[str, ...] = ()
    exclude_trees: tuple[str, ...] = ()  # conversations, with all that claim one of them as parent or root
    ids: tuple[str, ...] = ()  # of chunks, complete or from 8 hex digits on
    primary_only: bool = False
    source_roots: tuple[
        str, ...
    ] = ()  # folders conversations ran in, with all below; with groups one set of alternatives
    source_groups: tuple[str, ...] = ()  # repositories by exact name


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search. `semantic_weight` None: both lanes count alike; 0: exactly lexical, with no vector work."""

    text: str = ""
    terms: tuple[str, ...] = ()
    mode: Mode = "hybrid"
    semantic_weight: float | None = None
    content_scope: ContentScope | None = None
    event_types: tuple[str, ...] = ()
    filters: Filters = Filters()
    events: bool = False
    limit: int = SEARCH_LIMIT_DEFAULT
    cursor: str | None = None
    facets: bool = False
    explain: bool = False
    asked_at_us: int = 0  # what windows of time (`60d`) were counted back from: the same on every page

    @property
    def echo(self) -> str:
        """The query as answers repeat it: alternatives joined by OR."""
        return " OR ".join(part for part in (self.text.strip(), *(term.strip() for term in self.terms)) if part)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of chunks that may match."""
        if self.event_types:
            wanted = {EVENT_TYPES[name] for name in self.event_types}
            return tuple(kind for kind in KINDS if kind in wanted)
        return SCOPE_KINDS[self.content_scope or "all"]

    def weight(self, kind: Kind) -> float:
        """What a kind's lexical score counts."""
        scope = "all" if self.event_types else (self.content_scope or "all")
        return SCOPE_WEIGHTS[scope][kind]

    @property
    def dense(self) -> bool:
        """Whether every event counts for itself: no shaping by conversation."""
        return self.events or bool(self.filters.sessions or self.filters.ids)

    @property
    def wants_semantic(self) -> bool:
        """Whether vectors could take part."""
        return self.mode == "semantic" or (self.mode == "hybrid" and self.semantic_weight != 0)


def check_request(request: SearchRequest) -> SearchRequest:
    """The request, or RefusedError with the one thing that is wrong with it."""
    filters = request.filters
    if request.content_scope is not None and request.event_types:
        raise RefusedError("a content scope cannot be combined with event types", hint="use one of them")
    if request.content_scope not in {None, *SCOPE_KINDS}:
        raise RefusedError("no such content scope", hint=", ".join(SCOPE_KINDS))
    if not set(request.event_types) <= EVENT_TYPES.keys():
        raise RefusedError("no such event type", hint=", ".join(EVENT_TYPES))
    if request.mode not in {"lexical", "semantic", "hybrid"}:
        raise RefusedError("no such mode", hint="lexical, semantic or hybrid")
    if not 1 <= request.limit <= SEARCH_LIMIT_MAX:
        raise RefusedError(f"limit is not within 1 and {SEARCH_LIMIT_MAX}", code="out_of_range")
    if request.semantic_weight is not None and not 0 <= request.semantic_weight <= 1:
        raise RefusedError("semantic weight is not within 0 and 1", code="out_of_range")
    if filters.sessions and filters.exclude_sessions:
        raise RefusedError("sessions cannot be named and excluded at once", hint="use one of them")
    said = len(request.text.encode("utf-8", "surrogatepass")) + sum(
        len(term.encode("utf-8", "surrogatepass")) for term in request.terms
    )
    if said > SEARCH_TEXT_BYTES_MAX:
        raise RefusedError(f"query text is longer than {SEARCH_TEXT_BYTES_MAX} bytes", code="out_of_range")
    if any(not CHUNK_ID.fullmatch(name) for name in filters.ids):
        raise RefusedError("not a chunk id", hint="8 to 32 hex digits, as results show them")
    lists = [value for name in filters.__slots__ if isinstance(value := getattr(filters, name), tuple)]
    if max(map(len, (*lists, request.terms, request.event_types))) > SEARCH_FILTERS_MAX:
        raise RefusedError(f"more than {SEARCH_FILTERS_MAX} values of one filter", code="out_of_range")
    if not all(value.strip() for values in lists for value in values):
        raise RefusedError("a filter's value is empty", hint="leave the filter out")
    return request
