"""The conversation tools over MCP, for agents: streamable HTTP at `/mcp` on Control's socket.

The bearer is the credential of a running dispatch; it says which conversation, and no argument can say another. There
is no tool that takes SQL here: agents do not submit statements from within a conversation.
"""

from importlib.metadata import version
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import BaseRoute

from control.api.routing import caller_of
from control.context import ControlContext
from control.dispatches import LiveDispatch
from control.tools import (
    CONVERSATION_LIST_TOOL_CALLS,
    CONVERSATION_RECENT_TURNS,
    Detail,
    Tool,
    run_tool,
)
from polyc.errors import PolycError, RefusedError
from polyc.grants import GrantRefusedError, bearer_of

MCP_PATH = "/mcp"
Count = Annotated[int, Field(ge=1, le=1000, description="how many; more than the most is the most")]


def agent_mcp(context: ControlContext) -> tuple[MCPServer, list[BaseRoute]]:
    """The server and its routes; whoever mounts them runs its session manager."""
    server = MCPServer("polychrome-conversation", version=version("polychrome"), log_level="WARNING")

    @server.tool(name=CONVERSATION_RECENT_TURNS.name, description=CONVERSATION_RECENT_TURNS.description)
    async def recent_turns(
        ctx: Context, count: Count = CONVERSATION_RECENT_TURNS.count_default, detail: Detail = "brief"
    ) -> dict[str, Any]:
        return await _run(context, ctx, CONVERSATION_RECENT_TURNS, count=count, detail=detail)

    @server.tool(name=CONVERSATION_LIST_TOOL_CALLS.name, description=CONVERSATION_LIST_TOOL_CALLS.description)
    async def list_tool_calls(
        ctx: Context, count: Count = CONVERSATION_LIST_TOOL_CALLS.count_default, detail: Detail = "brief"
    ) -> dict[str, Any]:
        return await _run(context, ctx, CONVERSATION_LIST_TOOL_CALLS, count=count, detail=detail)

    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=True,
        json_response=True,
        # Control's own face checks Host and Origin before anything reaches this.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return server, list(app.routes)


async def _run(context: ControlContext, ctx: Context, tool: Tool, *, count: int, detail: Detail) -> dict[str, Any]:
    try:
        dispatch = await run_in_threadpool(_dispatch_of, context, ctx)
        rows = await run_in_threadpool(lambda: run_tool(context, dispatch, tool, count=count, detail=detail))
    except PolycError as error:
        raise ToolError(f"{error.code}: {error.message}") from None
    return {"rows": rows}


def _dispatch_of(context: ControlContext, ctx: Context) -> LiveDispatch:
    request = ctx.request_context.request
    if not isinstance(request, Request):
        raise RefusedError("a dispatch's credential is needed", code="unauthenticated")
    try:
        bearer = bearer_of(request.headers.raw)
    except GrantRefusedError:
        raise RefusedError("a dispatch's credential is needed", code="unauthenticated") from None
    caller = caller_of(bearer, context, access="dispatch")
    assert isinstance(caller, LiveDispatch), "the access says so"
    return caller
