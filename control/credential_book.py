"""Sessions, grants and what revokes them, as the partitions `credentials-{yyyymm}` say it up to now.

A session is found by the SHA-256 of its bearer; the bearer itself is nowhere. A revocation is kept until no grant it
could concern can still be valid anywhere, the leeway included (D04). Pure: times come from the records.
"""

from typing import Final

import msgspec

from facts.events import Credential
from polyc.entry import Record
from polyc.limits import GRANT_LEEWAY_S, GRANT_LIFETIME_S_MAX

CODES = frozenset({"credential"})
REVOCATION_LIFETIME_S: Final = GRANT_LIFETIME_S_MAX + 2 * GRANT_LEEWAY_S + 60


class Session(msgspec.Struct, frozen=True):
    """A session: who it is for and until when. `realm` fleet is an admin session."""

    credential_id: str
    subject: str
    realm: str
    created_us: int
    expires_us: int | None
    is_revoked: bool = False


class CredentialBook(msgspec.Struct):
    """Sessions by id and by the hash of their bearer; grants still alive; revocations still needed (second of each)."""

    sessions: dict[str, Session] = msgspec.field(default_factory=dict)
    by_secret: dict[str, str] = msgspec.field(default_factory=dict)
    grants: dict[str, tuple[str, int]] = msgspec.field(default_factory=dict)
    revoked_grants: dict[str, int] = msgspec.field(default_factory=dict)
    revoked_subjects: dict[str, int] = msgspec.field(default_factory=dict)

    def apply(self, record: Record, event: Credential) -> None:
        """Take a `credential` record."""
        at_s = record.recorded_at_us // 1_000_000
        self._prune(at_s)
        expires_us = None if event.expires_at is None else round(event.expires_at.timestamp() * 1_000_000)
        match event.kind, event.event:
            case "session", "minted":
                self.sessions[event.credential_id] = Session(
                    event.credential_id,
                    event.subject,
                    event.realm or "participant",
                    record.recorded_at_us,
                    expires_us,
                )
                if event.secret_sha256 is not None:
                    self.by_secret[event.secret_sha256] = event.credential_id
            case "session", "revoked":
                self._end_session(event.credential_id)
                self.revoke_subject(event.subject, at_s=at_s)
            case "session", "expired":
                self._end_session(event.credential_id)
            case "grant", "minted":
                self.grants[event.credential_id] = (event.subject, (expires_us or 0) // 1_000_000)
            case "grant", "revoked":
                self.revoked_grants[event.credential_id] = at_s
            case _:
                pass

    def revoke_subject(self, subject: str, *, at_s: int) -> None:
        """All grants of the subject issued up to this second are over."""
        self.revoked_subjects[subject] = max(at_s, self.revoked_subjects.get(subject, 0))

    def session_of(self, secret_sha256: str) -> Session | None:
        """The session whose bearer has this hash, in whatever state."""
        credential_id = self.by_secret.get(secret_sha256)
        return None if credential_id is None else self.sessions[credential_id]

    def live_revocations(self, *, now_s: int) -> tuple[frozenset[str], dict[str, int]]:
        """The grant ids and the subjects that an edge must still refuse."""
        oldest = now_s - REVOCATION_LIFETIME_S
        return (
            frozenset(item for item, at_s in self.revoked_grants.items() if at_s >= oldest),
            {subject: at_s for subject, at_s in sorted(self.revoked_subjects.items()) if at_s >= oldest},
        )

    def _end_session(self, credential_id: str) -> None:
        session = self.sessions.get(credential_id)
        if session is not None:
            self.sessions[credential_id] = msgspec.structs.replace(session, is_revoked=True)

    def _prune(self, now_s: int) -> None:
        """Forget grants that are long over; the oldest stand first."""
        while self.grants:
            credential_id = next(iter(self.grants))
            if self.grants[credential_id][1] >= now_s - REVOCATION_LIFETIME_S:
                return
            del self.grants[credential_id]
