"""`polyc search` and `polyc show`: find what was said or done, and open it.

A search goes to the running edge, else through the same code in this process, under a grant of its own and on record:
what a command does not need (the journal, the keys, an engine) is not loaded. Foreign text is shown
with its control characters and bidi marks escaped. The session that the command runs in is left out of the results
when it can be told (it fails open: an unknown environment leaves everything in).
"""

import math
import os
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from polyc.cli.console import note
from polyc.cli.edge import edge_url, keep_grant, kept_grant
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot, default_data_root
from polyc.errors import PolycError, RefusedError
from polyc.ids import imported_partition
from query_plane.search_client import SearchClient
from search.query.answer import Hit, SearchAnswer
from search.query.display import one_line, visible
from search.query.request import SHORT_ID_MIN
from search.query.wire import FilterBody, FreshnessBody, SearchBody, format_time

if TYPE_CHECKING:
    from polyc.cli.deployment import Deployment
    from query_plane.answer import Answer

# The harness's own word for the conversation it runs, in the environment of the commands it starts.
_SESSION_VARIABLES: Final = (("CLAUDE_CODE_SESSION_ID", "claude-code"), ("CODEX_THREAD_ID", "codex"))
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def run(arguments: Namespace) -> int:
    """Search and write the answer."""
    body = _body(arguments, os.environ)
    answer = _ask(default_data_root(arguments.data_root), arguments, body)
    answer = _runnable(answer, arguments)
    if (arguments.format or "text") == "json":
        answer = msgspec.structs.replace(answer, generated_at=format_time(SystemClock().now_us()))
        sys.stdout.write(answer.to_json().decode() + "\n")
        return 0
    sys.stdout.write(render(answer, colour=sys.stdout.isatty(), verbose=arguments.verbose))
    for reason in _remarks(answer):
        note(f"polyc: note: {reason}")
    return 0


def _remarks(answer: SearchAnswer) -> Iterator[str]:
    """What a person should know about an answer that its results do not show."""
    if answer.fallback is not None and answer.fallback != "semantic_disabled":  # it is an opt-in
        yield _REASONS.get(answer.fallback, answer.fallback)
    if answer.query_truncated:
        yield "the query has more different words than are searched for; these results are of the first ones"
    if answer.pool_truncated:
        yield "more events match than are looked at for the best of each conversation (--events lists them all)"
    if answer.freshness.outcome == "timed_out":
        yield f"what was said last is not indexed yet; these results are as of {answer.freshness.published_at}"


def _runnable(answer: SearchAnswer, arguments: Namespace) -> SearchAnswer:
    """The answer with suggestions that run as they are printed: on this data root, for whom this was asked."""
    place = f" --data-root {shlex.quote(arguments.data_root)}" if arguments.data_root else ""
    who = " --admin" if arguments.admin else f" --persona {shlex.quote(arguments.persona)}" if arguments.persona else ""

    def run_here(command: str) -> str:
        _, verb, rest = command.split(" ", 2)
        return f"polyc{place} {verb}{'' if verb == 'prove' else who} {rest}"

    results = tuple(
        msgspec.structs.replace(hit, suggested_next_commands=tuple(map(run_here, hit.suggested_next_commands)))
        for hit in answer.results
    )
    return msgspec.structs.replace(answer, results=results)


def show(arguments: Namespace) -> int:
    """Print the event, or the conversation, that a result names."""
    from polyc.cli.deployment import opened
    from polyc.cli.granting import mint
    from polyc.cli.output import write_rows

    root = default_data_root(arguments.data_root)
    partition, position = _target(root, arguments)
    with opened(root) as deployment:
        token, _ = mint(deployment, admin=arguments.admin, persona=arguments.persona)
        between = {
            "low": 0 if position is None else position - arguments.context,
            "high": 2**62 if position is None else position + arguments.context,
        }
        answer = _rows(deployment, token, _SHOW, {"partition": partition, **between})
        if not answer.rows and len(partition) >= SHORT_ID_MIN:
            named = _rows(deployment, token, _NAMED, {"name": partition}).rows
            if len(named) > 1:
                raise RefusedError("a conversation's name is ambiguous", hint="give more of its characters")
            if named:
                answer = _rows(deployment, token, _SHOW, {"partition": named[0][0], **between})
    if not answer.rows:
        raise RefusedError("there is no such event in what you may read", code="not_found", hint="polyc search WORDS")
    columns = [column.name for column in answer.columns]
    if arguments.format in {"json", "csv", "table"}:
        write_rows(columns, answer.rows, form=arguments.format)
        return 0
    for row in answer.rows:
        _print_event(dict(zip(columns, row, strict=True)), marked=position)
    return 0


def _rows(deployment: "Deployment", token: str, sql: str, parameters: Mapping[str, object]) -> "Answer":
    from query_plane.local import run_local

    return run_local(
        deployment.root,
        token,
        sql,
        port=deployment.journal,
        clock=deployment.clock,
        ids=deployment.ids,
        parameters=parameters,
    )


