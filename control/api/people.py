"""Personas and sessions over HTTP: an admin's business, but for one's own sessions."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from control import grants_api, personas, revocations, sessions
from control.api.conversations import ChangedAnswer, Persona
from control.api.operation import Call, Nothing, Operation, Wire
from polyc.errors import RefusedError
from polyc.limits import SESSION_LIFETIME_S_DEFAULT, SESSION_LIFETIME_S_MAX


class PersonaBody(Wire):
    """A persona to record or change."""

    persona_id: Persona
    display_name: Annotated[str, Field(max_length=200)] | None = None
    is_admin: bool | None = None


class PersonaRow(Wire):
    """A persona as last recorded."""

    persona_id: str
    display_name: str | None
    is_active: bool
    is_admin: bool


class PersonasAnswer(Wire):
    """All of them, by id."""

    personas: list[PersonaRow]


class StateBody(Wire):
    """Suspended personas can do nothing."""

    state: Literal["active", "suspended"]


class SessionBody(Wire):
    """A session to make; an admin session needs a persona that is marked as admin."""

    persona_id: Persona
    is_admin: bool = False
    lifetime_s: int = Field(default=SESSION_LIFETIME_S_DEFAULT, ge=1, le=SESSION_LIFETIME_S_MAX)


class SessionAnswer(Wire):
    """The bearer, shown this once."""

    session: str
    credential_id: str
    expires_at_ms: int


class SessionRow(Wire):
    """A session that is live."""

    credential_id: str
    subject: str
    realm: str
    created_at_ms: int
    expires_at_ms: int | None


class SessionsAnswer(Wire):
    """Oldest first: an admin sees all, a persona its own."""

    sessions: list[SessionRow]


def list_personas(call: Call) -> BaseModel:
    """Everybody."""
    rows = [
        PersonaRow(
            persona_id=item.persona_id,
            display_name=item.display_name,
            is_active=item.is_active,
            is_admin=item.is_admin,
        )
        for item in personas.list_personas(call.context)
    ]
    return PersonasAnswer(personas=rows)


def record_persona(call: Call) -> BaseModel:
    """Record or change a persona."""
    body: PersonaBody = call.body
    item = personas.ensure_persona(
        call.context, body.persona_id, display_name=body.display_name, is_admin=body.is_admin
    )
    revocations.publish(call.context)
    return PersonaRow(
        persona_id=item.persona_id,
        display_name=item.display_name,
        is_active=item.is_active,
        is_admin=item.is_admin,
    )


def set_state(call: Call) -> BaseModel:
    """Suspend or resume."""
    body: StateBody = call.body
    change = personas.suspend_persona if body.state == "suspended" else personas.resume_persona
    change(call.context, call.path["persona"])
    revocations.publish(call.context)
    return Nothing()


def create_session(call: Call) -> BaseModel:
    """Make a session for somebody."""
    body: SessionBody = call.body
    made = sessions.create_session(call.context, body.persona_id, admin=body.is_admin, lifetime_s=body.lifetime_s)
    return SessionAnswer(session=made.bearer, credential_id=made.credential_id, expires_at_ms=made.expires_at_ms)


def list_sessions(call: Call) -> BaseModel:
    """Live sessions."""
    rows = [
        SessionRow(
            credential_id=item.credential_id,
            subject=item.subject,
            realm=item.realm,
            created_at_ms=item.created_us // 1000,
            expires_at_ms=None if item.expires_us is None else item.expires_us // 1000,
        )
        for item in sessions.list_sessions(call.context)
        if call.who.is_admin or item.subject == call.who.subject
    ]
    return SessionsAnswer(sessions=rows)


def revoke_session(call: Call) -> BaseModel:
    """An admin ends any session, a persona its own; outstanding grants of the subject end with it."""
    credential_id = call.path["credential"]
    with call.context.index.view() as state:
        session = state.credentials.sessions.get(credential_id)
    if session is None or not (call.who.is_admin or session.subject == call.who.subject):
        raise RefusedError("no such session", code="not_found")
    changed = sessions.revoke_session(call.context, credential_id)
    revocations.publish(call.context)
    return ChangedAnswer(changed=changed)


def revoke_grant(call: Call) -> BaseModel:
    """An admin ends a grant by its id."""
    grants_api.revoke_grant(call.context, call.path["credential"])
    revocations.publish(call.context)
    return Nothing()


OPERATIONS = [
    Operation(
        name="list_personas",
        method="GET",
        path="/api/personas",
        access="admin",
        summary="All personas.",
        answer=PersonasAnswer,
        handle=list_personas,
    ),
    Operation(
        name="record_persona",
        method="POST",
        path="/api/personas",
        access="admin",
        summary="Record a persona, or change its name or its admin mark.",
        body=PersonaBody,
        answer=PersonaRow,
        handle=record_persona,
    ),
    Operation(
        name="set_persona_state",
        method="POST",
        path="/api/personas/{persona}/state",
        access="admin",
        summary="Suspend or resume a persona; suspending ends its sessions' and grants' use at once.",
        body=StateBody,
        answer=Nothing,
        handle=set_state,
    ),
    Operation(
        name="create_session",
        method="POST",
        path="/api/sessions",
        access="admin",
        summary="Make a session for a persona; its bearer is shown this once.",
        body=SessionBody,
        answer=SessionAnswer,
        handle=create_session,
    ),
    Operation(
        name="list_sessions",
        method="GET",
        path="/api/sessions",
        access="session",
        summary="Live sessions: an admin sees all, a persona its own.",
        answer=SessionsAnswer,
        handle=list_sessions,
    ),
    Operation(
        name="revoke_session",
        method="DELETE",
        path="/api/sessions/{credential}",
        access="session",
        summary="End a session, and all grants of its subject, at once.",
        answer=ChangedAnswer,
        handle=revoke_session,
    ),
    Operation(
        name="revoke_grant",
        method="DELETE",
        path="/api/grants/{credential}",
        access="admin",
        summary="End a grant at once.",
        answer=Nothing,
        handle=revoke_grant,
    ),
]
