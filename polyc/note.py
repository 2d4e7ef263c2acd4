r"""C2SP signed notes, checkpoints and cosignatures: the text forms in which the log and its witnesses speak.

    <origin>                      c2sp.org/tlog-checkpoint: the body, three lines (we write no extension lines)
    <size>
    <base64(root)>
                                  c2sp.org/signed-note: an empty line, then signature lines
    — <name> <base64(key id 4 ‖ signature)>

Key id = SHA-256(name ‖ "\n" ‖ type ‖ public key)[:4]; type 0x01 is Ed25519 over the text, 0x04 a timestamped
cosignature over "cosignature/v1\ntime <s>\n" ‖ text (c2sp.org/tlog-cosignature). Signatures of unknown keys are
ignored, a bad signature of a known key rejects the note. Every base64 and decimal has one spelling here.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from polyc.errors import CorruptError
from polyc.merkle import HASH_SIZE_BYTES
from polyc.signing import Signer, verify

NOTE_SIZE_BYTES_MAX: Final = 128 * 1024  # c2sp.org/signed-note: 16 signatures fit, also post-quantum ones of 5 kB
SIGNATURES_MAX: Final = 64
ED25519: Final = 0x01
COSIGNATURE: Final = 0x04
DASH: Final = "\N{EM DASH} "
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
_KINDS: Final = (ED25519, COSIGNATURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureLine:
    """One signature line: who claims to have signed, and the bytes after the key id."""

    name: str
    key_id: bytes
    signature: bytes

    def __str__(self) -> str:
        return f"{DASH}{self.name} {encode64(self.key_id + self.signature)}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A text (ending in a newline) and its signature lines, not yet verified."""

    text: str
    signatures: tuple[SignatureLine, ...]

    def __str__(self) -> str:
        return self.text + "\n" + "".join(map(str, self.signatures))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """A public key under a name. Literal form (vkey): `name+hex(key id)+base64(type ‖ public key)`."""

    name: str
    kind: int
    public_key: bytes

    @property
    def key_id(self) -> bytes:
        """The four bytes that a signature line of this key starts with."""
        return _key_id(self.name, self.kind, self.public_key)

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{encode64(bytes([self.kind]) + self.public_key)}"

    def verifies(self, line: SignatureLine, text: str) -> bool:
        """Whether the line is this key's signature over the text."""
        if self.kind == ED25519:
            return verify(self.public_key, line.signature, text.encode())
        if len(line.signature) != 72:
            return False
        time_s = int.from_bytes(line.signature[:8], "big")
        return 0 < time_s < 1 << 63 and verify(self.public_key, line.signature[8:], _cosigned(text, time_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What the log vouches for: its name, how many entries, and the root over their leaf hashes."""

    origin: str
    size: int
    root: bytes

    def __str__(self) -> str:
        return f"{self.origin}\n{self.size}\n{encode64(self.root)}\n"


def parse_verifier(vkey: str, *, place: str = "vkey") -> Verifier:
    """The verifier of a vkey; CorruptError when its parts do not fit together."""
    parts = vkey.split("+", 2)
    if len(parts) != 3:
        raise CorruptError("a verifier key has three parts", place=place, kind="vkey")
    raw = decode64(parts[2], place=place)
    if len(raw) != 33 or raw[0] not in _KINDS or not is_name(parts[0]):
        raise CorruptError("not an Ed25519 or cosignature verifier key", place=place, kind="vkey")
    verifier = Verifier(name=parts[0], kind=raw[0], public_key=raw[1:])
    if parts[1] != verifier.key_id.hex():
        raise CorruptError("key id does not belong to the key", place=place, kind="vkey")
    return verifier


def sign(text: str, *, name: str, signer: Signer) -> SignatureLine:
    """An Ed25519 signature line over the text."""
    assert text.endswith("\n"), "a note's text ends in a newline"
    key_id = _key_id(name, ED25519, signer.public_key)
    return SignatureLine(name=name, key_id=key_id, signature=signer.sign(text.encode()))


class LogSigner:
    """Signs one log's checkpoints: as `sign` and `Note` would write them, with what never changes laid out once."""

    __slots__ = ("_line", "_origin", "_signer")

    def __init__(self, origin: str, signer: Signer) -> None:
        self._origin = origin
        self._signer = signer
        self._line = _key_id(origin, ED25519, signer.public_key)

    @property
    def key_id(self) -> bytes:
        """The id of the key in the journal's key ring."""
        return self._signer.key_id

    def checkpoint(self, size: int, root: bytes) -> str:
        """The signed note of a checkpoint."""
        text = f"{self._origin}\n{size}\n{encode64(root)}\n"
        signature = self._signer.sign(text.encode())
        return f"{text}\n{DASH}{self._origin} {encode64(self._line + signature)}\n"


def cosign(text: str, *, name: str, signer: Signer, time_s: int) -> SignatureLine:
    """A timestamped cosignature line over a checkpoint's text."""
    assert time_s > 0, "a cosignature names its time"
    key_id = _key_id(name, COSIGNATURE, signer.public_key)
    signature = time_s.to_bytes(8, "big") + signer.sign(_cosigned(text, time_s))
    return SignatureLine(name=name, key_id=key_id, signature=signature)


def cosigned_at_s(line: SignatureLine) -> int:
    """The time a cosignature line states."""
    return int.from_bytes(line.signature[:8], "big")


def parse_note(data: str | bytes, *, place: str) -> Note:
    """The note of these characters; CorruptError for anything that would be written otherwise."""
    try:
        content = data if isinstance(data, str) else data.decode()
        content.encode()
    except UnicodeError:
        raise CorruptError("note is not UTF-8", place=place, kind="note") from None
    if len(content) > NOTE_SIZE_BYTES_MAX:
        raise CorruptError("note is too long", place=place, kind="note")
    if _CONTROL.search(content):
        raise CorruptError("note has control characters", place=place, kind="note")
    text, blank, tail = content.rpartition("\n\n")
    if not blank or not tail.endswith("\n"):
        raise CorruptError("note has no signatures", place=place, kind="note")
    return Note(text=text + "\n", signatures=parse_signatures(tail, place=place))


def parse_signatures(lines: str, *, place: str) -> tuple[SignatureLine, ...]:
    """Signature lines as they stand under a note or in a witness's answer."""
    if not lines.endswith("\n"):
        raise CorruptError("signature line is cut short", place=place, kind="note")
    rows = lines[:-1].split("\n")
    if len(rows) > SIGNATURES_MAX:
        raise CorruptError("too many signatures", place=place, kind="note")
    return tuple(_parse_signature(row, place=place) for row in rows)


def verify_note(note: Note, verifiers: Iterable[Verifier], *, place: str) -> list[Verifier]:
    """The known keys that signed the note, in its order; CorruptError when none did, or one of them badly."""
    known = {(verifier.name, verifier.key_id): verifier for verifier in verifiers}
    signed: list[Verifier] = []
    for line in note.signatures:
        verifier = known.get((line.name, line.key_id))
        if verifier is None:
            continue
        if not verifier.verifies(line, note.text):
            raise CorruptError("signature of a known key does not verify", place=place, kind="note_signature")
        if verifier not in signed:
            signed.append(verifier)
    if not signed:
        raise CorruptError("no known key signed the note", place=place, kind="note_signature")
    return signed


def decode_checkpoint(text: str, *, place: str) -> Checkpoint:
    """The checkpoint of a note's text; extension lines are allowed and ignored, as the specification says."""
    lines = text.split("\n")
    if len(lines) < 4 or lines[-1] or not all(lines[:-1]):
        raise CorruptError("a checkpoint has three non-empty lines", place=place, kind="checkpoint")
    origin, size, root64 = lines[:3]
    if not is_decimal(size):
        raise CorruptError("tree size is not a decimal number", place=place, kind="checkpoint")
    root = decode64(root64, place=place)
    if len(root) != HASH_SIZE_BYTES:
        raise CorruptError("root is not 32 bytes", place=place, kind="checkpoint")
    return Checkpoint(origin=origin, size=int(size), root=root)


def open_checkpoint(
    data: str | bytes, *, origin: str, verifiers: Sequence[Verifier], place: str
) -> tuple[Checkpoint, list[Verifier]]:
    """The checkpoint of a signed note and who signed it.

    1. parse; 2. a known key signed, none badly; 3. the body is a checkpoint; 4. of this log.
    """
    note = parse_note(data, place=place)
    signed = verify_note(note, verifiers, place=place)
    checkpoint = decode_checkpoint(note.text, place=place)
    if checkpoint.origin != origin:
        raise CorruptError("checkpoint is another log's", place=place, kind="checkpoint_origin")
    return checkpoint, signed


def _parse_signature(row: str, *, place: str) -> SignatureLine:
    if not row.startswith(DASH):
        raise CorruptError("not a signature line", place=place, kind="note")
    name, blank, encoded = row[len(DASH) :].partition(" ")
    if not blank or not is_name(name):
        raise CorruptError("signature line has no key name", place=place, kind="note")
    raw = decode64(encoded, place=place)
    if len(raw) < 5:
        raise CorruptError("signature is cut short", place=place, kind="note")
    return SignatureLine(name=name, key_id=raw[:4], signature=raw[4:])


def is_name(name: str) -> bool:
    """Whether it is a key's name: not empty, no space of any kind, no plus.

    >>> is_name("example.org/w"), is_name("a b"), is_name("a+b")
    (True, False, False)
    """
    return bool(name) and "+" not in name and name.split() == [name]


def _key_id(name: str, kind: int, public_key: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public_key).digest()[:4]


def _cosigned(text: str, time_s: int) -> bytes:
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()


def is_decimal(text: str) -> bool:
    """Whether the text is the one spelling of a number below 10^20: ASCII digits, no leading zero.

    >>> is_decimal("0"), is_decimal("07"), is_decimal("-1")
    (True, False, False)
    """
    return 0 < len(text) <= 20 and text.isascii() and text.isdecimal() and str(int(text)) == text


def encode64(data: bytes) -> str:
    """Standard base64 (RFC 4648 §4)."""
    return base64.b64encode(data).decode()


def decode64(text: str, *, place: str) -> bytes:
    """The bytes of a base64 text; CorruptError for an empty one or another spelling."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data or encode64(data) != text:
        raise CorruptError("not canonical base64", place=place, kind="base64")
    return data
