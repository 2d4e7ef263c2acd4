"""What a harness may say, line by line: one JSON object that can be read in one way, of its own turn."""

import pytest

from control.harness.wire import Done, read_line
from polyc.errors import RefusedError

USAGE = b'{"type":"usage","call_id":"c","input_tokens":1}'


def said(line: bytes):
    return read_line(line, turn_id="t1", new_id="new")


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"usage","call_id":"c","call_id":"d"}',
        b'{"type":"usage","call_id":"c","input_tokens":1,"input_tokens":1}',
        b'{"type":"usage","type":"usage","call_id":"c"}',
        b'{"type":"done","status":"completed","status":"failed"}',
        b'{"type":"tool_call","tool_call_id":"x","name":"n","unknown":{"a":1,"a":2}}',
        b'{"type":"usage","call_id":"\\ud800"}',
        b'{"type":"usage","call_id":"c","input_tokens":9223372036854775808}',
        b'["usage"]',
        b'"usage"',
        b"{",
        b"[" * 100_000,
    ],
    ids=lambda line: repr(line[:60]),
)
def test_a_line_that_could_be_read_in_two_ways_or_none_is_refused_without_its_content(line):
    with pytest.raises(RefusedError, match="a line of the harness") as caught:
        said(line)
    assert "call_id" not in str(caught.value)
    assert "5808" not in str(caught.value)


def test_a_line_that_can_be_read_in_one_way_is_said():
    assert said(USAGE).event.input_tokens == 1
    assert said(b'{"type":"done","status":"completed"}') == Done(status="completed")


@pytest.mark.parametrize("given", [b"", b',"id":"","message_id":""', b',"id":null,"message_id":null'])
def test_what_has_no_name_is_given_one(given):
    event = said(b'{"type":"message","role":"assistant","material_origin":"assistant_authored"' + given + b"}").event
    assert (event.id, event.message_id, event.turn_id) == ("new", "new", "t1")
