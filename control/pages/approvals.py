"""Approvals: the calls that wait in the visitor's conversations, with their arguments and budgets, and the decision.

The list is asked anew every two seconds while the page is open. A decision is one of Control's operations: the first
one stands, and the harness's call goes on only after it is on record.
"""

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from control.approvals import ApprovalDesk
from control.approvals import Request as ApprovalRequest
from control.browser import read_form
from control.pages.site import Site, Visit
from facts.payments import spend_partition
from polyc.errors import RefusedError

REASONS: Final = (
    ("as_expected", "as expected"),
    ("wrong_target", "the wrong target"),
    ("too_risky", "too risky"),
    ("too_expensive", "too expensive"),
    ("not_now", "not now"),
)
_CODES: Final = frozenset(code for code, _ in REASONS)

_BUDGETS: Final = """SELECT b.subject_kind, b.subject, b.asset, b.network, b.amount_base_units, b.window_s
FROM budgets b WHERE b.subject_kind = 'persona' AND b.subject = $persona ORDER BY b.asset"""
_RESERVED: Final = """SELECT asset, network, SUM(amount_base_units) AS reserved_base_units
FROM reservations WHERE status = 'open' AND partition = $partition GROUP BY asset, network ORDER BY asset"""


def routes(site: Site) -> list[BaseRoute]:
    """The page, its live list, and the decision."""

    async def page(visit: Visit) -> Response:
        persona = _persona_of(visit)
        waiting, budgets, reserved = await asyncio.gather(
            _desk_of(visit.request).waiting_for(persona),
            site.ask_fleet(visit, _BUDGETS, parameters={"persona": persona}),
            site.ask_fleet(visit, _RESERVED, parameters={"partition": spend_partition(persona)}),
        )
        return site.render(
            visit,
            "approvals.html",
            active="approvals",
            waiting=_rows(waiting),
            budgets=budgets,
            reserved=reserved,
            reasons=REASONS,
        )

    async def listed(visit: Visit) -> Response:
        waiting = await _desk_of(visit.request).waiting_for(_persona_of(visit))
        return site.render(visit, "approvals_waiting.html", waiting=_rows(waiting), reasons=REASONS)

    async def decide(visit: Visit) -> Response:
        form = await read_form(visit.request)
        site.browser.check_csrf(visit.request, form)
        outcome, reason = form.get("outcome", ""), form.get("reason", "")
        if outcome not in {"approved", "denied"} or reason not in _CODES:
            raise RefusedError("a decision is approved or denied, with one of the listed reasons")
        await _desk_of(visit.request).decide(
            visit.request.path_params["approval"],
            persona_id=_persona_of(visit),
            outcome="approved" if outcome == "approved" else "denied",
            reason=reason,
        )
        return RedirectResponse("/approvals", status_code=303)

    return [
        Route("/approvals", site.page(page), name="approvals"),
        Route("/approvals/waiting", site.page(listed), name="approvals_waiting"),
        Route("/approvals/{approval}", site.page(decide), methods=["POST"], name="approvals_decide"),
    ]


def _desk_of(request: Request) -> ApprovalDesk:
    desk: ApprovalDesk = request.app.state.service.approvals
    return desk


def _persona_of(visit: Visit) -> str:
    """An admin's session is for the fleet: who decides is a participant (ruling 15)."""
    if visit.is_admin:
        raise RefusedError(
            "an admin's session decides nothing: participants do",
            code="permission_denied",
            hint=f"log in with a session of the persona: polyc session create --persona {visit.caller.persona_id}",
        )
    return visit.caller.persona_id


def _rows(waiting: list[ApprovalRequest]) -> list[dict[str, Any]]:
    """What the list shows; the arguments are the recorded call's, which may arrive after the request for approval."""
    rows = []
    for item in waiting:
        call = item.dispatch.calls.get(item.request_id)
        rows.append(
            {
                "approval_id": item.approval_id,
                "partition": item.dispatch.partition,
                "tool_name": item.tool_name,
                "arguments": item.arguments if call is None else call.arguments,
                "requested_at_s": item.requested_at_ms // 1000,
                "expires_at_s": item.expires_at_ms // 1000,
            }
        )
    return rows
