r"""Encrypted payloads (ruling 9, `encryption = per-conversation`): one key an incarnation, destroyed to erase it all.

    stored payload   nonce 12 ‖ ChaCha20-Poly1305(key, nonce, payload, aad)
    aad              "polychrome/journal/payload/v1\n" ‖ partition ‖ "\n" ‖ incarnation 16 ‖ position u64

The author encrypts, so that the digest it signs is over what is stored and every proof works without the key.
"""

from typing import Final, Protocol, runtime_checkable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from polyc.errors import CorruptError

KEY_SIZE_BYTES: Final = 32
NONCE_SIZE_BYTES: Final = 12
OVERHEAD_BYTES: Final = NONCE_SIZE_BYTES + 16
ENCRYPTED_PREFIX: Final = "conv-"  # what is said in conversations; keys, audit and notices stay readable
_DOMAIN: Final = b"polychrome/journal/payload/v1\n"


class PayloadKey:
    """The key of one incarnation; never shown."""

    __slots__ = ("_aead", "_prefix", "raw")

    def __init__(self, raw: bytes, *, partition: str, incarnation: bytes) -> None:
        self.raw = raw
        self._aead = ChaCha20Poly1305(raw)
        self._prefix = _DOMAIN + partition.encode() + b"\n" + incarnation

    def __repr__(self) -> str:
        return "PayloadKey(…)"

    def encrypt(self, payload: bytes, *, position: int, nonce: bytes) -> bytes:
        """What is stored for a payload at a position."""
        return nonce + self._aead.encrypt(nonce, payload, self._prefix + position.to_bytes(8, "big"))

    def decrypt(self, stored: bytes, *, position: int, place: str) -> bytes:
        """The payload; CorruptError when it was not encrypted under this key for this position."""
        nonce, sealed = stored[:NONCE_SIZE_BYTES], stored[NONCE_SIZE_BYTES:]
        try:
            return self._aead.decrypt(nonce, sealed, self._prefix + position.to_bytes(8, "big"))
        except (InvalidTag, ValueError):
            raise CorruptError("payload does not decrypt", place=place, kind="encryption") from None


@runtime_checkable
class PayloadKeys(Protocol):
    """A journal that can encrypt payloads."""

    def payload_key(self, partition: str, incarnation: bytes) -> PayloadKey | None:
        """The incarnation's key, made when it is new; None when its payloads are not encrypted.

        RefusedError when the key was destroyed: the content was erased and nothing can be added.
        """