def render(answer: SearchAnswer, *, colour: bool, verbose: bool) -> str:
    """The answer for a person: a heading, then each result with its event, time and snippet."""
    count = len(answer.results)
    lines = [f"{count} result{'' if count == 1 else 's'}", ""]
    for hit in answer.results:
        lines += [*_result(hit, colour=colour, verbose=verbose), ""]
    if answer.window.more_available:
        lines.append("More results available.")
    return "\n".join(lines).rstrip("\n") + "\n"


def _result(hit: Hit, *, colour: bool, verbose: bool) -> list[str]:
    place = " ".join(filter(None, (hit.provider, hit.workspace)))
    further = f" (+{hit.further_matches} more here)" if hit.further_matches else ""
    tool = f" {one_line(hit.tool)}" if hit.tool else ""
    lines = [
        f"{hit.rank}. {one_line(hit.title or hit.session)}{f' · {one_line(place)}' if place else ''}{further}",
        f"   Event  {hit.id}  {one_line(hit.role)} {hit.kind}{tool}  {hit.citation}",
        f"   Time   {local_time(hit.occurred_at)}",
    ]
    if verbose:
        lines += [
            f"   {name:<7}{one_line(str(value))}"
            for name, value in (
                ("Chunk", hit.chunk_id),
                ("Folder", hit.cwd),
                ("Branch", hit.branch),
                ("Source", hit.provider_session),
                ("Agent", hit.agent),
                ("Parent", hit.parent),
                ("Root", hit.root if hit.root != hit.parent else None),
                ("Paths", ", ".join(hit.paths)),
            )
            if value
        ]
    lines.append(f"   {_marked(hit, colour=colour)}")
    return lines + [f"   {command}" for command in hit.suggested_next_commands]


def _marked(hit: Hit, *, colour: bool) -> str:
    """The snippet on one line, its matches bold on a terminal."""
    content = hit.snippet.text.encode()
    out, at = [], hit.snippet.start_byte
    for start, end in hit.snippet.highlights:
        base = hit.snippet.start_byte
        out.append(_flat(content[at - base : start - base]))
        match = _flat(content[start - base : end - base])
        out.append(f"{_BOLD}{match}{_PLAIN}" if colour else match)
        at = end
    out.append(_flat(content[at - hit.snippet.start_byte :]))
    before, after = "…" if hit.snippet.cut_before else "", "…" if hit.snippet.cut_after else ""
    return f"{before}{''.join(out).strip()}{after}"


def _flat(content: bytes) -> str:
    return visible(re.sub(r"\s+", " ", content.decode()))


def local_time(text: str | None) -> str:
    """An RFC 3339 time in this machine's zone, `YYYY-MM-DD HH:MM:SS ZONE`."""
    if text is None:
        return "time unavailable"
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


# What the edge says of a grant that was good when it was minted: another one may be.
_MINT_AGAIN: Final = frozenset({"unauthenticated", "failed_precondition", "unavailable"})


