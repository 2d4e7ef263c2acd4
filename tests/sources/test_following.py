"""A file that is being written is read on where it stood, and whatever happens to it, the outcome is the whole file's."""

import random

import pytest

from sources import Following
from sources.growing import Growing
from sources.lines import object_decoder
from tests.sources.histories import ClaudeFile, tool
from tests.sources.loop import Loop
from tests.sources.test_every_cut import HISTORIES, whole

FOLLOWED = ("claude", "codex")  # the others are read as a whole each time, with the same outcome


def lines_of(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True)


def as_it_stands(path) -> dict:
    loop = Loop()
    loop.run(path, now_us=0)
    return loop.journal.current()


@pytest.mark.parametrize("name", FOLLOWED)
def test_only_what_was_appended_is_read(name, tmp_path):
    lines = lines_of(HISTORIES[name]())
    path = tmp_path / f"{name}.jsonl"
    loop = Loop(following=Following())
    read = []
    for count in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        report, _new = loop.run(path, now_us=0)
        read.append(report.records)
        assert loop.journal.current() == as_it_stands(path), count
    begun = next(i for i, records in enumerate(read) if records)
    assert set(read[begun + 2 :]) == {1}, "after the lines by which a session is known"
    not_following = Loop()
    not_following.run(path, now_us=0)
    path.write_bytes(b"".join(lines) + lines[-1].replace(b'"u', b'"v'))
    assert not_following.run(path, now_us=0)[0].records > len(lines) - 2, "a look without memory reads all of it"


@pytest.mark.parametrize("name", HISTORIES)
def test_a_file_cut_anywhere_and_followed_is_the_whole_file(name, tmp_path):
    content = HISTORIES[name]()
    path = tmp_path / f"{name}.jsonl"
    wanted = whole(content, tmp_path, name)
    borders = {i + d for i, byte in enumerate(content) if byte == 10 for d in (-1, 0, 1, 2)}
    for cut in sorted(borders | set(range(0, len(content), 211))):
        loop = Loop(following=Following())
        path.write_bytes(content[:cut])
        loop.run(path, now_us=0)
        path.write_bytes(content)
        loop.run(path, now_us=0)
        loop.run(path, final=True)
        assert loop.journal.current() == wanted, cut


@pytest.mark.parametrize("name", HISTORIES)
def test_whatever_becomes_of_a_followed_file_it_is_told_as_if_it_were_read_whole_each_time(name, tmp_path):
    content = HISTORIES[name]()
    chance = random.Random(name)
    path = tmp_path / f"{name}.jsonl"
    for _ in range(12):
        followed, each_time = Loop(following=Following()), Loop()
        now = b""
        for _ in range(8):
            now = changed(now, content, chance)
            path.write_bytes(now)
            followed.run(path, now_us=0)
            each_time.run(path, now_us=0)
            assert followed.journal.current() == each_time.journal.current()
        path.write_bytes(content)
        followed.run(path, now_us=0)
        followed.run(path, final=True)
        (wanted,) = whole(content, tmp_path, name).items()
        assert wanted in followed.journal.current().items()


def changed(told: bytes, content: bytes, chance: random.Random) -> bytes:
    """Mostly grown, sometimes cut, rewritten in the middle, replaced, or with another end."""
    longer = content[: min(len(told) + chance.randrange(1, 900), len(content))]
    match chance.randrange(8):
        case 0:
            return content[: chance.randrange(len(content))]
        case 1 if told:
            place = chance.randrange(len(told))
            return told[:place] + b"x" + longer[place + 1 :]
        case 2:
            return longer + b'{"type":"user","torn'
        case 3:
            return longer.replace(b"First", b"Erst")
        case _:
            return longer


