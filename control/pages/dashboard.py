"""The fleet's dashboard: tiles, each one fixed statement run per request against the fleet realm and audited.

There is no maintained dashboard table. A tile loads by itself, so that one slow statement holds up no other, and its
statement can be opened on the SQL page.
"""

from typing import Final

from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from control.pages.site import Site, Visit
from control.pages.tiles import TILES, Tile
from polyc.errors import RefusedError

_BY_NAME: Final = {tile.name: tile for tile in TILES}


def routes(site: Site) -> list[BaseRoute]:
    """The dashboard and its tiles."""

    async def page(visit: Visit) -> Response:
        return site.render(visit, "dashboard.html", active="dashboard", tiles=TILES)

    async def tile(visit: Visit) -> Response:
        return await _tile(site, visit, _find(visit.request.path_params["name"]))

    return [
        Route("/dashboard", site.page(page, admin_only=True), name="dashboard"),
        Route("/dashboard/tiles/{name}", site.page(tile, admin_only=True), name="dashboard_tile"),
    ]


def _find(name: str) -> Tile:
    found = _BY_NAME.get(name)
    if found is None:
        raise RefusedError("no such tile", code="not_found")
    return found


async def _tile(site: Site, visit: Visit, tile: Tile) -> Response:
    """The tile's table as HTML and, for charts, its series as data; a page of its own when opened as one."""
    answer = await site.ask(visit, tile.sql)
    if visit.request.headers.get("accept") != "application/json":
        return site.render(visit, "tile.html", active="dashboard", tile=tile, answer=answer)
    html = bytes(site.render(visit, "tile_body.html", tile=tile, answer=answer).body).decode()
    chart = None
    if tile.chart is not None and answer.rows:
        chart = tile.chart.data(answer.columns, answer.rows)
    return JSONResponse({"html": html, "chart": chart})
