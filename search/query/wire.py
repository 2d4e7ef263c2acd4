"""The JSON form of a request: strict, bounded, turned into values at once. Times are RFC 3339 or a window as `30d`.

{"query": "retry handling", "terms": [], "mode": "hybrid", "semantic_weight": null, "content_scope": "all",
 "event_types": [], "filters": {"providers": [], "workspaces": [], "since": "60d", "files": [], …},
 "events": false, "limit": 20, "cursor": null, "facets": false, "explain": false, "verbose": false,
 "freshness": {"mode": "background", "timeout_ms": 0}}
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec

from polyc.errors import RefusedError
from polyc.limits import SEARCH_LIMIT_DEFAULT, SEARCH_WAIT_MS_MAX
from search.query.cursor import peek_asked_at
from search.query.request import ContentScope, Filters, Mode, SearchRequest

# One escape of a JSON string; backslashes come in pairs, so the next one begins where this one ends.
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
Refresh = Literal["background", "off", "wait"]


class FilterBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The filters as they are sent."""

    providers: tuple[str, ...] = ()
    provider_sessions: tuple[str, ...] = ()
    workspaces: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    sessions: tuple[str, ...] = ()
    exclude_sessions: tuple[str, ...] = ()
    exclude_trees: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    primary_only: bool = False
    source_roots: tuple[str, ...] = ()
    source_groups: tuple[str, ...] = ()


class FreshnessBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How fresh the answer must be."""

    mode: Refresh = "background"
    timeout_ms: int = 5_000


class SearchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request as it is sent."""

    query: str = ""
    terms: tuple[str, ...] = ()
    mode: Mode = "hybrid"
    semantic_weight: float | None = None
    content_scope: ContentScope | None = None
    event_types: tuple[str, ...] = ()
    filters: FilterBody = FilterBody()
    events: bool = False
    limit: int = SEARCH_LIMIT_DEFAULT
    cursor: str | None = None
    facets: bool = False
    explain: bool = False
    verbose: bool = False
    freshness: FreshnessBody = FreshnessBody()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A decoded request and how to answer it."""

    request: SearchRequest
    verbose: bool
    refresh: Refresh
    timeout_ms: int
    text: str  # what the audit keeps: the body in one spelling, without the cursor


def decode_body(content: bytes, *, now_us: int) -> Asked:
    """The request of a JSON text; RefusedError when it is not one."""
    try:
        return asked_of(_body_of(content), now_us=now_us)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise RefusedError('the body is not {"query": "…"}', hint="docs/search.md lists the fields") from None


def _body_of(content: bytes) -> SearchBody:
    r"""The body of a JSON text; half a surrogate pair (`\ud83d`: an emoji cut in two) becomes a question mark."""
    try:
        return _decoder.decode(content)
    except msgspec.DecodeError:
        return _decoder.decode(_ESCAPE.sub(_whole, content))


def _whole(escape: re.Match[bytes]) -> bytes:
    return b"?" if escape["half"] else escape[0]


def asked_of(body: SearchBody, *, now_us: int) -> Asked:
    """The values of a body; a later page counts windows of time from where its first one did."""
    sent = body.filters
    asked_at_us = now_us if body.cursor is None else peek_asked_at(body.cursor)
    if not 0 <= body.freshness.timeout_ms <= SEARCH_WAIT_MS_MAX:
        raise RefusedError(f"timeout is not within 0 and {SEARCH_WAIT_MS_MAX} ms", code="out_of_range")
    filters = Filters(
        providers=sent.providers,
        provider_sessions=sent.provider_sessions,
        workspaces=sent.workspaces,
        roles=sent.roles,
        tools=sent.tools,
        files=sent.files,
        since_us=parse_time(sent.since, now_us=asked_at_us),
        until_us=parse_time(sent.until, now_us=asked_at_us),
        sessions=sent.sessions,
        exclude_sessions=sent.exclude_sessions,
        exclude_trees=sent.exclude_trees,
        ids=sent.ids,
        primary_only=sent.primary_only,
        source_roots=sent.source_roots,
        source_groups=sent.source_groups,
    )
    request = SearchRequest(
        text=body.query,
        terms=body.terms,
        mode=body.mode,
        semantic_weight=body.semantic_weight,
        content_scope=body.content_scope,
        event_types=body.event_types,
        filters=filters,
        events=body.events,
        limit=body.limit,
        cursor=body.cursor,
        facets=body.facets,
        explain=body.explain,
        asked_at_us=asked_at_us,
    )
    audited = msgspec.json.encode(msgspec.structs.replace(body, cursor=None)).decode()
    return Asked(
        request=request,
        verbose=body.verbose,
        refresh=body.freshness.mode,
        timeout_ms=body.freshness.timeout_ms,
        text=audited,
    )


_WINDOW: Final = re.compile(r"([0-9]{1,5})d")
_DAY_US: Final = 86_400_000_000
_DATE_CHARS: Final = 10


def parse_time(text: str | None, *, now_us: int) -> int | None:
    """Microseconds of an RFC 3339 time or date, or of so many days before now.

    >>> parse_time("1970-01-02T00:00:00Z", now_us=0), parse_time("1d", now_us=86_400_000_000)
    (86400000000, 0)
    """
    if text is None:
        return None
    window = _WINDOW.fullmatch(text)
    if window is not None:
        return now_us - int(window.group(1)) * _DAY_US
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RefusedError("not a time", hint="RFC 3339 as 2026-03-01T12:00:00Z, a date, or days as 30d") from None
    if moment.tzinfo is None:
        if len(text) != _DATE_CHARS:
            raise RefusedError("a time without its zone", hint="add Z or an offset")
        moment = moment.replace(tzinfo=UTC)
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def format_time(us: int | None) -> str | None:
    """RFC 3339 in UTC, milliseconds.

    >>> format_time(1_000)
    '1970-01-01T00:00:00.001Z'
    """
    if us is None:
        return None
    try:
        moment = _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_decoder = msgspec.json.Decoder(SearchBody)
