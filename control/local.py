"""Control in the embedded default, without a server: what the command line calls.

It holds the same keys as the server and writes the same records; whoever can open the data root may do all of it.
"""

import getpass

from control import grants_api, participation, personas, revocations, sessions
from control.context import ControlContext
from control.ports import JournalPlane
from polyc.clock import Clock
from polyc.dataroot import DataRoot
from polyc.errors import RefusedError
from polyc.ids import PERSONA, IdSource
from polyc.limits import SESSION_LIFETIME_S_DEFAULT

FALLBACK_PERSONA = "owner"


class LocalControl:
    """The functions of Control over a journal that is already open."""

    def __init__(self, journal: JournalPlane, root: DataRoot, *, clock: Clock, ids: IdSource) -> None:
        self.context = ControlContext.open(journal, root, clock=clock, ids=ids)

    def ensure_persona(self, persona_id: str, *, admin: bool | None = None) -> str:
        """Record the persona unless it is there; returns its id."""
        return personas.ensure_persona(self.context, persona_id, is_admin=admin).persona_id

    def join(self, partition: str, persona_id: str) -> bool:
        """The persona participates; False when it already did."""
        return participation.join(self.context, partition, persona_id)

    def join_imported(self, partition: str, persona_id: str) -> None:
        """The importer participates in what it imported; a repeat and a re-import change nothing."""
        participation.join_imported(self.context, partition, persona_id)

    def leave(self, partition: str, persona_id: str) -> bool:
        """The persona participates no more, and its grants are revoked at once; False when it did not."""
        left = participation.leave(self.context, partition, persona_id)
        revocations.publish(self.context)
        return left

    def create_session(
        self,
        persona_id: str | None = None,
        *,
        admin: bool = False,
        lifetime_s: int = SESSION_LIFETIME_S_DEFAULT,
    ) -> sessions.NewSession:
        """A session for the persona (the operating-system user's by default), or for it as an admin.

        Whoever holds the data root is its admin: the persona is recorded, and marked as one, when it is not yet.
        """
        name = self.ensure_persona(persona_id or default_persona(), admin=True if admin else None)
        return sessions.create_session(self.context, name, admin=admin, lifetime_s=lifetime_s)

    def mint_grant(self, *, persona: str | None = None, admin: bool = False) -> tuple[str, int]:
        """A token and when it ends (ms); a list of revocations that an edge accepts is there when it returns."""
        name = persona or self.ensure_persona(default_persona(), admin=True if admin else None)
        known = personas.active_persona(self.context, name)
        if admin and not known.is_admin:
            raise RefusedError("the persona is not an admin", code="permission_denied")
        grant = (
            grants_api.mint_admin(self.context, f"{sessions.ADMIN_PREFIX}{name}")
            if admin
            else grants_api.mint_participant(self.context, name)
        )
        revocations.publish(self.context)
        return grant.token, grant.expires_at_ms


def default_persona() -> str:
    """The operating-system user as a persona id (ruling 15)."""
    try:
        name = getpass.getuser().lower()
    except (KeyError, OSError):
        return FALLBACK_PERSONA
    return name if PERSONA.fullmatch(name) else FALLBACK_PERSONA
