"""Bad input is set aside with its place and reason; it is never fatal, never silent, and never costs the rest."""

import gzip
import io
import json
import random
import tracemalloc

import msgspec
import pytest

from facts.codec import decode
from polyc.limits import LINE_SIZE_BYTES_MAX, PAYLOAD_SIZE_BYTES_MAX
from sources.content import bounded
from sources.growing import Growing
from sources.json_documents import ElementError, elements
from sources.lines import BadLineError, object_decoder, records, whole_document
from sources.provider import Context
from sources.providers import BY_NAME
from sources.redaction import Redactor
from sources.shrink import shrink
from tests.sources.counting import Tally, event_of
from tests.sources.histories import ClaudeFile, tool
from tests.sources.loop import Loop
from tests.sources.test_goldens import SAMPLES, laid_out
from tests.support.shared import shared_path

ODD = [None, [], {}, 7, -1, 1.5, True, "", "odd", [None, {"type": "text"}], {"a": {"b": []}}, 10**18]


def paths_in(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths_in(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from paths_in(item, (*path, place))


def replaced(value, path, by):
    if not path:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], by)
    return copy


def tell_all(provider, path) -> None:
    for telling in provider.tellings(path, lambda _bad: None):
        for level in (0, 2):
            for segment in telling.segments(Context(redactor=Redactor(), level=level)):
                for draft in segment.drafts:
                    assert decode(draft.event_type, draft.payload, place=str(path)) is not None


TEXTS = [name for name in SAMPLES if not name.endswith("-db")]


@pytest.mark.parametrize("sample", TEXTS)
def test_no_shape_of_any_field_stops_a_reader(sample, tmp_path):
    chance = random.Random(sample)
    for path in [p for p in laid_out(sample, tmp_path).rglob("*.*json*") if p.is_file()]:
        whole = path.read_text()
        lines = [json.loads(line) for line in whole.splitlines()] if path.suffix != ".json" else [json.loads(whole)]
        places = [(number, spot) for number, line in enumerate(lines) for spot in paths_in(line)]
        for number, spot in chance.sample(places, min(len(places), 60)):
            odd = [*lines]
            odd[number] = replaced(lines[number], spot, chance.choice(ODD))
            path.write_text("".join(json.dumps(line) + "\n" for line in odd))
            tell_all(BY_NAME[sample], path)
        path.write_text(whole)


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_file_cut_anywhere_is_never_fatal(sample, tmp_path):
    chance = random.Random(sample)
    folder = laid_out(sample, tmp_path)
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        whole = path.read_bytes()
        for _ in range(12):
            path.write_bytes(whole[: chance.randrange(len(whole))])
            report, _new = Loop().run(folder, final=True)
            assert all(bad.reason.count(":") <= 1 for _path, bad in report.quarantined)
        path.write_bytes(whole)


