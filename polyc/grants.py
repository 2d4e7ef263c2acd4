"""The grant's wire form: a compact JWS that names who, which realm, which scope, until when (rulings 28, 29).

    header  {"alg":"Ed25519","kid":"<16 hex>","typ":"polychrome-grant+jwt"}                       (polyc.jws)
    claims  {"aud":"polychrome/query","exp":…,"iat":…,"iss":"polychrome/control","jti":"<uuid>","realm":"participant",
             "scope":["conv-a","conv-b"],"sub":"ada","surface":"execute"}
    scope   a sorted list of at most 32 partitions, each once; `[]` admits nothing
            {"all":true}                                                            every partition; realm fleet alone
            {"count":…,"digest":"<64 hex>","index":…,"persona":"…"}                 by reference (ruling 29)

Exactly these claims: an unknown one is refused, so once-only and attenuated grants cannot be taken for plain ones.
Refused at now >= exp, without leeway (D03); the one leeway is for an `iat` from a clock that runs ahead (D20).
Every refusal reads the same; `reason` is for counters. A token is never in a text, a log or a repr.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from polyc import jws
from polyc.errors import RefusedError
from polyc.ids import CONVERSATION, PERSONA
from polyc.keyring import KeyRing
from polyc.limits import (
    GRANT_LEEWAY_S,
    GRANT_LIFETIME_S_MAX,
    GRANT_SCOPE_INLINE_MAX,
    GRANT_SIZE_BYTES_MAX,
    INDEX_MAX,
)
from polyc.signing import Signer

ISSUER: Final = "polychrome/control"
AUDIENCE: Final = "polychrome/query"
TYPE: Final = "polychrome-grant+jwt"
ALGORITHM: Final = jws.ALGORITHM

Realm = Literal["participant", "fleet"]
Surface = Literal["execute", "tool", "dashboard", "search", "language", "mcp"]

_CLAIMS: Final = frozenset({"aud", "exp", "iat", "iss", "jti", "realm", "scope", "sub", "surface"})
_CREDENTIAL_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SUBJECT: Final = re.compile(rf"(admin:)?{PERSONA.pattern}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_BEARER: Final = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] ([A-Za-z0-9._~+/-]+=*)")
_SCHEME_SIZE_BYTES: Final = len(b"Bearer ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    """No restriction of partitions; only a fleet grant may carry it. Wire: `{"all": true}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """At most 32 partitions, sorted, each once. Wire: a list of names; an empty list admits nothing."""

    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ByReference:
    """The partitions a persona participates in.

    Bound to the global log index of its last participation record and the digest of the sorted set (`scope_digest`).
    Wire: `{"count": …, "digest": …, "index": …, "persona": …}`.
    """

    persona_id: str
    index: int
    digest: str
    count: int


Scope = Everything | Inline | ByReference


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A verified grant. `credential_id` is the jti; `subject` a persona id, or `admin:<name>`."""

    credential_id: str
    subject: str
    realm: Realm
    scope: Scope
    issued_at_s: int
    expires_at_s: int
    surface: Surface = "execute"


class GrantRefusedError(RefusedError):
    """The bearer is refused; the text is always the same, `reason` names the rule for counters alone."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "the bearer is not a valid grant",
            code="unauthenticated",
            hint="mint a new one: POST /api/query/grant on Control",
        )
        self.reason = reason


def mint(grant: Grant, *, signer: Signer) -> str:
    """The token of a grant; AssertionError (our bug) when `verify` would refuse it for any reason but its times."""
    claims = {
        "aud": AUDIENCE,
        "exp": grant.expires_at_s,
        "iat": grant.issued_at_s,
        "iss": ISSUER,
        "jti": grant.credential_id,
        "realm": grant.realm,
        "scope": _scope_claim(grant.scope),
        "sub": grant.subject,
        "surface": grant.surface,
    }
    token = jws.sign(claims, typ=TYPE, signer=signer)
    assert len(token) <= GRANT_SIZE_BYTES_MAX, "32 names and a persona id fit in 4 KB"
    try:
        assert _grant_of(claims) == grant, "what is minted reads back as what was meant"
    except GrantRefusedError as error:
        raise AssertionError(f"minted a grant that would be refused: {error.reason}") from None
    return token


def verify(token: str | bytes, *, keys: KeyRing, size: int, now_us: int) -> Grant:
    """The grant of a token; GrantRefusedError for anything but a grant of ours that is valid now.

    `size` is the log index at which the signing key must hold the role `grant`.
    1. Framing, key and signature (polyc.jws), bounded before any decoding. 2. The claims: exactly ours, well-formed.
    3. The times: issued not after now (plus the leeway), now before the end. Revocation is the caller's next step.
    """

    def key_of(key_id: bytes) -> bytes | None:
        key = keys.get(key_id)
        return key.public_key if key is not None and keys.role_at(key_id, size) == "grant" else None

    # 1
    try:
        claims = jws.verify(token, typ=TYPE, size_bytes_max=GRANT_SIZE_BYTES_MAX, key_of=key_of)
    except jws.JwsError as error:
        raise GrantRefusedError(error.reason) from None
    # 2
    grant = _grant_of(claims)
    # 3
    check_times(grant, now_us=now_us)
    return grant


def check_times(grant: Grant, *, now_us: int) -> None:
    """Return, or raise GrantRefusedError when the grant is not valid yet or any more."""
    now_s = now_us // 1_000_000
    _demand(grant.issued_at_s <= now_s + GRANT_LEEWAY_S, "iat")
    _demand(now_s < grant.expires_at_s, "exp")


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The one bearer of raw (name, value) header pairs; GrantRefusedError unless there is exactly one, well-formed.

    The scheme's case does not matter, exactly one space follows it, and the token is at most 4 KB of token68
    (RFC 9110 §11.2). Two headers, a list, a folded line, a cookie, another scheme or foreign bytes are refused.

    >>> bearer_of([(b"authorization", b"BEARER abc.def")])
    'abc.def'
    """
    values = [value for name, value in headers if name.lower() == b"authorization"]
    if len(values) != 1:
        raise GrantRefusedError("headers")
    if len(values[0]) > GRANT_SIZE_BYTES_MAX + _SCHEME_SIZE_BYTES:
        raise GrantRefusedError("size")
    match = _BEARER.fullmatch(values[0])
    if match is None:
        raise GrantRefusedError("scheme")
    return match.group(1).decode("ascii")


def scope_digest(partitions: Sequence[str]) -> str:
    r"""SHA-256 of the sorted names joined by newlines, hex.

    >>> scope_digest(["conv-b", "conv-a"]) == scope_digest(["conv-a", "conv-b"])
    True
    """
    return hashlib.sha256("\n".join(sorted(partitions)).encode()).hexdigest()


def _scope_claim(scope: Scope) -> Any:
    match scope:
        case Everything():
            return {"all": True}
        case Inline(partitions=partitions):
            return list(partitions)
        case ByReference():
            return {
                "count": scope.count,
                "digest": scope.digest,
                "index": scope.index,
                "persona": scope.persona_id,
            }


def _grant_of(claims: dict[str, Any]) -> Grant:
    """The value of claims whose signature holds; all forms are checked, no default is ever filled in (D10)."""
    _demand(claims.keys() == _CLAIMS, "claims")
    _demand(claims["iss"] == ISSUER, "iss")
    _demand(claims["aud"] == AUDIENCE, "aud")
    _demand(_matches(_CREDENTIAL_ID, claims["jti"]), "jti")
    _demand(_matches(_SUBJECT, claims["sub"]), "sub")
    _demand(claims["realm"] in get_args(Realm), "realm")
    _demand(claims["surface"] in get_args(Surface), "surface")
    issued_at_s, expires_at_s = claims["iat"], claims["exp"]
    _demand(_is_index(issued_at_s), "iat")
    _demand(_is_index(expires_at_s), "exp")
    _demand(0 < expires_at_s - issued_at_s <= GRANT_LIFETIME_S_MAX, "lifetime")
    return Grant(
        credential_id=claims["jti"],
        subject=claims["sub"],
        realm=claims["realm"],
        scope=_scope_of(claims["scope"], realm=claims["realm"], subject=claims["sub"]),
        issued_at_s=issued_at_s,
        expires_at_s=expires_at_s,
        surface=claims["surface"],
    )


def _scope_of(claim: Any, *, realm: Realm, subject: str) -> Scope:
    if isinstance(claim, list):
        return _inline(claim)
    _demand(isinstance(claim, dict), "scope")
    if claim.keys() == {"all"}:
        _demand(claim["all"] is True and realm == "fleet", "scope")
        return Everything()
    _demand(claim.keys() == {"count", "digest", "index", "persona"}, "scope")
    _demand(claim["persona"] == subject and _matches(PERSONA, subject), "scope")
    _demand(_matches(_DIGEST, claim["digest"]), "scope")
    _demand(_is_index(claim["index"]) and _is_index(claim["count"]), "scope")
    return ByReference(persona_id=claim["persona"], index=claim["index"], digest=claim["digest"], count=claim["count"])


def _inline(names: list[Any]) -> Inline:
    _demand(len(names) <= GRANT_SCOPE_INLINE_MAX, "scope")
    _demand(all(_matches(CONVERSATION, name) for name in names), "scope")
    _demand(names == sorted(set(names)), "scope")
    return Inline(partitions=tuple(names))


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_index(value: object) -> bool:
    return type(value) is int and 0 <= value <= INDEX_MAX  # `type` and not isinstance: true is an int to Python


def _demand(holds: bool, reason: str) -> None:
    if not holds:
        raise GrantRefusedError(reason)
