"""However a file grew, was shortened or rewritten: in the end the journal says what one whole import would have said."""

import json

import pytest

from sources import Cursors, Following
from tests.sources.histories import ClaudeFile, CodexFile, tool
from tests.sources.loop import Loop
from tests.sources.test_goldens import SAMPLES, laid_out


def claude() -> bytes:
    f = ClaudeFile("s1")
    f.raw(type="custom-title", customTitle="Trams", sessionId="s1")
    f.say("First, please.")
    f.answer("m1", {"type": "thinking", "thinking": "hm"}, stop=None, tokens=(10, 1, 0, 0))
    f.answer("m1", "Ok \u2028 é.", tool("t1", command="ls"), stop="tool_use", tokens=(10, 7, 0, 0))
    f.result("t1", "a\nb")
    f.answer("m2", "Done.")
    f.system("turn_duration", durationMs=5)
    f.say("<command-name>/model</command-name>")
    f.say("Second.")
    f.answer("m3", tool("t2", command="rm x"), stop="tool_use")
    f.say([{"type": "text", "text": "[Request interrupted by user]"}])
    f.raw(type="ai-title", aiTitle="Tram talk", sessionId="s1")
    f.say("Third.")
    f.say("Fourth.")
    f.answer("m4", "Bye.")
    return f.bytes()


def codex() -> bytes:
    f = CodexFile("0197a000-0000-7000-8000-000000000001")
    f.start("turn-1")
    f.say("First.")
    f.item("function_call", name="shell", arguments='{"command":["ls"]}', call_id="c1")
    f.tokens(100, 10, 5, 1)
    f.item("function_call_output", call_id="c1", output="Exit code: 1\nWall time: 0.1 seconds\nOutput:\nno")
    f.answer("Done.")
    f.tokens(120, 20, 6, 0)
    f.event("task_complete", turn_id="turn-1")
    f.start("turn-2")
    f.say("Second.")
    f.event("turn_aborted", turn_id="turn-2", reason="interrupted")
    f.start("turn-3")
    f.say("Third.")
    return f.bytes()


def old_codex() -> bytes:
    f = CodexFile("0197a000-0000-7000-8000-000000000002")
    for number in range(3):
        f.say(f"Prompt {number}.")
        f.answer(f"Answer {number}.")
        f.tokens(100, 10, 5, 1)
    return f.bytes()


HISTORIES = {"claude": claude, "codex": codex, "old_codex": old_codex}


def whole(content: bytes, tmp_path, name: str) -> dict:
    path = tmp_path / f"{name}.jsonl"
    path.write_bytes(content)
    loop = Loop()
    loop.run(path, final=True)
    return loop.journal.current()


def check_cuts(content: bytes, tmp_path, name: str, cuts, *, final_before: bool = False) -> None:
    path = tmp_path / f"{name}.jsonl"
    wanted = whole(content, tmp_path, name)
    for cut in cuts:
        loop = Loop()
        path.write_bytes(content[:cut])
        loop.run(path, final=final_before, now_us=0)
        path.write_bytes(content)
        loop.run(path, final=True)
        assert loop.journal.current() == wanted, (name, cut)
        assert loop.run(path, final=True)[1] == 0


def test_a_file_cut_anywhere_and_then_whole_is_the_whole_file(tmp_path):
    for name, make in HISTORIES.items():
        content = make()
        borders = {i + d for i, byte in enumerate(content) if byte == 10 for d in (-1, 0, 1, 2)}
        check_cuts(content, tmp_path, name, sorted(borders | set(range(0, len(content), 97))))


@pytest.mark.soak
def test_a_file_cut_at_truly_every_byte_and_then_whole_is_the_whole_file(tmp_path):
    for name, make in HISTORIES.items():
        content = make()
        check_cuts(content, tmp_path, name, range(len(content)))


def check_sample_cuts(sample: str, tmp_path, cuts_of) -> None:
    """Each file of a provider's sample is cut, imported as a watcher does, and then whole again."""
    folder = laid_out(sample, tmp_path)
    wanted = Loop()
    wanted.run(folder, final=True)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for cut in cuts_of(path, content):
            loop = Loop(following=Following())
            path.write_bytes(content[:cut])
            loop.run(folder, now_us=0)
            path.write_bytes(content)
            loop.run(folder, now_us=0)
            loop.run(folder, final=True)
            assert loop.journal.current() == wanted.journal.current(), (sample, path.name, cut)


