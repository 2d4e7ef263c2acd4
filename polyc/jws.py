"""Compact JWS (RFC 7515 §3.1) in the one spelling we write: canonical parts, Ed25519 (RFC 9864), nothing optional.

    base64url({"alg":"Ed25519","kid":"<16 hex>","typ":"…"}) "." base64url(canonical claims) "." base64url(64 bytes)

The header is *compared* with the one we would have written, never interpreted: the algorithm belongs to the key
(D01), `jwk`, `crit`, `b64` and duplicates cannot occur. Claims are canonical JSON (polyc.canonical), so that a second
spelling of one statement never verifies (D05, D12). Size is bounded before anything is decoded (D13).
What the claims mean is the caller's business.
"""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, Final

from polyc import canonical, signing
from polyc.errors import CorruptError

ALGORITHM: Final = "Ed25519"
SIGNATURE_SIZE_BYTES: Final = 64

_PART: Final = re.compile(rb"[A-Za-z0-9_-]+")
_KEY_ID: Final = re.compile(r"[0-9a-f]{16}")


class JwsError(ValueError):
    """The text is not a JWS of ours; `reason` is a short code for counters, never shown to the caller."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def sign(claims: dict[str, Any], *, typ: str, signer: signing.Signer) -> str:
    """The token of these claims."""
    header = canonical.encode({"alg": ALGORITHM, "kid": signer.key_id.hex(), "typ": typ})
    signed = _encode(header) + b"." + _encode(canonical.encode(claims))
    return (signed + b"." + _encode(signer.sign(signed))).decode("ascii")


def verify(
    token: str | bytes, *, typ: str, size_bytes_max: int, key_of: Callable[[bytes], bytes | None]
) -> dict[str, Any]:
    """The claims of a token whose signature holds; JwsError otherwise.

    `key_of` gives the raw public key of a key id that may sign tokens of this type, or None.
    1. Bound the size. 2. Three base64url parts, each in its only spelling. 3. The header we would have written.
    4. The key, by its id. 5. The signature. 6. The claims: canonical JSON, an object.
    """
    # 1
    if len(token) > size_bytes_max:
        raise JwsError("size")
    try:
        raw = token.encode("ascii") if isinstance(token, str) else token
    except UnicodeEncodeError:
        raise JwsError("encoding") from None
    # 2
    if raw.count(b".") != 2:
        raise JwsError("parts")
    parts = raw.split(b".")
    header, payload, signature = (_decode(part) for part in parts)
    # 3
    key_id = _key_id_of(header, typ=typ)
    # 4
    public_key = key_of(key_id)
    if public_key is None:
        raise JwsError("key")
    # 5
    if len(signature) != SIGNATURE_SIZE_BYTES or not signing.verify(public_key, signature, parts[0] + b"." + parts[1]):
        raise JwsError("signature")
    # 6
    return _object(payload, reason="claims")


def _key_id_of(header: bytes, *, typ: str) -> bytes:
    kid = _object(header, reason="header").get("kid")
    if not isinstance(kid, str) or not _KEY_ID.fullmatch(kid):
        raise JwsError("header")
    if header != canonical.encode({"alg": ALGORITHM, "kid": kid, "typ": typ}):
        raise JwsError("header")
    return bytes.fromhex(kid)


def _object(text: bytes, *, reason: str) -> dict[str, Any]:
    try:
        value = canonical.decode(text, place="token")
    except (CorruptError, OverflowError, ValueError):
        raise JwsError(reason) from None
    if not isinstance(value, dict):
        raise JwsError(reason)
    return value


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decode(part: bytes) -> bytes:
    """Decode, re-encode, compare: stray bits in the last character and foreign alphabets are refused."""
    if not _PART.fullmatch(part):
        raise JwsError("base64")
    try:
        data = base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except binascii.Error:
        raise JwsError("base64") from None
    if _encode(data) != part:
        raise JwsError("base64")
    return data
