"""The pages people look at: dashboards, conversations, SQL, search, approvals, people.

Server-rendered from `web/templates`; what a page shows comes from fixed statements at the Query edge (surface
`dashboard`, on the audit like anybody's) or from Control's own books. The SQL page alone lets a person's statement
run, and it goes from the browser to the Query edge under the visitor's own grant: Control never sees it.
"""

from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from control.browser import Browser
from control.context import ControlContext
from control.pages import approvals, conversation, conversations, dashboard, journal, money, people, search, sql
from control.pages.site import STATIC, Site

__all__ = ["routes"]


def routes(context: ControlContext, browser: Browser) -> list[BaseRoute]:
    """Every page, its fragments, and the static files."""
    site = Site(context, browser)
    return [
        *site.routes(),
        *dashboard.routes(site),
        *conversations.routes(site),
        *conversation.routes(site),
        *journal.routes(site),
        *search.routes(site),
        *sql.routes(site),
        *approvals.routes(site),
        *money.routes(site),
        *people.routes(site),
        Mount("/static", StaticFiles(directory=STATIC), name="static"),
    ]
