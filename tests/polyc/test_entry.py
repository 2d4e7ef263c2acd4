"""The entry's bytes: canonical, bound to their place, and signed by their author."""

import contextlib
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc import entry
from polyc.errors import CorruptError

HEADERS = st.builds(
    entry.Header,
    flags=st.integers(0, 7),
    fence=st.binary(min_size=16, max_size=16),
    event_type=st.integers(0, 2**16 - 1),
    position=st.integers(1, 2**64 - 1),
    recorded_at_us=st.integers(-(2**63), 2**63 - 1),
    incarnation=st.binary(min_size=16, max_size=16),
    append_id=st.binary(min_size=16, max_size=16),
    key_id=st.binary(min_size=8, max_size=8),
    prev=st.binary(min_size=32, max_size=32),
    payload_digest=st.binary(min_size=32, max_size=32),
    payload_size_bytes=st.integers(0, 2**32 - 1),
    partition=st.from_regex(r"[a-z][a-z0-9-]{0,254}", fullmatch=True),
)


def a_header(**changes):
    fields = {
        "flags": entry.FLAG_LAST,
        "fence": entry.NO_FENCE,
        "event_type": 3,
        "position": 1,
        "recorded_at_us": 1_780_000_000_000_000,
        "incarnation": b"i" * 16,
        "append_id": b"a" * 16,
        "key_id": b"k" * 8,
        "prev": b"p" * 32,
        "payload_digest": b"d" * 32,
        "payload_size_bytes": 7,
        "partition": "conv-a",
    }
    return entry.encode_header(entry.Header(**(fields | changes)))


@given(HEADERS)
def test_a_header_decodes_to_what_was_encoded(header):
    assert entry.decode_header(entry.encode_header(header), place="here") == header


@given(HEADERS, st.data())
def test_every_byte_of_a_header_counts(header, data):
    raw = bytearray(entry.encode_header(header))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(CorruptError):
        assert entry.decode_header(bytes(raw), place="here") != header
    assert entry.leaf_hash(bytes(raw)) != entry.leaf_hash(entry.encode_header(header))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "cut short"),
        (a_header()[:148], "cut short"),
        (b"XXXX" + a_header()[4:], "magic"),
        (a_header() + b"x", "length"),
        (a_header()[:-1], "length"),
        (a_header()[:4] + b"\x00\x08" + a_header()[6:], "flags"),
        (a_header(position=1).replace((1).to_bytes(8, "big"), bytes(8), 1), "position 0"),
        (a_header()[:-1] + b"\xff", "ASCII"),
    ],
)
def test_anything_but_a_canonical_header_is_corrupt_and_names_its_place(raw, why):
    with pytest.raises(CorruptError) as caught:
        entry.decode_header(raw, place="conv-a:1")
    assert caught.value.place == "conv-a:1"
    assert why in str(caught.value)


def test_the_leaf_is_the_leaf_hash_of_rfc_6962():
    assert entry.leaf_hash(b"") == bytes.fromhex("6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d")


def test_the_digest_covers_salt_and_payload():
    assert entry.payload_digest(b"s" * 16, b"payload") == hashlib.sha256(b"s" * 16 + b"payload").digest()
    assert entry.payload_digest(b"t" * 16, b"payload") != entry.payload_digest(b"s" * 16, b"payload")


def test_genesis_binds_log_partition_and_incarnation():
    seen = {
        entry.genesis(origin, partition, incarnation)
        for origin in ("log-a", "log-b")
        for partition in ("conv-a", "conv-b")
        for incarnation in (b"1" * 16, b"2" * 16)
    }
    assert len(seen) == 8
