"""Archive files: sealed ranges of the log as immutable files (docs/spec/archive.md).

    frame       u32 length of body | u32 crc32c(type ‖ length ‖ body) | u8 type | body            (big-endian)
    1 head        canonical JSON {"format":…,"from":…,"origin":…}: first frame of a file
    2 entry       u64 index | u16 length of header | header | u8 kept | salt 16 ‖ payload when kept is 1, else nothing
    3 signature   the author's 64 bytes: after the last entry of an append
    4 checkpoint  the signed note: after the last entry it covers
    5 cosignature a signature line of the checkpoint before it

A file ends with a checkpoint that covers its last entry. Bytes past the last whole checkpoint are a torn tail: cut and
reported. Damage before it is corruption: stop, with the offset.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import google_crc32c

from journal.port import RawEntry
from polyc import canonical
from polyc.errors import CorruptError
from polyc.limits import PAYLOAD_SIZE_BYTES_MAX

FORMAT: Final = "polychrome/journal/archive/v1"
SUFFIX: Final = ".pja"
HEAD: Final = 1
ENTRY: Final = 2
SIGNATURE: Final = 3
CHECKPOINT: Final = 4
COSIGNATURE: Final = 5
BODY_SIZE_BYTES_MAX: Final = PAYLOAD_SIZE_BYTES_MAX + 1024  # an entry with its header; every other body is smaller

_PREFIX: Final = struct.Struct(">IIB")
_ENTRY: Final = struct.Struct(">QH")
_SALT_SIZE_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One whole frame and where it stands in its file."""

    kind: int
    body: bytes
    offset: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The whole frames of a file up to its last checkpoint, and how many bytes past it were cut."""

    frames: tuple[Frame, ...]
    torn_bytes: int


def encode_frame(kind: int, body: bytes) -> bytes:
    """The frame's bytes.

    >>> encode_frame(3, b"x").hex()
    '000000018b7523e50378'
    """
    assert len(body) <= BODY_SIZE_BYTES_MAX, "a body is bounded"
    return _PREFIX.pack(len(body), _checksum(kind, body), kind) + body


def scan(data: bytes, *, place: str) -> Scan:
    """Split a file into frames; CorruptError when damage is not a torn tail."""
    frames: list[Frame] = []
    sealed = 0  # how many frames the last checkpoint and its cosignatures end with
    at = 0
    while at < len(data):
        frame = _frame_at(data, at)
        if frame is None:
            if _checkpoint_after(data, at):
                raise CorruptError("frame is damaged", place=f"{place}@{at}", kind="archive_frame")
            break
        frames.append(frame)
        at = frame.end
        if frame.kind in (CHECKPOINT, COSIGNATURE):
            sealed = len(frames)
    end = frames[sealed - 1].end if sealed else 0
    return Scan(frames=tuple(frames[:sealed]), torn_bytes=len(data) - end)


def encode_head(origin: str, from_index: int) -> bytes:
    """The head frame of a file."""
    return encode_frame(HEAD, canonical.encode({"format": FORMAT, "from": from_index, "origin": origin}))


def decode_head(frame: Frame, *, origin: str, place: str) -> int:
    """The first index of a file; CorruptError when it is not an archive of this log."""
    value = canonical.decode(frame.body, place=place) if frame.kind == HEAD else None
    if not isinstance(value, dict) or value.keys() != {"format", "from", "origin"} or value["format"] != FORMAT:
        raise CorruptError("not an archive of this format", place=place, kind="archive_head")
    if value["origin"] != origin:
        raise CorruptError("the archive is another log's", place=place, kind="origin")
    if type(value["from"]) is not int or value["from"] < 0:
        raise CorruptError("the first index is not one", place=place, kind="archive_head")
    return value["from"]


def encode_entry(raw: RawEntry) -> bytes:
    """The frames of an entry: itself, and its append's signature when it is the last of one."""
    body = _ENTRY.pack(raw.index, len(raw.header)) + raw.header
    if raw.payload is None or raw.salt is None:
        body += b"\x00"
    else:
        body += b"\x01" + raw.salt + raw.payload
    signature = encode_frame(SIGNATURE, raw.signature) if raw.signature else b""
    return encode_frame(ENTRY, body) + signature


def decode_entry(frame: Frame, signature: bytes, *, place: str) -> RawEntry:
    """The entry of a frame."""
    body = frame.body
    if len(body) < _ENTRY.size:
        raise CorruptError("entry is cut short", place=place, kind="archive_entry")
    index, length = _ENTRY.unpack_from(body)
    header, rest = body[_ENTRY.size : _ENTRY.size + length], body[_ENTRY.size + length :]
    if len(header) != length or rest[:1] not in (b"\x00", b"\x01"):
        raise CorruptError("entry is cut short", place=place, kind="archive_entry")
    if rest[0] == 0:
        if len(rest) != 1:
            raise CorruptError("an erased entry has no more bytes", place=place, kind="archive_entry")
        return RawEntry(index, header, None, None, signature)
    salt, payload = rest[1 : 1 + _SALT_SIZE_BYTES], rest[1 + _SALT_SIZE_BYTES :]
    if len(salt) != _SALT_SIZE_BYTES:
        raise CorruptError("salt is cut short", place=place, kind="archive_entry")
    return RawEntry(index, header, salt, payload, signature)


def items(frames: tuple[Frame, ...], *, place: str) -> Iterator[tuple[str, RawEntry | tuple[str, list[str]]]]:
    """Entries, and checkpoints with their cosignatures, in order, each with its place; the head is skipped."""
    at = 1
    while at < len(frames):
        frame = frames[at]
        here = f"{place}@{frame.offset}"
        at += 1
        if frame.kind == ENTRY:
            signature = b""
            if at < len(frames) and frames[at].kind == SIGNATURE:
                signature = frames[at].body
                at += 1
            yield here, decode_entry(frame, signature, place=here)
        elif frame.kind == CHECKPOINT:
            lines = []
            while at < len(frames) and frames[at].kind == COSIGNATURE:
                lines.append(_text(frames[at].body, place=here))
                at += 1
            yield here, (_text(frame.body, place=here), lines)
        else:
            raise CorruptError(f"frame of kind {frame.kind} does not stand here", place=here, kind="archive_frame")


def _text(body: bytes, *, place: str) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise CorruptError("not UTF-8", place=place, kind="archive_frame") from None


def _checksum(kind: int, body: bytes) -> int:
    return int(google_crc32c.value(struct.pack(">BI", kind, len(body)) + body))


def _frame_at(data: bytes, at: int) -> Frame | None:
    """The whole frame at this offset, or None."""
    if at + _PREFIX.size > len(data):
        return None
    length, checksum, kind = _PREFIX.unpack_from(data, at)
    end = at + _PREFIX.size + length
    if length > BODY_SIZE_BYTES_MAX or not HEAD <= kind <= COSIGNATURE or end > len(data):
        return None
    body = data[at + _PREFIX.size : end]
    return Frame(kind=kind, body=body, offset=at, end=end) if _checksum(kind, body) == checksum else None


def _checkpoint_after(data: bytes, at: int) -> bool:
    """Whether a whole checkpoint frame stands anywhere behind: then the damage before it is not a torn tail."""
    marker = bytes([CHECKPOINT])
    found = data.find(marker, at + _PREFIX.size - 1)
    while found != -1:
        if _frame_at(data, found - _PREFIX.size + 1) is not None:
            return True
        found = data.find(marker, found + 1)
    return False
