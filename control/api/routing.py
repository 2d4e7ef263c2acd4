"""From the table of operations to routes: one order of checks for every operation.

1. The bearer, before anything of the body is read. 2. The caller, as the operation's access demands. 3. The query
parameters, known ones only. 4. The body, bounded, then checked. 5. The operation. 6. Its answer.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from control import sessions
from control.api import answers
from control.api.operation import Access, Call, Operation
from control.context import ControlContext
from control.dispatches import LiveDispatch
from control.service import Service
from control.sessions import Caller
from polyc.errors import PolycError, RefusedError
from polyc.grants import GrantRefusedError, bearer_of
from polyc.limits import BODY_SIZE_BYTES_MAX

_log = logging.getLogger(__name__)


def routes_of(operations: list[Operation], service: Service) -> list[Route]:
    """One route an operation."""
    return [Route(item.path, _endpoint(item, service), methods=[item.method], name=item.name) for item in operations]


def caller_of(bearer: str, context: ControlContext, *, access: Access) -> Caller | LiveDispatch:
    """The verified caller of a bearer, or RefusedError; blocks on the journal."""
    if access in {"dispatch", "late_dispatch"}:
        with context.index.view() as state:
            return context.dispatches.verify(bearer, state, late=access == "late_dispatch")
    caller = sessions.verify_session(context, bearer)
    if access == "admin" and not caller.is_admin:
        raise RefusedError("an admin's session is needed", code="permission_denied")
    if access == "persona" and caller.is_admin:
        raise RefusedError("a persona's session is needed", code="permission_denied")
    return caller


def guarded(serve: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Turns errors into answers; a bug is logged by its class alone, because texts may quote a payload."""

    async def endpoint(request: Request) -> Response:
        try:
            return await serve(request)
        except PolycError as error:
            return answers.failure(error)
        except Exception as error:
            _log.error("%s failed: %s", request.scope.get("path"), type(error).__name__)
            return answers.internal()

    return endpoint


def _endpoint(operation: Operation, service: Service) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        # 1
        bearer = _bearer_of(request, operation.access)
        # 2
        caller = None
        if bearer is not None:
            caller = await run_in_threadpool(caller_of, bearer, service.context, access=operation.access)
        # 3
        query = _query_of(request, operation)
        # 4
        raw = await answers.read_body(request, size_bytes_max=BODY_SIZE_BYTES_MAX)
        body = _body_of(operation, raw)
        # 5
        call = Call(service=service, caller=caller, body=body, path=dict(request.path_params), query=query)
        answer = await _handle(operation, call)
        # 6
        if operation.streams:
            return StreamingResponse(answer, media_type="application/x-ndjson", headers=answers.NO_STORE)
        return answers.answer(answer)

    return guarded(serve)


async def _handle(operation: Operation, call: Call) -> Any:
    if inspect.iscoroutinefunction(operation.handle):
        return await operation.handle(call)
    return await run_in_threadpool(operation.handle, call)


def _bearer_of(request: Request, access: Access) -> str | None:
    if access == "public":
        return None
    try:
        return bearer_of(request.headers.raw)
    except GrantRefusedError:
        raise RefusedError(
            "one bearer is needed", code="unauthenticated", hint="authorization: Bearer $POLYCHROME_SESSION"
        ) from None


def _query_of(request: Request, operation: Operation) -> dict[str, str]:
    given = request.query_params.multi_items()
    names = [name for name, _ in given]
    if not set(names) <= operation.query.keys() or len(set(names)) != len(names):
        raise RefusedError("unknown or repeated query parameter")
    return dict(given)


def _body_of(operation: Operation, raw: bytes) -> BaseModel | None:
    if operation.body is not None:
        return answers.body_of(operation.body, raw if raw.strip() else b"{}")
    if not answers.is_empty(raw):
        raise RefusedError("this operation takes no body")
    return None
