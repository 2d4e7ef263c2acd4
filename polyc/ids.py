"""Identifiers: their grammar, where fresh ones come from, and how derived ones are made.

A conversation partition is `conv-` and at most 64 of `[a-z0-9-]` (ruling 13); an imported one is
`conv-imp-` and the first 26 characters of lower-case base32(SHA-256(provider, native id, agent id)).
Fresh ids are UUIDv7 (RFC 9562 §5.7), derived ones UUIDv8 (§5.8): same source, same id.
Chance is an argument: `IdSource`. Only this module touches the operating system's randomness.
"""

import base64
import hashlib
import os
import re
from typing import Final, NewType, Protocol

from polyc.clock import Clock
from polyc.errors import RefusedError

Partition = NewType("Partition", str)
TurnId = NewType("TurnId", str)
PersonaId = NewType("PersonaId", str)

PARTITION: Final = re.compile(r"[a-z][a-z0-9-]{0,254}")
CONVERSATION: Final = re.compile(r"conv-[a-z0-9-]{1,64}")
PERSONA: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
IMPORTED_PREFIX: Final = "conv-imp-"
UUID7_CHANCE_SIZE_BYTES: Final = 10


class IdSource(Protocol):
    """Where fresh identifiers and salts come from."""

    def token(self, size_bytes: int) -> bytes:
        """Fresh unpredictable bytes."""


class SystemIds:
    """The operating system's randomness."""

    def token(self, size_bytes: int) -> bytes:
        """Bytes of os.urandom."""
        return os.urandom(size_bytes)


class SeededIds:
    """A deterministic source for tests and demonstrations; never for keys that matter."""

    def __init__(self, seed: str = "polychrome") -> None:
        self._seed = seed.encode()
        self._counter = 0

    def token(self, size_bytes: int) -> bytes:
        """The next bytes of SHAKE-256(seed, counter)."""
        self._counter += 1
        return hashlib.shake_256(self._seed + self._counter.to_bytes(8, "big")).digest(size_bytes)


def uuid7_bytes(clock: Clock, ids: IdSource) -> bytes:
    """16 bytes of a UUIDv7: 48 bits of milliseconds, then chance."""
    return uuid7_of(clock.now_us(), ids.token(UUID7_CHANCE_SIZE_BYTES))


def uuid7_of(time_us: int, chance: bytes) -> bytes:
    """The UUIDv7 of a time and 10 bytes of chance.

    >>> format_uuid(uuid7_of(1_700_000_000_000_000, bytes(10)))
    '018bcfe5-6800-7000-8000-000000000000'
    """
    raw = bytearray((time_us // 1000).to_bytes(6, "big") + chance)
    raw[6] = (raw[6] & 0x0F) | 0x70
    raw[8] = (raw[8] & 0x3F) | 0x80
    return bytes(raw)


def uuid7(clock: Clock, ids: IdSource) -> str:
    """A UUIDv7 in its text form."""
    return format_uuid(uuid7_bytes(clock, ids))


def uuid8_bytes(*parts: str) -> bytes:
    """16 bytes of a UUIDv8 derived from the parts: the same source gives the same id.

    >>> format_uuid(uuid8_bytes("claude-code", "abc", "1"))
    '85c28a9d-52f8-8e77-a2bd-021d7d16b7d5'
    """
    raw = bytearray(hashlib.sha256(b"\x1f".join(part.encode("utf-8", "surrogatepass") for part in parts)).digest()[:16])
    raw[6] = (raw[6] & 0x0F) | 0x80
    raw[8] = (raw[8] & 0x3F) | 0x80
    return bytes(raw)


def uuid8(*parts: str) -> str:
    """A UUIDv8 in its text form."""
    return format_uuid(uuid8_bytes(*parts))


def format_uuid(raw: bytes) -> str:
    """The 8-4-4-4-12 text of 16 bytes."""
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def imported_partition(provider: str, native_id: str, agent_id: str = "") -> Partition:
    """The partition of an imported conversation (ruling 13); a pure function of where it came from."""
    digest = hashlib.sha256(
        b"\x1f".join(part.encode("utf-8", "surrogatepass") for part in (provider, native_id, agent_id))
    ).digest()
    return Partition(IMPORTED_PREFIX + base64.b32encode(digest).decode().lower()[:26])


def check_partition(name: str) -> Partition:
    """Return the name as a partition, or refuse it."""
    if not PARTITION.fullmatch(name) or (name.startswith("conv-") and not CONVERSATION.fullmatch(name)):
        raise RefusedError(
            "not a partition name",
            hint="lower-case letters, digits and '-'; a conversation is conv- and at most 64 of them",
        )
    return Partition(name)


def check_persona(name: str) -> PersonaId:
    """Return the name as a persona id, or refuse it."""
    if not PERSONA.fullmatch(name):
        raise RefusedError(
            "not a persona id", hint="1 to 64 of a-z, 0-9, '.', '_' and '-', starting with a letter or digit"
        )
    return PersonaId(name)