def records_of(path, **keywords):
    bad = []
    return [value for _offset, value in records(path, object_decoder(dict), set_aside=bad.append, **keywords)], bad


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not_json"),
        (b"[]", "not_an_object"),
        (b"17", "not_an_object"),
        (b'{"a":"\x00"}', "nul_bytes"),
        (b"\x00" * 64, "nul_bytes"),
        (b'{"a":"\xff"}', "not_utf8"),
        (b'{"a":"x\ty"}', "not_json"),
        (b"[" * 100_000 + b"]" * 100_000, "nested_too_deep"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested_too_deep"),
        (b'{"a":1}{"a":2}', "not_json"),
    ],
)
def test_a_line_that_cannot_be_read_is_set_aside_and_the_next_is_read(line, reason, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"first":1}\n' + line + b'\n{"last":1}\n')
    values, bad = records_of(path)
    assert values == [{"first": 1}, {"last": 1}]
    assert [(b.offset, b.size_bytes, b.reason) for b in bad] == [(12, len(line) + 1, reason)]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a":"\\ud83d"}', {"a": "\ufffd"}),
        (b'{"a":NaN,"b":Infinity}', {"a": None, "b": None}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":"\\u0000"}', {"a": "\x00"}),
        ('{"a":"x\u2028y\u2029z\x85"}'.encode(), {"a": "x\u2028y\u2029z\x85"}),
        (b'{"a":1e999}', {"a": None}),
    ],
)
def test_what_people_s_files_contain_is_read_and_repaired(line, value, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(line + b"\r\n")
    assert records_of(path) == ([value], [])


def test_a_line_of_24_megabytes_is_kept_cut_and_the_rest_is_read(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m1", tool("t"), stop="tool_use")
    f.result("t", "x" * 24_000_000)
    f.answer("m2", "Done.")
    path = f.write(tmp_path)
    f.lines.clear()
    loop = Loop()
    tracemalloc.start()
    report, _ = loop.run(path, final=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * 24_000_000, "a few copies of one line, never of the file"
    tally = Tally()
    (drafts,) = loop.journal.drafts().values()
    tally.add(drafts)
    assert (tally.turns, tally.tool_results, report.quarantined) == (1, 1, [])
    (result,) = [e for e in map(event_of, drafts) if type(e).__name__ == "ToolResult"]
    assert (result.parts[0].flag, result.parts[0].byte_length) == ("cut", 24_000_000)
    assert max(len(draft.payload) for draft in drafts) <= PAYLOAD_SIZE_BYTES_MAX


def test_a_line_over_the_bound_is_set_aside_and_the_rest_is_read(tmp_path):
    path = tmp_path / "x.jsonl"
    with path.open("wb") as stream:
        stream.write(b'{"first":1}\n{"a":"')
        for _ in range(LINE_SIZE_BYTES_MAX // 1_000_000 + 1):
            stream.write(b"x" * 1_000_000)
        stream.write(b'"}\n{"last":1}\n')
    values, bad = records_of(path)
    assert values == [{"first": 1}, {"last": 1}]
    assert [b.reason for b in bad] == ["line_too_long"]
    assert path.stat().st_size == 12 + bad[0].size_bytes + 11


def test_a_first_line_longer_than_the_head_does_not_hide_a_transcript(tmp_path):
    f = ClaudeFile("s")
    f.say([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 200_000}}])
    f.answer("m", "A picture.")
    report, _ = Loop().run(f.write(tmp_path), final=True)
    assert (report.turns, report.unrecognised) == (1, [])


def test_an_event_over_the_journal_s_bound_is_cut_and_says_so():
    payload = msgspec.json.encode({"type": "message", "blocks": [{"type": "text", "text": "é" * 400_000}] * 8})
    assert len(payload) > PAYLOAD_SIZE_BYTES_MAX
    cut = shrink(payload)
    assert len(cut) <= PAYLOAD_SIZE_BYTES_MAX
    assert "[cut: 800000 bytes]" in msgspec.json.decode(cut)["blocks"][0]["text"]


def test_a_cut_never_halves_a_character():
    assert bounded("a" + "é" * 100, 100) == "a" + "é" * 49


def test_what_is_bad_is_told_once_and_again_when_it_changed(tmp_path):
    path = tmp_path / "s.jsonl"
    f = ClaudeFile("s")
    f.say("Go.")
    path.write_bytes(f.bytes() + b"broken\n")
    loop = Loop()
    assert len(loop.run(path)[0].quarantined) == 1
    path.write_bytes(path.read_bytes() + b'{"type":"mode"}\n')
    loop.run(path)
    (incarnation,) = loop.journal.partitions["imports"]
    assert len(incarnation) == 1, "the same piece at the same place is told once"
    path.write_bytes(f.bytes() + b"broken again\n")
    loop.run(path)
    assert [event_of(d).reason for d in loop.journal.partitions["imports"][0]] == ["not_json"] * 2
    loop.lose_cursors()
    assert loop.run(path)[1] == 0


def test_the_quarantine_never_holds_content(tmp_path):
    path = tmp_path / "s.jsonl"
    f = ClaudeFile("s")
    f.say("Go.")
    path.write_bytes(f.bytes() + b"very secret words\n")
    loop = Loop()
    loop.run(path)
    (draft,) = loop.journal.partitions["imports"][0]
    assert b"secret" not in draft.payload


def test_elements_are_found_outside_of_strings():
    document = b'[{"a":"}]{\\"","b":[{}]} , {"c":1}]'
    assert [data for _at, data in elements(io.BytesIO(document))] == [b'{"a":"}]{\\"","b":[{}]}', b'{"c":1}']
    assert [at for at, _data in elements(io.BytesIO(document))] == [1, 26]
    with pytest.raises(ElementError, match="cut_short"):
        list(elements(io.BytesIO(document[:-5])))


def test_every_fixture_file_is_imported_or_named():
    folder = shared_path("fixtures")
    loop = Loop()
    report, _ = loop.run(folder, final=True)
    known = {path for path in map(str, folder.rglob("*")) if path.endswith((".jsonl", ".json", ".db", ".txt"))}
    assert report.files == len(known)
    assert report.files_read + len(report.unrecognised) == len(known)
    assert report.files_read >= 108
    assert not [bad for _path, bad in report.quarantined if bad.reason.startswith("reader_failed")]
    assert loop.run(folder, final=True)[1] == 0


@pytest.mark.parametrize("depth", [50, 200, 600, 900, 960, 990])
def test_arguments_nested_as_deep_as_a_parser_goes_are_never_fatal(depth, tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m1", tool("t", deep="DEEP"), stop="tool_use")
    f.result("t")
    f.answer("m2", "Done.")
    path = tmp_path / "s.jsonl"
    nest = b"[" * depth + b'"kim@example.org"' + b"]" * depth
    path.write_bytes(f.bytes().replace(b'"DEEP"', nest))
    report, _ = Loop().run(path, final=True)
    assert not [bad for _path, bad in report.quarantined if bad.reason.startswith("reader_failed")]
    assert report.turns == 1


def test_a_followed_file_with_a_line_over_the_bound_is_read_on_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("sources.growing.LINE_SIZE_BYTES_MAX", 20)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":"' + b"x" * 50 + b'"}\n{"c":3}\n')
    bad: list = []
    growing = Growing(path)
    records = growing.records(object_decoder(dict), set_aside=bad.append)
    assert [next(records), next(records), next(records)] == [(0, {"a": 1}), (67, {"c": 3}), None]
    assert [(one.offset, one.reason) for one in bad] == [(8, "line_too_long")]
    assert not growing.is_continued()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"resourceSpans": [], "gen_ai.": ' + b" " * 200 + b"1}", "document_too_long"),
        (gzip.compress(b'{"resourceSpans": "gen_ai."' + b" " * 10_000 + b"}"), "document_too_long"),
        (gzip.compress(b'{"resourceSpans": "gen_ai."}')[:-9], "broken_archive"),
    ],
    ids=["plain", "packed", "cut"],
)
def test_a_document_is_read_up_to_a_bound_however_it_is_packed(content, reason, tmp_path, monkeypatch):
    monkeypatch.setattr("sources.lines.DOCUMENT_SIZE_BYTES_MAX", 100)
    path = tmp_path / "spans.json"
    path.write_bytes(content)
    with pytest.raises(BadLineError) as refused:
        whole_document(path)
    assert refused.value.reason == reason


def test_an_event_of_too_many_texts_is_cut_to_fit():
    blocks = [{"type": "text", "text": "x" * 2000} for _ in range(2500)]
    payload = msgspec.json.encode({"type": "message", "blocks": blocks, "message_ids": ["m"] * 3000})
    assert len(payload) > PAYLOAD_SIZE_BYTES_MAX
    value = msgspec.json.decode(shrink(payload))
    assert len(shrink(payload)) <= PAYLOAD_SIZE_BYTES_MAX
    assert value["blocks"][0]["text"].endswith("[cut: 2000 bytes]")


@pytest.mark.parametrize("content", [b"PK\x03\x04 torn", b"PK\x05\x06" + b"\x00" * 18])
def test_an_archive_that_is_torn_or_holds_no_conversations_is_named(content, tmp_path):
    path = tmp_path / "export.zip"
    path.write_bytes(content)
    report, new = Loop().run(path, final=True)
    assert (report.unrecognised, new) == ([str(path)], 0)