def _ask(root: DataRoot, arguments: Namespace, body: SearchBody) -> SearchAnswer:
    """The answer of the running edge under the grant of the last command; else minted anew, here when nobody serves."""
    url = edge_url(root)
    who = f"{'admin' if arguments.admin else 'persona'}:{arguments.persona or ''}"
    token = kept_grant(root, who, now_ms=SystemClock().now_us() // 1000)
    if url is not None and token is not None:
        try:
            return SearchClient(url, token).search(body)
        except PolycError as error:
            if error.code not in _MINT_AGAIN:
                raise
    from polyc.cli.deployment import opened
    from polyc.cli.granting import mint

    with opened(root) as deployment:
        token, ends_at_ms = mint(deployment, admin=arguments.admin, persona=arguments.persona)
        keep_grant(root, who, token, ends_at_ms, now_ms=deployment.clock.now_us() // 1000)
        if url is not None and _serves(url):
            return SearchClient(url, token).search(body)
        from query_plane.searching import search_local

        if body.freshness.mode == "wait":  # nobody serves, so nobody else makes what is waited for
            from polyc.cli.projecting import project

            project(deployment)
        content = msgspec.json.encode(body)
        return search_local(root, token, content, port=deployment.journal, clock=deployment.clock, ids=deployment.ids)


def _serves(url: str) -> bool:
    """Whether somebody still listens where an edge did."""
    import socket

    host, _, port = url.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def _body(arguments: Namespace, environment: Mapping[str, str]) -> SearchBody:
    """The request that the arguments make."""
    arguments = Namespace(**{name: _readable(value) for name, value in vars(arguments).items()})
    own = () if arguments.include_current_session or arguments.session else current_session(environment)
    filters = FilterBody(
        providers=tuple(arguments.provider),
        provider_sessions=tuple(arguments.provider_session),
        workspaces=tuple(arguments.workspace),
        roles=tuple(arguments.role),
        tools=tuple(arguments.tool),
        files=tuple(arguments.file),
        since=arguments.since,
        until=arguments.until,
        sessions=tuple(arguments.session),
        exclude_sessions=tuple(arguments.exclude_session),
        exclude_trees=own,
        primary_only=arguments.primary_only,
        source_roots=tuple(arguments.source_root),
        source_groups=tuple(arguments.source_group),
    )
    if arguments.semantic_weight is not None and math.isnan(arguments.semantic_weight):
        raise RefusedError("semantic weight is not within 0 and 1", code="out_of_range")
    query = " ".join(arguments.words)
    if not (query.strip() or any(term.strip() for term in arguments.term) or arguments.file):
        raise RefusedError("nothing to search for", hint="give words, --term or --file")
    return SearchBody(
        query=query,
        terms=tuple(arguments.term),
        mode=arguments.mode,
        semantic_weight=arguments.semantic_weight,
        content_scope=arguments.content_scope,
        event_types=tuple(arguments.event_type),
        filters=filters,
        events=arguments.events,
        limit=arguments.limit,
        cursor=arguments.cursor,
        facets=arguments.facets,
        explain=arguments.explain,
        verbose=arguments.verbose,
        freshness=FreshnessBody(mode=arguments.refresh),
    )


def _readable(value: Any) -> Any:
    """An argument as text: bytes that are no UTF-8 become U+FFFD, whatever the locale made of them."""
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if not isinstance(value, str) or value.isascii():
        return value
    try:
        return os.fsencode(value).decode("utf-8", "replace")
    except UnicodeEncodeError:  # surrogates that no argument of a process can hold
        return value.encode("utf-8", "replace").decode()


def current_session(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The imported conversation that this command was started from; none when the environment does not say which.

    A harness that was started by another one inherits its variable: then two are named, and none is left out.
    """
    named = [(provider, native) for variable, provider in _SESSION_VARIABLES if (native := environment.get(variable))]
    return (imported_partition(*named[0]),) if len(named) == 1 else ()


_PLACE: Final = re.compile(r"(conv-[a-z0-9-]{1,64}|[a-z0-9-]{8,64})(?:@([1-9][0-9]{0,17}))?")
_CHUNK: Final = re.compile(r"[0-9a-f]{8,32}")
_SHOW: Final = """
SELECT partition, position, turn_id, 'message' AS event, role AS who, occurred_at, text
FROM messages WHERE partition = $partition AND position BETWEEN $low AND $high
UNION ALL
SELECT m.partition, m.position, m.turn_id, 'thinking', m.role, m.occurred_at,
  string_agg(b.text, chr(10) || chr(10) ORDER BY b.block_index)
FROM messages m JOIN blocks b ON b.message_id = m.message_id AND b.partition = m.partition
WHERE m.partition = $partition AND m.position BETWEEN $low AND $high
  AND b.type = 'thinking' AND b.text <> '' AND m.kind <> 'thinking'
GROUP BY ALL
UNION ALL
SELECT partition, position, turn_id, block_type, name, occurred_at, coalesce(result_text, arguments::VARCHAR)
FROM tool_calls WHERE partition = $partition AND position BETWEEN $low AND $high
ORDER BY position, event
"""

_NAMED: Final = """
SELECT DISTINCT partition FROM messages
WHERE starts_with(partition, $name) OR starts_with(partition, 'conv-' || $name)
  OR starts_with(partition, 'conv-imp-' || $name)
ORDER BY partition LIMIT 2
"""


def _target(root: DataRoot, arguments: Namespace) -> tuple[str, int | None]:
    """The place a target names: the id of a result, or a conversation or the beginning of one, maybe with `@7`."""
    if _CHUNK.fullmatch(arguments.target):
        body = SearchBody(filters=FilterBody(ids=(arguments.target,)), limit=2, mode="lexical")
        answer = _ask(root, arguments, body)
        if answer.window.more_available or len({hit.citation for hit in answer.results}) > 1:
            raise RefusedError("the id is ambiguous", hint="give more of its digits")
        if answer.results:
            return answer.results[0].partition, answer.results[0].position
    match = _PLACE.fullmatch(arguments.target)
    if match is None:
        raise RefusedError("not an event, a conversation or a result's id", hint="polyc show conv-…@7")
    return match.group(1), int(match.group(2)) if match.group(2) else None


def _print_event(row: Mapping[str, object], *, marked: int | None) -> None:
    position = row["position"]
    mark = "▶" if marked is not None and str(position) == str(marked) else " "
    place, time = f"{row['partition']}@{position}", local_time(_text(row["occurred_at"]))
    print(f"{mark} {place}  {row['event']} {one_line(_text(row['who']) or '')}  {time}")
    print("\n".join(f"    {line}" for line in visible(_text(row["text"]) or "").split("\n")))
    print()


def _text(value: object) -> str | None:
    return None if value is None else str(value)


_REASONS: Final = {
    "semantic_incomplete": "some vectors are still missing; these are lexical results (polyc semantic status)",
    "semantic_unsupported_scope": "vectors cover transcripts only; these are lexical results",
    "semantic_space_drifted": "the semantic executor has drifted; these are lexical results (polyc semantic rebuild)",
    "no_searchable_words": "the query has no word that could be searched for",
    "no_such_conversation": "no conversation that you may read has that name and fits the other filters",
}
