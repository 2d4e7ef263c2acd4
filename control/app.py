"""Control as an ASGI application: the operations of its HTTP face, and nothing that takes SQL."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from control import pages, revocations
from control.agent_mcp import agent_mcp
from control.api import answers
from control.api.routing import routes_of
from control.api.table import OPERATIONS
from control.browser import Browser
from control.context import ControlContext
from control.http_face import FaceConfig, HttpFace
from control.service import make_service
from control.turns import fence_abandoned
from polyc.errors import RefusedError

_log = logging.getLogger(__name__)


def create_app(context: ControlContext, face: FaceConfig) -> Starlette:
    """The application.

    At its start, turns that a crash left open are fenced and named; while it lives, the list of revocations is
    published every second. `app.state.service` is its service; whoever runs the application stops its runner first.
    """
    service = make_service(context, control_url=face.origins[0])
    agents, agent_routes = agent_mcp(context)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        stop = threading.Event()
        for line in await run_in_threadpool(fence_abandoned, context):
            _log.warning("found at the start: %s", line)
        if await run_in_threadpool(service.routines.end_abandoned):
            _log.warning("found at the start: routines that were running; their runs are ended as failed")
        await run_in_threadpool(revocations.publish, context)
        heart = threading.Thread(target=revocations.beat, args=(context,), kwargs={"stop": stop}, name="heartbeat")
        heart.start()
        ticking = asyncio.create_task(service.routines.tick_forever())
        try:
            async with agents.session_manager.run():
                yield
        finally:
            ticking.cancel()
            stop.set()
            await run_in_threadpool(heart.join)
            if context.statements is not None:
                context.statements.close()

    browser = Browser(context, face)
    app = Starlette(
        routes=[*routes_of(OPERATIONS, service), *browser.routes(), *agent_routes, *pages.routes(context, browser)],
        lifespan=lifespan,
        middleware=[Middleware(HttpFace, config=face, clock=context.clock)],
        exception_handlers={404: _not_found, 405: _not_found},
    )
    app.state.service = service
    return app


async def _not_found(_request: Request, _error: Exception) -> Response:
    return answers.failure(RefusedError("no such operation", code="not_found", hint="GET /api/openapi.json"))
