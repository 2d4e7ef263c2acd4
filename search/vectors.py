"""Vector files: the semantic sidecar of one search pack in one space; made by `search.build`, read by `search.query`.

    semantic/<space>.<pack id>/vectors.json   {"body", "kid", "sig"}: space, canary, pack, rows, hashes of the others
                              /vectors.f32    rows x dimensions little-endian float32, unit length, in the pack's order
                              /rows.u32       the document number of each row in the pack's main index
                              /keys.bin       16 bytes a row: sha256(text)[:16], so that equal text is embedded once

It is bound to a pack by the pack's id, signed by the projector's key, and no part of a generation: enabling, losing or
rebuilding vectors never touches lexical search. Equal bytes are not promised (executors round as they like).
"""

import hashlib
from typing import Final

import msgspec

from polyc import canonical
from polyc.errors import CorruptError
from polyc.keyring import KeyRing
from polyc.signing import Signer, verify
from search.space import Space

SEMANTIC: Final = "semantic/"
HEADER_FILE: Final = "vectors.json"
VECTORS_FILE: Final = "vectors.f32"
ROWS_FILE: Final = "rows.u32"
KEYS_FILE: Final = "keys.bin"
KEY_BYTES: Final = 16
_DOMAIN: Final = b"polychrome/search/vectors/v1\n"


class VectorHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed body; `frontier` is the log size at which the key is judged."""

    v: int
    space: Space
    canary: list[int]
    pack: str
    rows: int
    files: dict[str, str]  # sha256 by name
    frontier: int


def text_key(text: str) -> bytes:
    """What equal texts share."""
    return hashlib.sha256(text.encode()).digest()[:KEY_BYTES]


def vectors_name(space: Space, pack: str, file: str = "") -> str:
    """The name of a sidecar in the store, or of a file in it."""
    base = f"{SEMANTIC}{space.folder}.{pack}"
    return f"{base}/{file}" if file else base


def sign_header(header: VectorHeader, signer: Signer) -> bytes:
    """The bytes of `vectors.json`."""
    value = msgspec.to_builtins(header)
    signature = signer.sign(_DOMAIN + canonical.encode(value))
    return canonical.encode({"body": value, "kid": signer.key_id.hex(), "sig": signature.hex()})


def verify_header(content: bytes, *, space: Space, pack: str, keys: KeyRing) -> VectorHeader:
    """The header, when a projector's key vouches that it is of this pack in this space; CorruptError otherwise."""
    place = vectors_name(space, pack, HEADER_FILE)
    outer = canonical.decode(content, place=place)
    try:
        header = msgspec.convert(outer["body"], VectorHeader, strict=True)
        key_id, signature = bytes.fromhex(outer["kid"]), bytes.fromhex(outer["sig"])
    except (msgspec.ValidationError, TypeError, KeyError, ValueError):
        raise CorruptError("vector header does not have the shape of one", place=place, kind="vectors") from None
    key = keys.get(key_id)
    if key is None or keys.role_at(key_id, header.frontier) != "projector":
        raise CorruptError("vector header's key is not a projector's", place=place, kind="signature")
    if not verify(key.public_key, signature, _DOMAIN + canonical.encode(outer["body"])):
        raise CorruptError("vector header's signature does not verify", place=place, kind="signature")
    if (header.v, header.space, header.pack) != (1, space, pack):
        raise CorruptError("vectors are of another pack or space", place=place, kind="vectors")
    return header