def some_cuts(path, content: bytes) -> list[int]:
    """Around the ends of records, and now and then between."""
    is_lines = path.suffix in {".jsonl", ".ndjson", ".txt"}
    borders = {i + d for i, byte in enumerate(content) if byte == 10 and is_lines for d in (-1, 0, 1)}
    spread = {*range(0, len(content), len(content) // 12 + 1), len(content) - 4, len(content) - 1}
    return sorted(cut for cut in borders | spread if 0 <= cut < len(content))


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_cut_anywhere_and_then_whole_is_the_whole_sample(sample, tmp_path):
    check_sample_cuts(sample, tmp_path, some_cuts)


@pytest.mark.soak
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_cut_at_truly_every_byte_and_then_whole_is_the_whole_sample(sample, tmp_path):
    check_sample_cuts(sample, tmp_path, lambda _path, content: range(min(len(content), 20_000)))


def test_an_end_that_was_told_too_early_is_told_again(tmp_path):
    for name, make in HISTORIES.items():
        content = make()
        borders = [i + 1 for i, byte in enumerate(content) if byte == 10]
        check_cuts(content, tmp_path, name, borders, final_before=True)


def test_growing_line_by_line_makes_no_new_incarnation(tmp_path):
    for name in ("claude", "codex"):
        content = HISTORIES[name]()
        path = tmp_path / f"{name}.jsonl"
        loop = Loop()
        for end in [i + 1 for i, byte in enumerate(content) if byte == 10]:
            path.write_bytes(content[:end])
            loop.run(path, now_us=0)
        loop.run(path, final=True)
        (incarnations,) = loop.journal.partitions.values()
        assert len(incarnations) == 1, name
        assert loop.journal.current() == whole(content, tmp_path, name)


def test_an_import_that_ended_before_its_cursors_were_kept_is_gone_on_with(tmp_path):
    lines = claude().splitlines(keepends=True)
    path = tmp_path / "claude.jsonl"
    for count in range(1, len(lines)):
        loop = Loop(Cursors.open(tmp_path / f"{count}.sqlite"))
        path.write_bytes(b"".join(lines[: count // 2]))
        loop.run(path, now_us=0)
        loop.cursors.commit = lambda: None
        path.write_bytes(b"".join(lines[:count]))
        loop.run(path, now_us=0)
        loop.cursors.close()
        loop.cursors = Cursors.open(tmp_path / f"{count}.sqlite")
        path.write_bytes(b"".join(lines))
        loop.run(path, final=True)
        loop.cursors.close()
        assert loop.journal.current() == whole(b"".join(lines), tmp_path, "claude"), count
        assert all(len(incarnations) == 1 for incarnations in loop.journal.partitions.values())


def test_appends_are_as_full_as_they_can_be(tmp_path):
    f = ClaudeFile("s1")
    for number in range(100):
        f.say(f"{number}?")
        f.answer(f"m{number}", f"{number}.")
    path = tmp_path / "claude.jsonl"
    path.write_bytes(f.bytes())
    loop = Loop()
    loop.run(path, final=True)
    assert set(loop.journal.sizes[:-1]) == {64}


def test_a_shortened_file_begins_a_new_incarnation_and_then_grows_in_it(tmp_path):
    for name, make in HISTORIES.items():
        content = make()
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(content)
        loop = Loop()
        loop.run(path, final=True)
        half = content[: content.index(b"\n", len(content) // 2) + 1]
        path.write_bytes(half)
        loop.run(path, final=True)
        assert loop.journal.current() == whole(half, tmp_path, name), name
        path.write_bytes(content)
        loop.run(path, final=True)
        assert loop.journal.current() == whole(content, tmp_path, name), name


def test_a_rewritten_line_begins_a_new_incarnation(tmp_path):
    content = claude()
    path = tmp_path / "claude.jsonl"
    path.write_bytes(content)
    loop = Loop()
    loop.run(path, final=True)
    changed = content.replace(b"First, please.", b"First, if you please.")
    path.write_bytes(changed)
    report, new = loop.run(path, final=True)
    assert report.incarnations_new == 1
    assert new
    assert loop.journal.current() == whole(changed, tmp_path, "claude")
    path.write_bytes(content)
    loop.run(path, final=True)
    assert loop.journal.current() == whole(content, tmp_path, "claude"), "back to the first text: a third incarnation"
    assert len(next(iter(loop.journal.partitions.values()))) == 3


def test_lost_cursors_append_nothing_whatever_the_incarnation(tmp_path):
    content = claude()
    path = tmp_path / "claude.jsonl"
    loop = Loop()
    for text in (content, content.replace(b"First", b"Erst"), content):
        path.write_bytes(text)
        loop.run(path, final=True)
    loop.lose_cursors()
    report, new = loop.run(path, final=True)
    assert (report.files_read, new) == (1, 0)


def test_lost_cursors_and_a_rewritten_file_begin_a_new_incarnation(tmp_path):
    content = claude()
    path = tmp_path / "claude.jsonl"
    path.write_bytes(content)
    loop = Loop()
    loop.run(path, final=True)
    loop.lose_cursors()
    changed = content.replace(b"Second.", b"Later.")
    path.write_bytes(changed)
    loop.run(path, final=True)
    assert loop.journal.current() == whole(changed, tmp_path, "claude")


def test_what_was_erased_does_not_come_back(tmp_path):
    path = tmp_path / "claude.jsonl"
    path.write_bytes(claude())
    loop = Loop()
    loop.run(path, final=True)
    kept = loop.journal.events
    loop.journal.events = lambda partition: [(kind, None) for kind, _payload in kept(partition)]
    loop.lose_cursors()
    assert loop.run(path, final=True)[1] == 0


def test_an_unchanged_file_is_not_opened_again(tmp_path):
    path = tmp_path / "claude.jsonl"
    path.write_bytes(claude())
    loop = Loop()
    assert loop.run(path)[0].files_read == 1
    assert loop.run(path)[0].files_read == 0


def test_a_turn_that_ends_in_silence_is_told_when_the_file_was_still_for_five_minutes(tmp_path):
    path = tmp_path / "rollout-x.jsonl"
    path.write_bytes(old_codex())
    written_us = path.stat().st_mtime_ns // 1000
    loop = Loop()
    report, _ = loop.run(path, now_us=written_us + 1_000_000)
    assert (report.turns, report.unfinished) == (2, 0)
    report, new = loop.run(path, now_us=written_us + 299_000_000)
    assert (report.files_read, new) == (0, 0)
    report, new = loop.run(path, now_us=written_us + 301_000_000)
    assert (report.turns, new) == (1, 1)


def test_the_cut_line_is_reported_and_is_no_fault(tmp_path):
    content = claude()
    path = tmp_path / "claude.jsonl"
    path.write_bytes(content + b'{"type":"user","uu')
    report, _ = Loop().run(path)
    assert [bad.offset for _path, bad in report.incomplete] == [len(content)]
    assert not report.quarantined
    assert json.loads(content.splitlines()[-1])["message"]["id"] == "m4"