def test_a_line_that_was_read_without_its_end_is_not_read_twice_and_not_trusted(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":2}')
    bad: list = []
    growing = Growing(path)
    records = growing.records(object_decoder(dict), set_aside=bad.append)
    assert [next(records), next(records), next(records)] == [(0, {"a": 1}), (8, {"b": 2}), None]
    path.write_bytes(b'{"a":1}\n{"b":2}\n{"c":3}\n')
    assert growing.is_continued()
    assert [next(records), next(records)] == [(16, {"c": 3}), None]
    path.write_bytes(b'{"a":1}\n{"b":2}\n{"c":3}\n{"d":4}')
    assert [next(records), next(records)] == [(24, {"d": 4}), None]
    path.write_bytes(b'{"a":1}\n{"b":2}\n{"c":3}\n{"d":4}{"e":5}\n')
    assert not growing.is_continued(), "the whole line is no record"
    path.unlink()
    assert not growing.is_continued()
    assert not bad


@pytest.mark.parametrize("place", [0, 3, 9, 15])
def test_a_byte_that_changed_before_the_end_is_seen(place, tmp_path):
    path = tmp_path / "x.jsonl"
    content = b'{"a":1}\n{"b":2}\n'
    path.write_bytes(content)
    growing = Growing(path)
    list(zip(range(3), growing.records(object_decoder(dict), set_aside=[].append), strict=False))
    assert growing.is_continued()
    path.write_bytes(content[:place] + b"\x00" + content[place + 1 :] + b'{"c":3}\n')
    assert not growing.is_continued()


def test_a_copy_of_a_followed_file_ends_the_following_and_counts_once(tmp_path):
    first = ClaudeFile("aaaaaaaa-0000-4000-8000-00000000000d")
    first.say("Go.")
    first.answer("m1", "Done.")
    loop = Loop(following=Following())
    path = first.write(tmp_path)
    loop.run(tmp_path, now_us=0)
    second = ClaudeFile("bbbbbbbb-0000-4000-8000-00000000000c")
    second.lines = [{**line, "sessionId": second.session} for line in first.lines]
    second.last, second.seconds = first.last, 100
    second.say("More.")
    second.answer("m2", "Done too.")
    second.write(tmp_path)
    first.say("Also here.")
    first.answer("m3", "Yes.")
    first.write(tmp_path)
    loop.run(path, now_us=0)
    loop.run(tmp_path, now_us=0)
    at_once = Loop()
    at_once.run(tmp_path, now_us=0)
    assert loop.journal.current() == at_once.journal.current()


def test_a_sidechain_that_appears_in_a_followed_session_is_a_conversation_of_its_own(tmp_path):
    f = ClaudeFile("aaaaaaaa-0000-4000-8000-00000000000d")
    f.say("Go.")
    f.answer("m1", tool("t1", prompt="Look."), stop="tool_use")
    loop = Loop(following=Following())
    f.write(tmp_path)
    loop.run(tmp_path, now_us=0)
    f._record("user", message={"role": "user", "content": "Look."}, isSidechain=True, parent=None)
    f.lines[-1]["isSidechain"] = True
    f.answer("m2", "Seen.")
    f.lines[-1]["isSidechain"] = True
    f.write(tmp_path)
    loop.run(tmp_path, now_us=0)
    at_once = Loop()
    at_once.run(tmp_path, now_us=0)
    assert len(at_once.journal.partitions) == 2
    assert loop.journal.current() == at_once.journal.current()


def test_the_memory_of_followed_files_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("sources.following.FOLLOWED_MAX", 2)
    loop = Loop(following=Following())
    files = []
    for number in range(3):
        f = ClaudeFile(f"{number}aaaaaaa-0000-4000-8000-00000000000d")
        f.say("Go.")
        f.answer("m1", "Done.")
        f.write(tmp_path)
        files.append(f)
    loop.run(tmp_path, now_us=0)
    read = []
    for f in files:
        f.say("On.")
        read.append(loop.run(f.write(tmp_path), now_us=0)[0].records)
    assert read == [3, 3, 3], "the second was forgotten when the first was read again, and so on"
