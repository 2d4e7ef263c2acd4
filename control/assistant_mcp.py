"""An MCP server for people's assistants: search and SQL under a grant, the catalog, and the two fixed lists.

It is no part of Control's socket, where no operation takes SQL: it is a client of Control, which mints the grants,
and of the Query edge, which runs the statements. It runs on stdio for one person's session, or on a port of its own,
where each request brings its bearer: a session, for which a grant is minted, or a grant, which is passed on. What may
be read is decided by the grant's own scope, at the edge, every time.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal, TypeVar

import httpx
import msgspec
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from control.sessions import PREFIX
from control.statements import Answer, describe_catalog, execute, search
from control.tools import CONVERSATION_LIST_TOOL_CALLS, CONVERSATION_RECENT_TURNS, Detail, Tool, listed
from polyc.clock import Clock
from polyc.errors import PolycError, RefusedError, UnavailableError
from polyc.grants import GrantRefusedError, bearer_of
from polyc.limits import QUERY_CLIENT_TIMEOUT_S

QUERY_ROWS_DEFAULT: Final = 200
QUERY_ROWS_MAX: Final = 2_000
GRANT_MARGIN_MS: Final = 30_000  # a grant this near to its end is minted anew
GRANTS_KEPT_MAX: Final = 256

T = TypeVar("T")
SEARCH_RESULTS_MAX: Final = 50  # an assistant reads them all

Sql = Annotated[str, Field(min_length=1, max_length=32 * 1024, description="exactly one SELECT")]
Rows = Annotated[int, Field(ge=1, le=QUERY_ROWS_MAX)]
Count = Annotated[int, Field(ge=1, le=1000)]
Words = Annotated[str, Field(max_length=8 * 1024, description="text is text: no character is an operator")]
Terms = Annotated[tuple[str, ...], Field(max_length=16, description="further alternatives (OR)")]
Since = Annotated[str | None, Field(max_length=40, description="RFC 3339, a date, or days as 60d")]
Results = Annotated[int, Field(ge=1, le=SEARCH_RESULTS_MAX)]
ContentScope = Literal["all", "transcript", "calls", "outputs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where Control and the Query edge are."""

    control_url: str
    query_url: str


class Grants:
    """Grants for bearers: minted at Control for a session and kept until shortly before their end, in memory alone."""

    def __init__(self, control_url: str, *, clock: Clock) -> None:
        self._client = _client(control_url)
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def of(self, bearer: str) -> str:
        """The grant to present for a bearer."""
        if not bearer.startswith(PREFIX):
            return bearer
        with self._lock:
            kept = self._kept.get(bearer)
        if kept is not None and kept[1] - GRANT_MARGIN_MS > self._clock.now_us() // 1000:
            return kept[0]
        token, expires_at_ms = self._mint(bearer)
        with self._lock:
            self._kept[bearer] = (token, expires_at_ms)
            self._kept.move_to_end(bearer)
            if len(self._kept) > GRANTS_KEPT_MAX:
                self._kept.popitem(last=False)
        return token

    def forget(self, bearer: str) -> None:
        """The grant was refused: a new one is minted next time."""
        with self._lock:
            self._kept.pop(bearer, None)

    def close(self) -> None:
        """Forget everything and give up the connections."""
        with self._lock:
            self._kept.clear()
        self._client.close()

    def _mint(self, bearer: str) -> tuple[str, int]:
        for path in ("/api/query/grant", "/api/query/admin-grant"):
            try:
                response = self._client.post(
                    path, content=b'{"surface":"mcp"}', headers={"authorization": f"Bearer {bearer}"}
                )
            except httpx.HTTPError:
                raise UnavailableError("Control does not answer", hint="polyc up") from None
            if response.status_code == httpx.codes.OK:
                answer = msgspec.json.decode(response.content, type=dict[str, Any])
                return str(answer["token"]), int(answer["expires_at_ms"])
            if response.status_code != httpx.codes.FORBIDDEN:
                break
        raise RefusedError("the session is not valid", code="unauthenticated", hint="polyc session create")


class Assistant:
    """The tools' work: each takes the caller's bearer and blocks on the network."""

    def __init__(self, addresses: Addresses, *, clock: Clock) -> None:
        self._grants = Grants(addresses.control_url, clock=clock)
        self._edge = _client(addresses.query_url)

    def close(self) -> None:
        """Give up the connections."""
        self._grants.close()
        self._edge.close()

    def query(self, bearer: str, sql: str, *, row_limit: int) -> dict[str, Any]:
        """One statement under the caller's grant."""
        return _told(self._execute(bearer, sql, row_limit=row_limit))

    def list(self, bearer: str, tool: Tool, *, count: int, detail: Detail) -> dict[str, Any]:
        """A fixed statement under the caller's grant: over everything its scope admits."""
        return _told(self._execute(bearer, tool.statements[detail], row_limit=listed(tool, count)))

    def search(self, bearer: str, question: dict[str, Any]) -> dict[str, Any]:
        """One search under the caller's grant."""
        return self._renewed(bearer, lambda token: search(self._edge, token, question))

    def catalog(self, bearer: str) -> dict[str, Any]:
        """What the caller's grant may name."""
        return describe_catalog(self._edge, self._grants.of(bearer))

    def _execute(self, bearer: str, sql: str, *, row_limit: int) -> Answer:
        return self._renewed(bearer, lambda token: execute(self._edge, token, sql, row_limit=row_limit))

    def _renewed(self, bearer: str, ask: Callable[[str], T]) -> T:
        """A grant that was revoked in the meantime is minted anew once: a session may outlive it."""
        try:
            return ask(self._grants.of(bearer))
        except RefusedError as error:
            if error.code != "unauthenticated" or not bearer.startswith(PREFIX):
                raise
        self._grants.forget(bearer)
        return ask(self._grants.of(bearer))


