"""The SQL page: an editor whose statements go from the browser to the Query edge under the visitor's own grant.

Control serves the page and mints the grant; no statement reaches it. The statement of a tile or an example is put
into the editor by the page itself (`#fragment`, which browsers never send).
"""

from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from control import grants_api
from control.api.routing import guarded
from control.pages.site import Site, Visit

EXAMPLES: Final = (
    (
        "The last turns",
        """SELECT partition, turn_index, status, started_at, duration_ms
FROM turns
ORDER BY started_at DESC
LIMIT 20""",
    ),
    (
        "Tokens per turn",
        """SELECT turn_id,
       SUM(input_tokens)  AS input_tokens,
       SUM(output_tokens) AS output_tokens
FROM usage
GROUP BY turn_id
ORDER BY output_tokens DESC
LIMIT 50""",
    ),
    (
        "Calls by model",
        """SELECT model, COUNT(*) AS calls
FROM model_call
GROUP BY model
ORDER BY calls DESC""",
    ),
    (
        "Tool calls that failed",
        """SELECT partition, name, command, path, exit_code, occurred_at
FROM actions
WHERE result_state = 'outcome_error'
ORDER BY occurred_at DESC
LIMIT 50""",
    ),
    (
        "Tool calls without a result",
        """SELECT name, turn_id, position
FROM actions
WHERE result_state = 'no_result'
ORDER BY position DESC""",
    ),
    (
        "Files touched most",
        """SELECT path, SUM(action_count) AS actions, SUM(change_count) AS changes
FROM files
GROUP BY path
ORDER BY actions DESC
LIMIT 25""",
    ),
    (
        "What was said about …",
        """SELECT partition, occurred_at, role, text
FROM messages
WHERE text ILIKE '%migration%'
ORDER BY occurred_at DESC
LIMIT 20""",
    ),
)


def routes(site: Site) -> list[BaseRoute]:
    """The page and the grant its script asks for."""

    async def page(visit: Visit) -> Response:
        return site.render(visit, "sql.html", active="sql", examples=EXAMPLES)

    async def grant(request: Request) -> Response:
        caller = await run_in_threadpool(site.browser.session_of, request)
        site.browser.check_csrf(request, {})
        context = site.context.acting(caller.credential_id)
        if caller.is_admin:
            minted = await run_in_threadpool(grants_api.mint_admin, context, caller.subject)
        else:
            minted = await run_in_threadpool(grants_api.mint_participant, context, caller.persona_id)
        return JSONResponse({"token": minted.token, "expires_at_ms": minted.expires_at_ms})

    return [
        Route("/sql", site.page(page), name="sql"),
        Route("/pages/grant", guarded(grant), methods=["POST"], name="page_grant"),
    ]
