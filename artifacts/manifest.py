r"""The signed manifest of a generation: `gen/<number>.json`, canonical JSON `{"body", "kid", "sig"}`.

    sig   Ed25519("polychrome/artifacts/manifest/v1\n" canonical(body)), by a key that holds the role `projector`
          at the frontier's index (never "now": C17)

A manifest binds the number, its parent's bytes, the journal's name and frontier, everything rows depend on (fold
version, trust, table shapes, layout) and the packs. Whoever re-signs one needs a key of the role; whoever moves one
to another number, or offers two for one number, is told by number, parent and hash.
"""

import hashlib
from typing import Any, Final

import msgspec

from artifacts.layout import LayoutParameters, generation_name
from polyc import canonical
from polyc.errors import CorruptError
from polyc.keyring import KeyRing
from polyc.limits import MANIFEST_SIZE_BYTES_MAX
from polyc.signing import Signer, verify

DOMAIN: Final = b"polychrome/artifacts/manifest/v1\n"
GENERATION_ID_DOMAIN: Final = b"polychrome/artifacts/generation-id/v1\n"


class Frontier(msgspec.Struct, frozen=True):
    """The journal's size the generation was built through, and a checkpoint that covers it (its note and root)."""

    size: int
    root: str
    note: str


class Fault(msgspec.Struct, frozen=True):
    """A partition set aside: its rows stay at the last good record; `place` names what is wrong, never content."""

    partition: str
    incarnation: str
    kind: str
    place: str


class Behind(msgspec.Struct, frozen=True):
    """A partition whose records at or after the index `since` come in a later generation (a busy tick left it over)."""

    partition: str
    since: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body: what a generation is."""

    v: int
    origin: str
    generation: int
    parent: str  # sha256 of the parent's file in hex; "" for the first
    created_at_us: int
    frontier: Frontier
    fold_version: str
    trust: str
    tables: dict[str, str]
    layout: LayoutParameters
    writer: str
    base: str  # id of the list of base packs; "" when there is none
    deltas: tuple[str, ...]  # oldest first
    faults: tuple[Fault, ...]
    behind: tuple[Behind, ...] = ()  # longest waiting first
    search: tuple[str, ...] = ()  # search packs, oldest first


class SignedManifest(msgspec.Struct, frozen=True):
    """A manifest with the bytes it came from."""

    body: Manifest
    content: bytes

    @property
    def sha256(self) -> str:
        """What the child names as its parent."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def generation_id(self) -> str:
        """An opaque name: tells participants which generation, not how many there were (ruling 33)."""
        return "g-" + hashlib.sha256(GENERATION_ID_DOMAIN + self.content).hexdigest()[:20]


def sign_manifest(body: Manifest, signer: Signer) -> bytes:
    """The manifest file's bytes."""
    value = msgspec.to_builtins(body)
    signature = signer.sign(DOMAIN + canonical.encode(value))
    return canonical.encode({"body": value, "kid": signer.key_id.hex(), "sig": signature.hex()})


def verify_manifest(content: bytes, *, number: int, origin: str | None, keys: KeyRing) -> SignedManifest:
    """The manifest of these bytes, or CorruptError.

    1. size and canonical form, 2. shape, 3. it is the one of this number (and log), 4. the key holds the role
    `projector` at the frontier, 5. the signature is the key's over exactly this body.
    """
    place = generation_name(number)
    if len(content) > MANIFEST_SIZE_BYTES_MAX:  # 1
        raise CorruptError("manifest is too large", place=place, kind="manifest")
    outer = canonical.decode(content, place=place)
    body, key_id, signature = _fields(outer, place=place)  # 2
    if body.generation != number or (origin is not None and body.origin != origin):  # 3
        raise CorruptError("manifest is of another number or log", place=place, kind="manifest")
    role = keys.role_at(key_id, body.frontier.size)  # 4
    key = keys.get(key_id)
    if key is None or role != "projector":
        raise CorruptError("manifest's key is not a projector's at its frontier", place=place, kind="signature")
    if not verify(key.public_key, signature, DOMAIN + canonical.encode(outer["body"])):  # 5
        raise CorruptError("manifest's signature does not verify", place=place, kind="signature")
    return SignedManifest(body, content)


def _fields(outer: Any, *, place: str) -> tuple[Manifest, bytes, bytes]:
    try:
        if set(outer) != {"body", "kid", "sig"}:
            raise CorruptError("manifest has other fields", place=place, kind="manifest")
        body = msgspec.convert(outer["body"], Manifest, strict=True)
        key_id, signature = bytes.fromhex(outer["kid"]), bytes.fromhex(outer["sig"])
    except (msgspec.ValidationError, TypeError, ValueError):
        raise CorruptError("manifest does not have the shape of one", place=place, kind="manifest") from None
    if body.v != 1:
        raise CorruptError("manifest is of another version", place=place, kind="manifest")
    return body, key_id, signature