def assistant_mcp(assistant: Assistant, *, session: str | None = None) -> MCPServer:
    """The server. With `session` it speaks for that session (stdio); without, each request brings its bearer."""
    server = MCPServer(
        "polychrome",
        version=version("polychrome"),
        instructions=(
            "Signed records of agents' conversations. search finds what was said or done, with citations; "
            "query runs SQL over the same records, and describe_catalog lists its tables and examples."
        ),
        log_level="WARNING",
    )

    @server.tool(description="Run one SELECT under your grant. Check `truncated` before interpreting the rows.")
    async def query(ctx: Context, sql: Sql, row_limit: Rows = QUERY_ROWS_DEFAULT) -> dict[str, Any]:
        return await _answer(lambda: assistant.query(_bearer(ctx, session), sql, row_limit=row_limit))

    @server.tool(description="The tables, columns, functions and example statements that your grant may name.")
    async def describe_catalog(ctx: Context) -> dict[str, Any]:
        return await _answer(lambda: assistant.catalog(_bearer(ctx, session)))

    @server.tool(description="Committed turns that your grant admits, newest first. Full detail adds failures.")
    async def recent_turns(
        ctx: Context, count: Count = CONVERSATION_RECENT_TURNS.count_default, detail: Detail = "brief"
    ) -> dict[str, Any]:
        return await _answer(
            lambda: assistant.list(_bearer(ctx, session), CONVERSATION_RECENT_TURNS, count=count, detail=detail)
        )

    @server.tool(description="Recorded tool calls that your grant admits, newest first. Full detail adds approvals.")
    async def list_tool_calls(
        ctx: Context, count: Count = CONVERSATION_LIST_TOOL_CALLS.count_default, detail: Detail = "brief"
    ) -> dict[str, Any]:
        return await _answer(
            lambda: assistant.list(_bearer(ctx, session), CONVERSATION_LIST_TOOL_CALLS, count=count, detail=detail)
        )

    _add_search(server, assistant, session)
    return server


def _add_search(server: MCPServer, assistant: Assistant, bearer: str | None) -> None:
    @server.tool(
        name="search",
        description=(
            "Find what was said or done: the best event of each conversation, with its citation and the bytes that "
            "matched. `events` lists every event; `cursor` continues with everything else as it was."
        ),
    )
    async def find(
        ctx: Context,
        text: Words,
        *,
        terms: Terms = (),
        content_scope: ContentScope = "all",
        workspace: str | None = None,
        file: str | None = None,
        conversation: str | None = None,
        since: Since = None,
        events: bool = False,
        limit: Results = 10,
        cursor: str | None = None,
    ) -> dict[str, Any]:
        named = {"workspaces": workspace, "files": file, "sessions": conversation}
        filters: dict[str, Any] = {name: [value] for name, value in named.items() if value}
        question = {
            "query": text,
            "terms": terms,
            "content_scope": content_scope,
            "filters": filters | ({"since": since} if since else {}),
            "events": events,
            "limit": limit,
            "cursor": cursor,
        }
        return await _answer(lambda: assistant.search(_bearer(ctx, bearer), question))


def assistant_app(assistant: Assistant, *, port: int) -> Starlette:
    """The server over streamable HTTP at `/mcp`, for loopback on this port."""
    hosts = [f"127.0.0.1:{port}", f"localhost:{port}"]
    return assistant_mcp(assistant).streamable_http_app(
        streamable_http_path="/mcp",
        stateless_http=True,
        json_response=True,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=hosts,
            allowed_origins=[f"http://{host}" for host in hosts],
        ),
    )


async def _answer(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return await run_in_threadpool(work)
    except PolycError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise ToolError(f"{error.code}: {error.message}{hint}") from None


def _bearer(ctx: Context, session: str | None) -> str:
    if session is not None:
        return session
    request = ctx.request_context.request
    if not isinstance(request, Request):
        raise RefusedError("a bearer is needed", code="unauthenticated")
    try:
        return bearer_of(request.headers.raw)
    except GrantRefusedError:
        raise RefusedError("one bearer is needed: a session or a grant", code="unauthenticated") from None


def _told(answer: Answer) -> dict[str, Any]:
    """Rows by position, because two columns may have one name."""
    return {"columns": list(answer.columns), "rows": answer.rows, "truncated": answer.truncated}


def _client(base_url: str) -> httpx.Client:
    return httpx.Client(base_url=base_url, timeout=QUERY_CLIENT_TIMEOUT_S, trust_env=False, follow_redirects=False)
