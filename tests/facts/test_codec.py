"""The codec: the header's number and the payload's tag agree; the author's bytes are read as they are, once."""

import msgspec
import pytest

from facts import events as e
from facts.codec import DECODERS, decode, encode
from facts.events import AnyEvent
from polyc.errors import CorruptError
from polyc.vocabulary import BY_CODE, BY_KIND, EVENT_TYPES
from tests.facts.everything import every_partition

USAGE = BY_KIND["usage"].code


def usage(**members):
    return msgspec.json.encode({"type": "usage", "id": "1", "call_id": "c"} | members)


def read(payload, code=USAGE):
    return decode(code, payload, place="conv-a@1")


def test_every_type_of_the_vocabulary_has_a_struct_and_a_decoder():
    assert {member.__struct_config__.tag for member in AnyEvent.__args__} == {row.kind for row in EVENT_TYPES}
    assert DECODERS.keys() == BY_CODE.keys()


@pytest.mark.parametrize("journal", every_partition(), ids=lambda journal: journal.partition)
def test_an_event_encodes_to_the_bytes_it_came_from(journal):
    for record in journal.records:
        event = decode(record.event_type, record.payload, place="x")
        assert encode(event).payload == record.payload
        assert encode(event).event_type == record.event_type


def test_an_unknown_type_is_no_event():
    assert read(b"anything", code=60_000) is None


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        usage() + b" x",
        b'{"id":"1","call_id":"c"}',
        usage(type="model_call"),
        usage(type="-"),
        usage(type="-", never=1),
        b'{"type":"usage","type":"model_call","id":"1","call_id":"c"}',
        b'{"type":"usage","id":"1"}',
        usage(input_tokens="1"),
        usage(input_tokens=1.0),
        usage(input_tokens=True),
        b'{"type":"usage","id":"1","call_id":"c","input_tokens":9223372036854775808}',
        b'{"type":"usage","id":"1","call_id":"c","input_tokens":NaN}',
        usage(occurred_at="2026-11-01T12:00:00"),
        usage(occurred_at="2026-02-30T12:00:00Z"),
        usage(occurred_at=0),
        b'{"type":"usage","id":"1","call_id":"\\ud800"}',
        b'{"type":"usage","id":"1","call_id":"\xed\xa0\x80"}',
        b'{"type":"usage","id":"1","call_id":"c","new":' + b"[" * 100_000,
    ],
    ids=lambda payload: repr(payload[:40]),
)
def test_a_payload_that_does_not_fit_its_type_is_a_named_fault(payload):
    with pytest.raises(CorruptError) as caught:
        read(payload)
    assert (caught.value.place, caught.value.kind) == ("conv-a@1", "payload")
    assert "call_id" not in str(caught.value)


def test_fields_of_a_newer_writer_are_ignored():
    assert read(usage(from_the_future={"a": [1, 2]})) == e.Usage(id="1", call_id="c")


def test_of_a_member_that_stands_twice_the_last_counts():
    """A door refuses what is about to be said so (polyc.strict_json); what the journal holds is read one way by all."""
    payload = b'{"type":"usage","id":"1","call_id":"first","call_id":"last","input_tokens":1,"input_tokens":null}'
    assert read(payload) == e.Usage(id="1", call_id="last")
    with pytest.raises(CorruptError):
        read(b'{"type":"message","type":"usage","id":"1","call_id":"c","id":7}')


@pytest.mark.parametrize("text", ["café", "cafe\u0301", "a\u0000b", "\u2028", "\U0001f468\u200d\U0001f469", ""])
def test_texts_are_read_as_they_are(text):
    assert read(usage(call_id=text)).call_id == text


def test_the_largest_and_smallest_integers_fit():
    assert read(usage(input_tokens=2**63 - 1, output_tokens=-(2**63))).input_tokens == 2**63 - 1
