r"""Ed25519 keys, one per purpose; every preimage is separated by its domain (architecture.md, "Keys and roles").

A key id is SHA-256("polychrome/journal/key/v1\n" public key)[:8]. Private keys lie in `keys/<name>.pem` (PKCS #8,
0600) and are never shown: no repr, no error and no log holds one.

Signing and verifying are libsodium's (RFC 8032): measured twice as fast as OpenSSL's, and Python's lock is released
meanwhile, so that authors use every core. It refuses keys of small order and non-canonical ones, which no honest
signer has. Key files are `cryptography`'s.
"""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from nacl.bindings import crypto_sign, crypto_sign_BYTES, crypto_sign_open, crypto_sign_PUBLICKEYBYTES
from nacl.exceptions import BadSignatureError

from polyc.durable import create_file
from polyc.errors import RefusedError
from polyc.ids import IdSource

KEY_DOMAIN: Final = b"polychrome/journal/key/v1\n"
KEY_ID_SIZE_BYTES: Final = 8
PUBLIC_KEY_SIZE_BYTES: Final = crypto_sign_PUBLICKEYBYTES


def key_id_of(public_key: bytes) -> bytes:
    """The 8-byte id of a raw 32-byte Ed25519 public key."""
    return hashlib.sha256(KEY_DOMAIN + public_key).digest()[:KEY_ID_SIZE_BYTES]


class SignerSource(Protocol):
    """Whoever can say which key to sign with now."""

    @property
    def current(self) -> "Signer":
        """The key to sign the next thing with."""


class Signer:
    """A private key that can sign and tell its public half, and nothing else."""

    __slots__ = ("_private", "_secret", "key_id", "public_key")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public_key: bytes = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.key_id: bytes = key_id_of(self.public_key)
        self._secret = private.private_bytes_raw() + self.public_key

    def __repr__(self) -> str:
        return f"Signer(key_id={self.key_id.hex()})"

    @property
    def current(self) -> "Signer":
        """Itself: a key that was handed over stays the one."""
        return self

    def sign(self, preimage: bytes) -> bytes:
        """64 bytes of Ed25519 (RFC 8032) over the preimage."""
        return crypto_sign(preimage, self._secret)[:crypto_sign_BYTES]

    def private_pem(self) -> bytes:
        """PKCS #8 PEM, for the key file alone."""
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def new_signer(ids: IdSource) -> Signer:
    """A fresh key from the source of chance."""
    return Signer(Ed25519PrivateKey.from_private_bytes(ids.token(32)))


def verify(public_key: bytes, signature: bytes, preimage: bytes) -> bool:
    """Whether the signature is the key's over the preimage; malformed keys and signatures are simply not."""
    if len(public_key) != crypto_sign_PUBLICKEYBYTES or len(signature) != crypto_sign_BYTES:
        return False
    try:
        crypto_sign_open(signature + preimage, public_key)
    except BadSignatureError:
        return False
    return True


def load_signer(path: Path) -> Signer:
    """The key of a PEM file, refused when others can read it."""
    try:
        if path.stat().st_mode & 0o077:
            raise RefusedError(
                f"key file {path.name} is readable by others",
                code="failed_precondition",
                hint=f"chmod 600 {path}",
            )
        private = load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        raise RefusedError(f"no key file {path.name}", code="failed_precondition") from None
    except ValueError:
        raise RefusedError(f"key file {path.name} is not a PKCS #8 PEM key", code="failed_precondition") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise RefusedError(f"key file {path.name} is not an Ed25519 key", code="failed_precondition")
    return Signer(private)


class KeyFile:
    """The key of a role's file as it stands: a rotation replaces the file, and the next signature is the new key's.

    So a running service needs no restart: the new key acts from the rotation on, the old one while they overlap.
    """

    __slots__ = ("_path", "_seen", "_signer")

    def __init__(self, path: Path) -> None:
        """Load it; refused when there is none, or when others can read it."""
        self._path = path
        self._seen = self._state()
        self._signer = load_signer(path)

    @property
    def current(self) -> Signer:
        """The key; what was loaded last while the file is away, or is no key that may be used."""
        seen = self._state()
        if seen != self._seen:
            with suppress(RefusedError):
                self._signer, self._seen = load_signer(self._path), seen
        return self._signer

    def _state(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (found.st_ino, found.st_mtime_ns)


def load_or_create_signer(path: Path, ids: IdSource) -> Signer:
    """The key of the file; made first when there is none (two creators agree: the first file wins)."""
    if not path.exists():
        create_file(path, new_signer(ids).private_pem(), mode=0o600)
    return load_signer(path)
