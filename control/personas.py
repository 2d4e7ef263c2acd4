"""Personas: who a session speaks for. Recorded in the partition `personas`; the last record of a persona wins."""

from typing import Final

from control.context import ControlContext
from control.persona_book import Persona
from facts import codec
from facts.events import PersonaRecorded
from polyc.errors import RefusedError
from polyc.ids import check_persona

PERSONAS_PARTITION: Final = "personas"


def ensure_persona(
    context: ControlContext, persona_id: str, *, display_name: str | None = None, is_admin: bool | None = None
) -> Persona:
    """The persona, recorded first when nobody of this name was, or when its name or its admin mark changes."""
    check_persona(persona_id)
    known = find_persona(context, persona_id)
    wanted = Persona(
        persona_id,
        display_name if display_name is not None or known is None else known.display_name,
        known.is_active if known is not None else True,
        is_admin if is_admin is not None else known is not None and known.is_admin,
    )
    if wanted != known:
        _record(context, wanted)
    return wanted


def suspend_persona(context: ControlContext, persona_id: str) -> None:
    """From now on no session of the persona is good for anything, and its grants are revoked."""
    _set_active(context, persona_id, active=False)


def resume_persona(context: ControlContext, persona_id: str) -> None:
    """The persona may act again; it needs new grants."""
    _set_active(context, persona_id, active=True)


def find_persona(context: ControlContext, persona_id: str) -> Persona | None:
    """The persona as last recorded, or None."""
    with context.index.view() as state:
        return state.personas.personas.get(persona_id)


def list_personas(context: ControlContext) -> list[Persona]:
    """All personas, by id."""
    with context.index.view() as state:
        return [persona for _, persona in sorted(state.personas.personas.items())]


def active_persona(context: ControlContext, persona_id: str) -> Persona:
    """The persona, or RefusedError when there is none of this name or it is suspended."""
    persona = find_persona(context, check_persona(persona_id))
    if persona is None:
        raise RefusedError("no such persona", code="not_found", hint="polyc persona create NAME")
    if not persona.is_active:
        raise RefusedError("the persona is suspended", code="permission_denied")
    return persona


def _set_active(context: ControlContext, persona_id: str, *, active: bool) -> None:
    known = find_persona(context, check_persona(persona_id))
    if known is None:
        raise RefusedError("no such persona", code="not_found")
    if known.is_active is not active:
        _record(context, Persona(known.persona_id, known.display_name, active, known.is_admin))


def _record(context: ControlContext, persona: Persona) -> None:
    event = PersonaRecorded(
        id=context.new_id(),
        persona_id=persona.persona_id,
        display_name=persona.display_name,
        state="active" if persona.is_active else "suspended",
        is_admin=persona.is_admin,
        acted_by=context.acted_by,
    )
    context.control.append(PERSONAS_PARTITION, [codec.encode(event)])
