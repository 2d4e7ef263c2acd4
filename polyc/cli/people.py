"""`polyc session`, `polyc persona` and `polyc admin`: who there is, who may see what, and bearers that mint grants.

Every act is appended with Control's key. A session's bearer is shown once; the journal keeps its hash.
"""

from argparse import Namespace
from collections.abc import Callable
from datetime import UTC, datetime

from control import personas, revocations, sessions
from control.context import ControlContext
from polyc.cli.console import note
from polyc.cli.deployment import opened, root_of
from polyc.cli.output import chosen_format, write_rows
from polyc.errors import RefusedError
from polyc.ids import check_partition, check_persona


def session_create(arguments: Namespace) -> int:
    """Print a new session's bearer."""
    persona = check_persona(arguments.persona) if arguments.persona else None
    with opened(root_of(arguments)) as deployment:
        session = deployment.control().create_session(persona, admin=arguments.admin)
    print(session.bearer)
    return 0


def session_list(arguments: Namespace) -> int:
    """List the live sessions."""
    with opened(root_of(arguments)) as deployment:
        live = sessions.list_sessions(deployment.control().context)
    rows = [
        (s.credential_id, s.subject, s.realm, rfc3339_of_us(s.created_us), rfc3339_of_us(s.expires_us)) for s in live
    ]
    columns = ("credential", "subject", "realm", "created_at", "expires_at")
    write_rows(columns, rows, form=chosen_format(arguments.format))
    return 0


def session_revoke(arguments: Namespace) -> int:
    """End a session; the grants it minted end with it."""
    with opened(root_of(arguments)) as deployment:
        context = deployment.control().context
        if not sessions.revoke_session(context, arguments.credential):
            raise RefusedError("no such live session", code="not_found", hint="polyc session list")
        revocations.publish(context)
    note("the session is revoked")
    return 0


def persona_create(arguments: Namespace) -> int:
    """Record a persona."""
    name = check_persona(arguments.name)
    with opened(root_of(arguments)) as deployment:
        deployment.control().ensure_persona(name)
    note(f"persona {name} is recorded")
    return 0


def persona_list(arguments: Namespace) -> int:
    """List the personas."""
    with opened(root_of(arguments)) as deployment:
        known = personas.list_personas(deployment.control().context)
    rows = [(p.persona_id, p.display_name, p.is_active, p.is_admin) for p in known]
    write_rows(("persona", "display_name", "active", "admin"), rows, form=chosen_format(arguments.format))
    return 0


def persona_join(arguments: Namespace) -> int:
    """Let a persona participate."""
    name, partition = check_persona(arguments.name), check_partition(arguments.partition)
    with opened(root_of(arguments)) as deployment:
        deployment.control().join(partition, name)
    note(f"{name} participates in {partition}")
    return 0


def persona_leave(arguments: Namespace) -> int:
    """End a persona's participation."""
    name, partition = check_persona(arguments.name), check_partition(arguments.partition)
    with opened(root_of(arguments)) as deployment:
        deployment.control().leave(partition, name)
    note(f"{name} no longer participates in {partition}")
    return 0


def persona_suspend(arguments: Namespace) -> int:
    """End all that a persona's sessions and grants are good for."""
    return _change(arguments, personas.suspend_persona, "is suspended; its sessions and grants are good for nothing")


def persona_resume(arguments: Namespace) -> int:
    """Let a suspended persona act again."""
    return _change(arguments, personas.resume_persona, "may act again, with new grants")


def admin_add(arguments: Namespace) -> int:
    """Mark a persona as an admin; it is recorded first when nobody of this name was."""
    return _change(
        arguments, lambda context, name: personas.ensure_persona(context, name, is_admin=True), "is an admin"
    )


def admin_remove(arguments: Namespace) -> int:
    """Take the mark away: the persona's admin sessions and fleet grants end."""

    def remove(context: ControlContext, name: str) -> None:
        personas.active_persona(context, name)
        personas.ensure_persona(context, name, is_admin=False)

    return _change(arguments, remove, "is no longer an admin")


def _change(arguments: Namespace, act: Callable[[ControlContext, str], object], said: str) -> int:
    name = check_persona(arguments.name)
    with opened(root_of(arguments)) as deployment:
        context = deployment.control().context
        act(context, name)
        revocations.publish(context)
    note(f"{name} {said}")
    return 0


def rfc3339_of_us(moment_us: int | None) -> str | None:
    """Microseconds since 1970 as RFC 3339; None is never.

    >>> rfc3339_of_us(1_780_000_000_000_000)
    '2026-05-28T20:26:40Z'
    """
    if moment_us is None:
        return None
    return datetime.fromtimestamp(moment_us / 1e6, UTC).isoformat().replace("+00:00", "Z")
