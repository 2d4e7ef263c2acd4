"""Minting and revoking grants: short-lived, recorded, and never seen again.

A participant grant covers the conversations the persona's participation records name now: inline up to 32, else by
reference to the last of these records (ruling 29). An admin's covers the fleet. Each is a `credential` record before
the token leaves; the token itself is nowhere.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from control.context import ControlContext
from control.sessions import record_credential
from control.state import State
from facts.events import Credential
from polyc import grants
from polyc.errors import RefusedError
from polyc.grants import ByReference, Everything, Grant, Inline, Realm, Scope, Surface
from polyc.limits import GRANT_LIFETIME_S_MAX, GRANT_SCOPE_INLINE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGrant:
    """A grant just minted. The token stays out of every repr."""

    token: str
    credential_id: str
    expires_at_ms: int

    def __repr__(self) -> str:
        return f"NewGrant(credential_id={self.credential_id!r})"


def mint_participant(context: ControlContext, persona_id: str, *, surface: Surface = "execute") -> NewGrant:
    """A grant over the conversations the persona participates in now, none of them too."""
    with context.index.view() as state:
        scope, size = _scope_of(state, persona_id)
        issued_at_s = _issued_at_s(context, state, persona_id)
    return _mint(
        context,
        subject=persona_id,
        realm="participant",
        scope=scope,
        scope_size=size,
        issued_at_s=issued_at_s,
        surface=surface,
    )


def mint_admin(context: ControlContext, subject: str, *, surface: Surface = "execute") -> NewGrant:
    """A fleet-wide grant for `admin:<persona>`; the caller has verified the admin."""
    return mint_scoped(context, subject, realm="fleet", scope=Everything(), surface=surface)


def mint_scoped(context: ControlContext, subject: str, *, realm: Realm, scope: Scope, surface: Surface) -> NewGrant:
    """A grant over a scope that Control chose itself, for a fixed statement of its own (ruling 28)."""
    with context.index.view() as state:
        issued_at_s = _issued_at_s(context, state, subject)
    size = len(scope.partitions) if isinstance(scope, Inline) else None
    return _mint(
        context,
        subject=subject,
        realm=realm,
        scope=scope,
        scope_size=size,
        issued_at_s=issued_at_s,
        surface=surface,
    )


def scope_of(context: ControlContext, persona_id: str) -> Scope:
    """The scope of a participant grant of this persona, as it would be minted now."""
    with context.index.view() as state:
        return _scope_of(state, persona_id)[0]


def revoke_grant(context: ControlContext, credential_id: str) -> None:
    """The grant is refused from the next list of revocations on; RefusedError when no living grant has this id."""
    with context.index.view() as state:
        known = state.credentials.grants.get(credential_id)
    if known is None:
        raise RefusedError("no living grant has this id", code="not_found")
    event = Credential(
        id=context.new_id(),
        credential_id=credential_id,
        kind="grant",
        subject=known[0],
        event="revoked",
        acted_by=context.acted_by,
    )
    record_credential(context, event)


def _scope_of(state: State, persona_id: str) -> tuple[Scope, int]:
    partitions = state.personas.scope_of(persona_id)
    if len(partitions) <= GRANT_SCOPE_INLINE_MAX:
        return Inline(partitions=tuple(partitions)), len(partitions)
    by_reference = ByReference(
        persona_id=persona_id,
        index=state.personas.last_index[persona_id],
        digest=grants.scope_digest(partitions),
        count=len(partitions),
    )
    return by_reference, len(partitions)


def _issued_at_s(context: ControlContext, state: State, subject: str) -> int:
    """Now, but after the subject's last revocation, which ends all grants issued up to its own second."""
    return max(context.now_s(), state.credentials.revoked_subjects.get(subject, -1) + 1)


def _mint(
    context: ControlContext,
    *,
    subject: str,
    realm: Realm,
    scope: Scope,
    scope_size: int | None,
    issued_at_s: int,
    surface: Surface,
) -> NewGrant:
    grant = Grant(
        credential_id=context.new_id(),
        subject=subject,
        realm=realm,
        scope=scope,
        issued_at_s=issued_at_s,
        expires_at_s=issued_at_s + GRANT_LIFETIME_S_MAX,
        surface=surface,
    )
    event = Credential(
        id=context.new_id(),
        credential_id=grant.credential_id,
        kind="grant",
        subject=subject,
        event="minted",
        realm=realm,
        scope_size=scope_size,
        expires_at=datetime.fromtimestamp(grant.expires_at_s, UTC),
        acted_by=context.acted_by,
    )
    record_credential(context, event)
    return NewGrant(
        token=grants.mint(grant, signer=context.grant_key.current),
        credential_id=grant.credential_id,
        expires_at_ms=grant.expires_at_s * 1000,
    )
