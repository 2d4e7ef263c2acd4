"""Sessions: opaque bearers for a persona or an admin, known here by their SHA-256 alone.

The bearer is `pcs_` and 43 characters of chance; it is shown once. Minting, revoking and expiry are `credential`
records in `credentials-{yyyymm}`. An admin's subject is `admin:<persona>`; an admin session is good for admin matters
only, never for a persona's own conversations.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn

from control.context import ControlContext
from control.credential_book import Session
from control.personas import active_persona
from control.state import State
from facts import codec
from facts.events import Credential
from polyc.errors import RefusedError
from polyc.limits import SESSION_BEARER_SIZE_BYTES, SESSION_LIFETIME_S_DEFAULT, SESSION_LIFETIME_S_MAX

PREFIX: Final = "pcs_"
ADMIN_PREFIX: Final = "admin:"
_BEARER: Final = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who a verified session speaks for; `persona_id` is the persona behind an admin session too."""

    credential_id: str
    persona_id: str
    is_admin: bool

    @property
    def subject(self) -> str:
        """The subject as grants name it."""
        return f"{ADMIN_PREFIX}{self.persona_id}" if self.is_admin else self.persona_id


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A session just made: the only time its bearer exists in our memory."""

    bearer: str
    credential_id: str
    expires_at_ms: int

    def __repr__(self) -> str:
        return f"NewSession(credential_id={self.credential_id!r})"


def create_session(
    context: ControlContext, persona_id: str, *, admin: bool = False, lifetime_s: int = SESSION_LIFETIME_S_DEFAULT
) -> NewSession:
    """A session for the persona, or for it as an admin, who must be marked as one."""
    persona = active_persona(context, persona_id)
    if admin and not persona.is_admin:
        raise RefusedError("the persona is not an admin", code="permission_denied")
    if not 0 < lifetime_s <= SESSION_LIFETIME_S_MAX:
        raise RefusedError(f"a session lives 1 to {SESSION_LIFETIME_S_MAX} seconds")
    secret = base64.urlsafe_b64encode(context.ids.token(SESSION_BEARER_SIZE_BYTES)).rstrip(b"=").decode()
    bearer = PREFIX + secret
    credential_id = context.new_id()
    expires_at_s = context.now_s() + lifetime_s
    event = Credential(
        id=context.new_id(),
        credential_id=credential_id,
        kind="session",
        subject=f"{ADMIN_PREFIX}{persona_id}" if admin else persona_id,
        event="minted",
        realm="fleet" if admin else "participant",
        expires_at=datetime.fromtimestamp(expires_at_s, UTC),
        secret_sha256=_hash(bearer),
        acted_by=context.acted_by,
    )
    record_credential(context, event)
    return NewSession(bearer=bearer, credential_id=credential_id, expires_at_ms=expires_at_s * 1000)


def verify_session(context: ControlContext, bearer: str) -> Caller:
    """Who the bearer speaks for; RefusedError `unauthenticated`, always the same text, unless it is a live one."""
    if not _BEARER.fullmatch(bearer):
        _refuse()
    with context.index.view() as state:
        session = state.credentials.session_of(_hash(bearer))
        if session is None or not _is_live(session, state, now_us=context.clock.now_us()):
            _refuse()
    return Caller(
        credential_id=session.credential_id,
        persona_id=session.subject.removeprefix(ADMIN_PREFIX),
        is_admin=session.realm == "fleet",
    )


def revoke_session(context: ControlContext, credential_id: str) -> bool:
    """The session and all grants of its subject are over at once; False when it was over before."""
    with context.index.view() as state:
        session = state.credentials.sessions.get(credential_id)
    if session is None:
        raise RefusedError("no such session", code="not_found")
    if session.is_revoked:
        return False
    event = Credential(
        id=context.new_id(),
        credential_id=credential_id,
        kind="session",
        subject=session.subject,
        event="revoked",
        realm=session.realm,
        acted_by=context.acted_by,
    )
    record_credential(context, event)
    return True


def record_expired(context: ControlContext) -> int:
    """Put the end of sessions whose time is over on record; returns how many. Until then they are refused anyway."""
    now_us = context.clock.now_us()
    with context.index.view() as state:
        over = [
            session
            for session in state.credentials.sessions.values()
            if not session.is_revoked and session.expires_us is not None and session.expires_us <= now_us
        ]
    for session in over:
        event = Credential(
            id=context.new_id(),
            credential_id=session.credential_id,
            kind="session",
            subject=session.subject,
            event="expired",
            realm=session.realm,
        )
        record_credential(context, event)
    return len(over)


def list_sessions(context: ControlContext, *, live_only: bool = True) -> list[Session]:
    """The sessions, oldest first."""
    now_us = context.clock.now_us()
    with context.index.view() as state:
        return [
            session
            for session in state.credentials.sessions.values()
            if not live_only or _is_live(session, state, now_us=now_us)
        ]


def record_credential(context: ControlContext, event: Credential) -> None:
    """Append to the month's partition: credential partitions never go cold, so they are cut by period."""
    month = datetime.fromtimestamp(context.now_s(), UTC).strftime("%Y%m")
    context.control.append(f"credentials-{month}", [codec.encode(event)])


def _is_live(session: Session, state: State, *, now_us: int) -> bool:
    persona = state.personas.personas.get(session.subject.removeprefix(ADMIN_PREFIX))
    return (
        not session.is_revoked
        and (session.expires_us is None or now_us < session.expires_us)
        and persona is not None
        and persona.is_active
        and (session.realm != "fleet" or persona.is_admin)
    )


def _hash(bearer: str) -> str:
    return hashlib.sha256(bearer.encode()).hexdigest()


def _refuse() -> NoReturn:
    raise RefusedError("not a valid session", code="unauthenticated", hint="polyc session create --persona NAME")
