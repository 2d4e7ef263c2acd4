"""People, for admins: personas, what they participate in, sessions, keys. Each form is one of Control's operations."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from control import participation, personas, sessions
from control.browser import read_form
from control.context import ControlContext
from control.pages.site import Site, Visit
from polyc.errors import RefusedError
from polyc.ids import check_partition, check_persona

_KEYS: Final = "SELECT key_id, algorithm, role, valid_from, revoked_at FROM signer_keys ORDER BY role, valid_from"

Form = dict[str, str]


def _add_persona(context: ControlContext, form: Form) -> None:
    personas.ensure_persona(
        context,
        check_persona(form.get("persona", "")),
        display_name=form.get("display_name") or None,
        is_admin=form.get("admin") == "1",
    )


def _suspend(context: ControlContext, form: Form) -> None:
    personas.suspend_persona(context, check_persona(form.get("persona", "")))


def _resume(context: ControlContext, form: Form) -> None:
    personas.resume_persona(context, check_persona(form.get("persona", "")))


def _join(context: ControlContext, form: Form) -> None:
    participation.join(context, check_partition(form.get("partition", "")), check_persona(form.get("persona", "")))


def _leave(context: ControlContext, form: Form) -> None:
    participation.leave(context, check_partition(form.get("partition", "")), check_persona(form.get("persona", "")))


def _revoke(context: ControlContext, form: Form) -> None:
    sessions.revoke_session(context, form.get("session", ""))


_ACTIONS: Final[dict[str, Callable[[ControlContext, Form], None]]] = {
    "add": _add_persona,
    "suspend": _suspend,
    "resume": _resume,
    "join": _join,
    "leave": _leave,
    "revoke-session": _revoke,
}


def routes(site: Site) -> list[BaseRoute]:
    """The page and its forms."""

    async def page(visit: Visit) -> Response:
        books = await run_in_threadpool(_books, site.context)
        keys = await site.ask(visit, _KEYS)
        return site.render(visit, "people.html", active="people", keys=keys, new_session=None, **books)

    async def act(visit: Visit) -> Response:
        form = await _checked_form(site, visit.request)
        action = _ACTIONS.get(visit.request.path_params["action"])
        if action is None:
            raise RefusedError("no such operation", code="not_found")
        await run_in_threadpool(action, site.context.acting(visit.caller.credential_id), form)
        return RedirectResponse("/people", status_code=303)

    async def open_session(visit: Visit) -> Response:
        """The bearer is shown once, in the body of this one answer, never in an address."""
        form = await _checked_form(site, visit.request)
        made = await run_in_threadpool(
            lambda: sessions.create_session(
                site.context.acting(visit.caller.credential_id),
                check_persona(form.get("persona", "")),
                admin=form.get("admin") == "1",
            )
        )
        books = await run_in_threadpool(_books, site.context)
        keys = await site.ask(visit, _KEYS)
        return site.render(visit, "people.html", active="people", keys=keys, new_session=made, **books)

    return [
        Route("/people", site.page(page, admin_only=True), name="people"),
        Route("/people/session", site.page(open_session, admin_only=True), methods=["POST"], name="people_session"),
        Route("/people/{action}", site.page(act, admin_only=True), methods=["POST"], name="people_act"),
    ]


async def _checked_form(site: Site, request: Request) -> Form:
    form = await read_form(request)
    site.browser.check_csrf(request, form)
    return form


def _books(context: ControlContext) -> dict[str, Any]:
    """What Control's own memory says of people now."""
    people = [
        {"persona": persona, "conversations": len(participation.conversations_of(context, persona.persona_id))}
        for persona in personas.list_personas(context)
    ]
    live = [
        {
            "credential_id": session.credential_id,
            "subject": session.subject,
            "created_at": _time(session.created_us),
            "expires_at": _time(session.expires_us),
        }
        for session in sessions.list_sessions(context)
    ]
    return {"people": people, "sessions": live}


def _time(at_us: int | None) -> datetime | None:
    return None if at_us is None else datetime.fromtimestamp(at_us / 1_000_000, UTC)
