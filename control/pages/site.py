"""What every page shares: who looks, how a template becomes an answer, and how an error looks to a person.

A page is an async function of a `Visit`. Who is not logged in is sent to /login; a refusal becomes a page that says
why and what to do instead; a bug is logged by its class alone and shown without its text.
"""

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import jinja2
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

import web
from control.browser import Browser
from control.context import ControlContext
from control.grants_api import scope_of
from control.pages import formats
from control.sessions import Caller
from control.statements import Answer
from polyc.errors import HTTP_STATUS, PolycError, RefusedError, UnavailableError
from polyc.grants import Everything, Inline, Realm, Scope
from polyc.limits import QUERIES_PER_SUBJECT_MAX

_log = logging.getLogger(__name__)
_WEB: Final = Path(web.__file__).parent
STATIC: Final = _WEB / "static"
ASKING_MAX: Final = QUERIES_PER_SUBJECT_MAX // 2


class Page(NamedTuple):
    """An entry of the navigation."""

    name: str
    title: str
    href: str
    audience: Literal["all", "admin", "persona"]


NAVIGATION: Final = (
    Page("dashboard", "Dashboard", "/dashboard", audience="admin"),
    Page("conversations", "Conversations", "/conversations", audience="all"),
    Page("search", "Search", "/search", audience="all"),
    Page("sql", "SQL", "/sql", audience="all"),
    Page("approvals", "Approvals", "/approvals", audience="persona"),
    Page("money", "Money", "/money", audience="admin"),
    Page("people", "People", "/people", audience="admin"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request of a person who is logged in."""

    request: Request
    caller: Caller
    csrf_token: str

    @property
    def subject(self) -> str:
        """The subject as the audit names it."""
        return self.caller.subject

    @property
    def is_admin(self) -> bool:
        """Whether the session is an admin's."""
        return self.caller.is_admin


Serve = Callable[[Visit], Awaitable[Response]]


class Site:
    """The pages' ground over one Control."""

    def __init__(self, context: ControlContext, browser: Browser) -> None:
        self.context = context
        self.browser = browser
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_WEB / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals["asset"] = asset
        # One subject's pages ask in turns, below the edge's own bound: several open tabs wait instead of failing.
        self._asking: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(ASKING_MAX))
        self._templates.filters.update(formats.FILTERS)

    def routes(self) -> list[BaseRoute]:
        """The front door and the login page."""
        return [
            Route("/", self.page(self._front), name="front"),
            Route("/login", self._login, methods=["GET"], name="login_page"),
        ]

    def page(self, serve: Serve, *, admin_only: bool = False) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint: who looks, may they, what do they get; errors as pages."""

        async def endpoint(request: Request) -> Response:
            try:
                visit = await run_in_threadpool(self._visit, request)
            except RefusedError:
                return RedirectResponse("/login", status_code=303)
            try:
                if admin_only and not visit.is_admin:
                    raise RefusedError("this page is for admins", code="permission_denied")
                return await serve(visit)
            except PolycError as error:
                return self.render(visit, "error.html", status=HTTP_STATUS[error.code], error=error)
            except Exception as error:
                _log.error("%s failed: %s", request.scope.get("path"), type(error).__name__)
                bug = PolycError("something failed here; it is not your request", code="internal")
                return self.render(visit, "error.html", status=500, error=bug)

        return endpoint

    def render(self, visit: Visit, template: str, *, active: str = "", status: int = 200, **values: Any) -> Response:
        """The template's page for this visit."""
        text = self._templates.get_template(template).render(
            viewer={"subject": visit.subject, "is_admin": visit.is_admin, "csrf_token": visit.csrf_token},
            navigation=[
                page for page in NAVIGATION if page.audience in {"all", "admin" if visit.is_admin else "persona"}
            ],
            active=active,
            edge_url=self.edge_url,
            **values,
        )
        return HTMLResponse(text, status_code=status)

    @property
    def edge_url(self) -> str:
        """Where browsers reach the Query edge."""
        return self.browser.query_origin

    async def ask(
        self,
        visit: Visit,
        sql: str,
        *,
        conversation: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Answer:
        """A fixed statement's answer in the visitor's realm and scope, cut down to one conversation when named."""
        realm, scope = await run_in_threadpool(self._realm_and_scope, visit, conversation)
        return await self._run(visit, sql, realm=realm, scope=scope, parameters=parameters)

    async def ask_fleet(self, visit: Visit, sql: str, *, parameters: Mapping[str, Any]) -> Answer:
        """A fixed statement of ours over deployment-wide tables, for a visitor who may not name them.

        The statement itself cuts the rows down to the visitor's own, by a parameter that Control fills in.
        """
        return await self._run(visit, sql, realm="fleet", scope=Everything(), parameters=parameters)

    async def check_conversation(self, visit: Visit, conversation: str) -> None:
        """Return when the visitor may see the conversation; else it is as if there were none."""
        await run_in_threadpool(self._realm_and_scope, visit, conversation)

    async def _run(
        self, visit: Visit, sql: str, *, realm: Realm, scope: Scope, parameters: Mapping[str, Any] | None
    ) -> Answer:
        statements = self.context.statements
        if statements is None:
            raise UnavailableError("this Control has no Query edge", hint="polyc up")
        async with self._asking[visit.subject]:
            return await run_in_threadpool(
                statements.run,
                sql,
                subject=visit.subject,
                realm=realm,
                scope=scope,
                surface="dashboard",
                parameters=parameters,
            )

    def _realm_and_scope(self, visit: Visit, conversation: str | None) -> tuple[Realm, Scope]:
        """A persona sees what it participates in; naming another conversation is the same as naming none."""
        if visit.is_admin:
            return "fleet", Everything() if conversation is None else Inline(partitions=(conversation,))
        with self.context.index.view() as state:
            partitions = tuple(state.personas.scope_of(visit.caller.persona_id))
        if conversation is None:
            return "participant", scope_of(self.context, visit.caller.persona_id)
        if conversation not in partitions:
            raise RefusedError("no such conversation", code="not_found")
        return "participant", Inline(partitions=(conversation,))

    def _visit(self, request: Request) -> Visit:
        caller = self.browser.session_of(request)
        return Visit(request=request, caller=caller, csrf_token=self.browser.csrf_token(request))

    async def _front(self, visit: Visit) -> Response:
        return RedirectResponse("/dashboard" if visit.is_admin else "/conversations", status_code=303)

    async def _login(self, _request: Request) -> Response:
        return HTMLResponse(self._templates.get_template("login.html").render(viewer=None))


@cache
def asset(name: str) -> str:
    """The address of a static file, with its content's digest so that browsers may keep it."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"
