"""The door, first half: what can be judged of an append without knowing where the log stands.

`inspect` needs nothing of the store, so the one who leads a commit and the one who helps may both run it
(journal/committer.py); the second half (journal/sealing.py) runs in the order of the log.
"""

import hashlib

import msgspec

from journal.body import Run, encode_body, run_of
from polyc import entry
from polyc.appending import SignedAppend
from polyc.entry import (
    FLAG_CLOSES_FENCE,
    FLAG_ENCRYPTED,
    FLAG_LAST,
    MAGIC,
    NO_FENCE,
    SALT_SIZE_BYTES,
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
    salted = [item.salt + item.payload for item in signed.entries]
    run = run_of([item.header for item in signed.entries], salted)
    leaves = [] if run is None else [hashlib.sha256(b"\x00" + header).digest() for header in run.headers]
    if run is None or not _is_sound(signed, run, leaves, sizes, now_us=now_us, encrypted=encrypted):
        raise _complaint(signed, now_us=now_us, encrypted=encrypted)
    # 5. the signature
    preimage = entry.append_preimage(origin, leaves[-1])
    if public_key is None or not verify(public_key, signed.signature, preimage):
        raise RefusedError("the append is not signed by a known key", code="unauthenticated")
    # 6. the stored form
    form, body = encode_body(run.headers, salted, compress=not encrypted)
    return Inspected(
        signed=signed,
        incarnation=run.incarnations[0],
        first_position=run.positions[0],
        prev=run.prevs[0],
        fence=run.fences[0],
        closes_fence=bool(run.flags[-1] & FLAG_CLOSES_FENCE),
        event_types=run.event_types,
        leaves=tuple(leaves),
        form=form,
        body=body,
    )


def _is_sound(
    signed: SignedAppend,
    run: Run,
    leaves: list[bytes],
    sizes: list[int],
    *,
    now_us: int,
    encrypted: bool,
) -> bool:
    """Whether every entry is canonical, of this append and in its place; compared column by column."""
    count = len(run.headers)
    encryption = FLAG_ENCRYPTED if encrypted else 0
    fence, first = run.fences[0], run.positions[0]
    ends = (encryption | FLAG_LAST, encryption | FLAG_LAST | FLAG_CLOSES_FENCE if fence != NO_FENCE else -1)
    name = signed.partition.encode()
    return (
        run.magics.count(MAGIC) == count
        and run.names.count(len(name).to_bytes(1, "big") + name) == count
        and run.append_ids.count(signed.append_id) == count
        and run.key_ids.count(signed.key_id) == count
        and run.incarnations.count(run.incarnations[0]) == count
        and run.fences.count(fence) == count
        and run.flags[:-1] == (encryption,) * (count - 1)
        and run.flags[-1] in ends
        and first > 0
        and run.positions == tuple(range(first, first + count))
        and run.prevs[1:] == tuple(leaves[:-1])
        and run.digests == tuple([hashlib.sha256(item).digest() for item in run.salted if item is not None])
        and run.sizes == tuple(sizes)
        and {len(item.salt) for item in signed.entries} == {SALT_SIZE_BYTES}
        and min(run.recorded_at_us) >= now_us - RECORDED_AT_SKEW_US_MAX
        and max(run.recorded_at_us) <= now_us + RECORDED_AT_SKEW_US_MAX
    )


def _complaint(signed: SignedAppend, *, now_us: int, encrypted: bool) -> RefusedError:
    """What is wrong with an append that is not sound: the first fault, entry by entry."""
    first = _decoded(signed.entries[0].header, 1)
    if (first.partition, first.append_id, first.key_id) != (signed.partition, signed.append_id, signed.key_id):
        return RefusedError("entry 1 of the append names another partition, append or author")
    prev, last = first.prev, len(signed.entries)
    encryption = FLAG_ENCRYPTED if encrypted else 0
    for number, item in enumerate(signed.entries, start=1):
        header, name = _decoded(item.header, number), f"entry {number} of the append"
        own = (header.partition, header.incarnation, header.append_id, header.key_id, header.fence, header.position)
        implied = (first.partition, first.incarnation, first.append_id, first.key_id, first.fence)
        if own != (*implied, first.position + number - 1):
            return RefusedError(f"{name} has another place, append, author or fence than its first one implies")
        if bool(header.flags & FLAG_LAST) != (number == last):
            return RefusedError(f"{name}: only the last one is marked as last")
        if header.flags & FLAG_CLOSES_FENCE and (number != last or first.fence == NO_FENCE):
            return RefusedError(f"{name}: only the last one may close its fence")
        if header.flags & FLAG_ENCRYPTED != encryption:
            return RefusedError("payload encryption is not what this deployment chose", code="failed_precondition")
        if abs(header.recorded_at_us - now_us) > RECORDED_AT_SKEW_US_MAX:
            return RefusedError(
                "recorded_at is too far from the journal's clock",
                code="failed_precondition",
                hint="set the machines' clocks",
            )
        if header.prev != prev:
            return RefusedError(f"{name}: prev is not the leaf before it")
        if len(item.salt) != SALT_SIZE_BYTES or header.payload_size_bytes != len(item.payload):
            return RefusedError(f"{name}: salt or payload has another size than stated")
        if entry.payload_digest(item.salt, item.payload) != header.payload_digest:
            return RefusedError(f"{name}: digest is not the payload's")
        prev = entry.leaf_hash(item.header)
    raise AssertionError("an append without a fault is sound")


def _decoded(header: bytes, number: int) -> Header:
    try:
        return entry.decode_header(header, place="append")
    except CorruptError as error:
        raise RefusedError(f"entry {number} of the append: {error.message}") from None
