"""The door, first half: what can be judged of an append without knowing where the log stands.

`inspect` runs in the caller's thread, so that many authors' signatures are checked while one commit is under way;
the second half (journal/sealing.py) runs in the order of the log.
"""

import hashlib
import struct
from typing import Final

import msgspec

from journal.body import SALT_SIZE_BYTES, encode_body
from journal.records import NAME_AT
from polyc import entry
from polyc.appending import SignedAppend
from polyc.entry import (
    FLAG_CLOSES_FENCE,
    FLAG_ENCRYPTED,
    FLAG_LAST,
    FLAGS_KNOWN,
    MAGIC,
    NO_FENCE,
    Header,
)
from polyc.errors import CorruptError, RefusedError
from polyc.ids import check_partition
from polyc.limits import (
    APPEND_SIZE_BYTES_MAX,
    EVENTS_PER_APPEND_MAX,
    PAYLOAD_SIZE_BYTES_MAX,
    RECORDED_AT_SKEW_US_MAX,
)
from polyc.signing import verify

# The header's fields that differ within an append (polyc/entry.py); the others are compared as one piece each.
_FIELDS: Final = struct.Struct(">4sH16xHQq40x32s32sI")
assert _FIELDS.size == NAME_AT


class Inspected(msgspec.Struct, frozen=True):
    """An append that is well made and truly signed; whether it fits the log is not yet known."""

    signed: SignedAppend
    incarnation: bytes
    first_position: int
    prev: bytes
    fence: bytes
    closes_fence: bool
    event_types: tuple[int, ...]
    leaves: tuple[bytes, ...]
    form: int
    body: bytes

    @property
    def size_bytes(self) -> int:
        """What it weighs in a commit."""
        return len(self.body)


def inspect(
    signed: SignedAppend, *, origin: str, public_key: bytes | None, now_us: int, encrypted: bool = False
) -> Inspected:
    """Judge an append by itself; RefusedError at the first fault.

    1. Its partition's name and its sizes are within bounds. 2. Every header is canonical and of this append.
    3. Positions and prevs chain inside it, digests fit the payloads. 4. Recorded times are near the journal's clock.
    5. The author's key is known and its signature is over the last leaf of this log. 6. It gets its stored form.
    """
    # 1. bounds
    check_partition(signed.partition)
    if not 1 <= len(signed.entries) <= EVENTS_PER_APPEND_MAX:
        raise RefusedError(f"an append has 1 to {EVENTS_PER_APPEND_MAX} events")
    if len(signed.append_id) != 16 or len(signed.replaces) not in (0, 16):
        raise RefusedError("append and incarnation ids have 16 bytes")
    sizes = [len(item.payload) for item in signed.entries]
    size_bytes = sum(sizes)
    if max(sizes) > PAYLOAD_SIZE_BYTES_MAX:
        raise RefusedError(
            f"a payload has at most {PAYLOAD_SIZE_BYTES_MAX} bytes",
            code="resource_exhausted",
            hint="larger content goes by digest",
        )
    if size_bytes > APPEND_SIZE_BYTES_MAX:
        raise RefusedError(f"an append has at most {APPEND_SIZE_BYTES_MAX} bytes", code="resource_exhausted")
    # 2. to 4. the entries
    first = _decoded(signed.entries[0].header, 1)
    walked = _walk(signed, first, now_us=now_us, encrypted=encrypted)
    leaves = walked.leaves
    # 5. the signature
    preimage = entry.append_preimage(origin, leaves[-1])
    if public_key is None or not verify(public_key, signed.signature, preimage):
        raise RefusedError("the append is not signed by a known key", code="unauthenticated")
    # 6. the stored form
    form, body = encode_body([item.header for item in signed.entries], walked.salted, compress=not encrypted)
    return Inspected(
        signed=signed,
        incarnation=first.incarnation,
        first_position=first.position,
        prev=first.prev,
        fence=first.fence,
        closes_fence=walked.closes_fence,
        event_types=tuple(walked.event_types),
        leaves=tuple(leaves),
        form=form,
        body=body,
    )


class _Walked(msgspec.Struct):
    leaves: list[bytes] = []
    event_types: list[int] = []
    salted: list[bytes] = []
    closes_fence: bool = False


def _walk(signed: SignedAppend, first: Header, *, now_us: int, encrypted: bool) -> _Walked:
    """Judge each entry against the first one, which was decoded, and against the entry before it."""
    walked = _Walked()
    sha256, unpack = hashlib.sha256, _FIELDS.unpack_from
    raw = signed.entries[0].header
    fence, author, tail = raw[6:22], raw[40:80], raw[NAME_AT:]
    if first.partition != signed.partition or first.append_id != signed.append_id or first.key_id != signed.key_id:
        raise RefusedError("entry 1 of the append names another partition, append or author")
    prev, position, last = first.prev, first.position, first.position + len(signed.entries) - 1
    encryption = FLAG_ENCRYPTED if encrypted else 0
    earliest_us, latest_us = now_us - RECORDED_AT_SKEW_US_MAX, now_us + RECORDED_AT_SKEW_US_MAX
    leaves, event_types, salted = walked.leaves, walked.event_types, walked.salted
    for item in signed.entries:
        header, salt, payload = item.header, item.salt, item.payload
        if header[6:22] != fence or header[40:80] != author or header[NAME_AT:] != tail:
            raise _misfit(header, position - first.position + 1)
        magic, flags, event_type, stated_position, recorded_at_us, stated_prev, digest, size = unpack(header)
        if magic != MAGIC or flags > FLAGS_KNOWN or stated_position != position:
            raise _misfit(header, position - first.position + 1)
        if flags != encryption or position == last:
            _check_flags(flags, encryption, number=position - first.position + 1, last=position == last, fence=fence)
            walked.closes_fence = bool(flags & FLAG_CLOSES_FENCE)
        if not earliest_us <= recorded_at_us <= latest_us:
            raise RefusedError(
                "recorded_at is too far from the journal's clock",
                code="failed_precondition",
                hint="set the machines' clocks",
            )
        if stated_prev != prev:
            raise RefusedError(f"entry {position - first.position + 1} of the append: prev is not the leaf before it")
        if len(salt) != SALT_SIZE_BYTES or size != len(payload):
            raise RefusedError(
                f"entry {position - first.position + 1} of the append: salt or payload has another size than stated"
            )
        item_salted = salt + payload
        if sha256(item_salted).digest() != digest:
            raise RefusedError(f"entry {position - first.position + 1} of the append: digest is not the payload's")
        prev = sha256(b"\x00" + header).digest()
        leaves.append(prev)
        event_types.append(event_type)
        salted.append(item_salted)
        position += 1
    return walked


def _check_flags(flags: int, encryption: int, *, number: int, last: bool, fence: bytes) -> None:
    if bool(flags & FLAG_LAST) != last:
        raise RefusedError(f"entry {number} of the append: only the last one is marked as last")
    if flags & FLAG_CLOSES_FENCE and (not last or fence == NO_FENCE):
        raise RefusedError(f"entry {number} of the append: only the last one may close its fence")
    if flags & FLAG_ENCRYPTED != encryption:
        raise RefusedError("payload encryption is not what this deployment chose", code="failed_precondition")


def _decoded(header: bytes, number: int) -> Header:
    try:
        return entry.decode_header(header, place="append")
    except CorruptError as error:
        raise RefusedError(f"entry {number} of the append: {error.message}") from None


def _misfit(header: bytes, number: int) -> RefusedError:
    _decoded(header, number)
    return RefusedError(
        f"entry {number} of the append has another place, append, author or fence than its first one implies"
    )
