"""The search page: like the SQL page, a question goes from the browser to the Query edge under the visitor's grant."""

from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from control.pages.site import Site, Visit

SCOPES: Final = (("all", "everything"), ("transcript", "what was said"), ("calls", "calls"), ("outputs", "outputs"))
WINDOWS: Final = (("", "any time"), ("1d", "a day"), ("7d", "a week"), ("30d", "a month"), ("365d", "a year"))


def routes(site: Site) -> list[BaseRoute]:
    """The page; its results come to its script from the edge."""

    async def page(visit: Visit) -> Response:
        return site.render(visit, "search.html", active="search", scopes=SCOPES, windows=WINDOWS)

    return [Route("/search", site.page(page), name="search")]
