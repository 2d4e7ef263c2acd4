"""Verifier keys as arguments: a log's or a witness's, each of its own kind; another one is a wrong argument, no lie."""

from polyc import note
from polyc.errors import CorruptError, RefusedError


def log_key(vkey: str) -> note.Verifier:
    """The log's key of these characters."""
    return _of_kind(vkey, note.ED25519, "a log's")


def witness_key(vkey: str) -> note.Verifier:
    """The witness's key of these characters: a log that signed its own checkpoint is no witness of it."""
    return _of_kind(vkey, note.COSIGNATURE, "a witness's")


def _of_kind(vkey: str, kind: int, whose: str) -> note.Verifier:
    try:
        verifier = note.parse_verifier(vkey)
    except (CorruptError, UnicodeError):
        raise RefusedError("not a verifier key", hint="NAME+KEYID+BASE64, as `polyc witness vkey` prints it") from None
    if verifier.kind != kind:
        raise RefusedError(f"the key of {verifier.name} is not {whose}")
    return verifier
