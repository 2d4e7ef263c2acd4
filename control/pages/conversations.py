"""The list of conversations: newest first, filtered by origin, model or words of the title, by pages of fifty."""

from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from control.pages.site import Site, Visit
from polyc.errors import RefusedError

PAGE_SIZE: Final = 50
PAGE_MAX: Final = 10_000

_LIST: Final = """SELECT s.partition, COALESCE(s.title, s.cwd, s.partition) AS title, s.origin, s.repo, s.cwd,
       s.updated_at, s.turn_count, s.authored_user_message_count AS prompts, s.tool_call_count, s.link_kind
FROM sessions s
WHERE ($origin = '' OR s.origin = $origin)
  AND ($words = '' OR contains(lower(COALESCE(s.title, '') || ' ' || COALESCE(s.cwd, '')), lower($words)))
  AND ($children OR s.link_kind IS DISTINCT FROM 'subagent')
ORDER BY s.updated_at DESC NULLS LAST, s.partition
LIMIT 51 OFFSET $skip"""

_ORIGINS: Final = "SELECT origin, COUNT(*) AS conversations FROM sessions GROUP BY origin ORDER BY conversations DESC"


def routes(site: Site) -> list[BaseRoute]:
    """The list."""

    async def page(visit: Visit) -> Response:
        query = visit.request.query_params
        number = _page_number(query.get("page", "1"))
        chosen = {
            "origin": query.get("origin", ""),
            "words": query.get("words", "").strip(),
            "children": query.get("children") == "1",
        }
        answer = await site.ask(visit, _LIST, parameters=chosen | {"skip": (number - 1) * PAGE_SIZE})
        origins = await site.ask(visit, _ORIGINS)
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        return site.render(
            visit,
            "conversations.html",
            active="conversations",
            rows=rows[:PAGE_SIZE],
            origins=[row[0] for row in origins.rows],
            chosen=chosen,
            number=number,
            has_more=len(rows) > PAGE_SIZE,
        )

    return [Route("/conversations", site.page(page), name="conversations")]


def _page_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= PAGE_MAX):
        raise RefusedError("no such page", code="not_found")
    return int(text)
