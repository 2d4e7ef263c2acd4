"""Which files are read, by whom, what a report says, and how copies settle whatever came first."""

import itertools
import random
import zipfile

import pytest

from facts.events import SessionLink, Usage
from polyc.appending import Draft
from polyc.errors import UnavailableError
from sources import Cursors, Importer, PlannedConversation, default_paths
from sources.conversation import Identity, Segment
from sources.copies import Share
from sources.cursors import Progress
from sources.discover import files
from sources.providers import PROVIDERS
from sources.stillness import Stillness
from sources.surveying import FoundFile
from tests.sources.counting import Tally, event_of
from tests.sources.histories import ClaudeFile, CodexFile
from tests.sources.loop import Loop
from tests.sources.test_goldens import laid_out
from tests.support.shared import shared_path


def transcript(name="s") -> ClaudeFile:
    f = ClaudeFile(name)
    f.say("Go.")
    f.answer("m", "Done.")
    return f


def test_the_standard_places_are_those_that_exist(tmp_path):
    home = tmp_path / "home"
    places = [
        home / ".claude" / "projects",
        home / ".codex" / "sessions",
        home / ".gemini" / "tmp",
        home / ".copilot" / "session-state",
        home / ".cursor" / "projects",
        home / ".local" / "share" / "goose" / "sessions",
    ]
    assert default_paths(home, {}) == []
    for place in places:
        place.mkdir(parents=True)
    assert set(default_paths(home, {})) == set(places)


def test_the_environment_moves_the_standard_places(tmp_path):
    for name in ("claude/projects", "codex/sessions"):
        (tmp_path / name).mkdir(parents=True)
    environment = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "CODEX_HOME": str(tmp_path / "codex")}
    assert set(default_paths(tmp_path, environment)) == {tmp_path / "claude/projects", tmp_path / "codex/sessions"}


def test_a_file_named_twice_is_found_once(tmp_path):
    path = transcript().write(tmp_path)
    assert list(files([tmp_path, path, tmp_path])) == [path]


def test_a_file_of_nobody_is_named_once_and_not_opened_again(tmp_path):
    (tmp_path / "notes.json").write_text('{"a":1}')
    loop = Loop()
    assert loop.run(tmp_path)[0].unrecognised == [str(tmp_path / "notes.json")]
    assert loop.run(tmp_path)[0].unrecognised == []


def test_a_file_that_becomes_a_history_is_read_then(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text("")
    loop = Loop()
    assert loop.run(tmp_path)[0].files_read == 0
    path.write_bytes(transcript().bytes())
    assert loop.run(tmp_path)[0].conversations_new == 1


@pytest.mark.parametrize("damage", [b"not a database", b"", None])
def test_damaged_cursors_are_made_anew_and_nothing_is_appended_twice(damage, tmp_path):
    path = tmp_path / "cursors.sqlite"
    folder = tmp_path / "files"
    transcript().write(folder)
    loop = Loop(Cursors.open(path))
    loop.run(folder)
    loop.cursors.close()
    if damage is not None:
        path.write_bytes(damage)
    loop.cursors = Cursors.open(path)
    assert loop.run(folder)[1] == 0
    loop.cursors.close()


def test_cursors_that_were_not_committed_repeat_the_same_appends(tmp_path):
    path = tmp_path / "cursors.sqlite"
    folder = tmp_path / "files"
    transcript().write(folder)
    loop = Loop(Cursors.open(path))
    importer_cursors = loop.cursors
    importer_cursors.commit = lambda: None
    loop.run(folder)
    loop.cursors.close()
    loop.cursors = Cursors.open(path)
    assert loop.run(folder)[1] == 0, "every append id was seen before"
    loop.cursors.close()


def test_one_import_at_a_time_holds_the_cursors_and_only_while_it_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("sources.cursors.BUSY_MS", 20)
    path = tmp_path / "cursors.sqlite"
    one, two = Cursors.open(path), Cursors.open(path)
    Importer(one).survey([tmp_path], now_us=0)
    with pytest.raises(UnavailableError, match="another import"):
        Importer(two).survey([tmp_path], now_us=0)
    one.commit()
    Importer(two).survey([tmp_path], now_us=0)
    two.forget()
    Importer(one).survey([tmp_path], now_us=0)
    one.close()
    two.close()


def test_an_export_in_a_zip_is_the_export(tmp_path):
    plain = laid_out("chatgpt", tmp_path) / "conversations.json"
    packed = tmp_path / "export.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(plain, "conversations.json")
        archive.writestr("user.json", "{}")
    one, two = Loop(), Loop()
    one.run(plain)
    two.run(packed)
    assert {k: v[1:] for k, v in one.journal.current().items()} == {k: v[1:] for k, v in two.journal.current().items()}


def test_a_conversation_that_stands_twice_in_an_export_is_one(tmp_path):
    loop = Loop()
    report, _ = loop.run(shared_path("cases", "history", "chatgpt", "conversations.json"), final=True)
    assert report.conversations == 4
    assert report.unknown == {"orphan": 1}
    assert loop.run(shared_path("cases", "history", "chatgpt"), final=True)[1] == 0


def test_the_live_path_of_a_tree_is_told_and_its_branches_are_marked():
    loop = Loop()
    loop.run(shared_path("cases", "history", "chatgpt", "conversations.json"), final=True)
    for drafts in loop.journal.drafts().values():
        events = [event_of(draft) for draft in drafts]
        if events[0].provider_session_id == "conv-cg-1":
            messages = {e.message_id: e.superseded for e in events if type(e).__name__ == "Message"}
    assert [name for name, gone in messages.items() if not gone] == ["u1", "a1b", "u2", "tool1", "sysmid", "a2"]
    assert [name for name, gone in messages.items() if gone] == ["a1", "u2old", "lost"]


def test_a_gemini_log_is_told_in_its_last_form_and_rewound_tokens_were_spent():
    loop = Loop()
    loop.run(shared_path("cases", "history", "gemini"), final=True)
    (drafts,) = loop.journal.drafts().values()
    events = [event_of(draft) for draft in drafts]
    gone = {name for e in events if type(e).__name__ == "Superseded" for name in e.message_ids}
    messages = [e.message_id for e in events if type(e).__name__ == "Message"]
    assert gone == {"g4", "g5"}
    assert [name for name in messages if name not in gone] == ["g1", "g2", "g3", "g6", "g7"]
    used = [e for e in events if isinstance(e, Usage)]
    assert sum(u.input_tokens + u.output_tokens + (u.reasoning_tokens or 0) for u in used) == 3175


def claude_family() -> list[ClaudeFile]:
    """A session, one resumed from it, one resumed from that, and one forked early from the first."""
    a = ClaudeFile("aaaaaaaa-0000-4000-8000-00000000000d")
    for number in range(3):
        a.say(f"a{number}")
        a.answer(f"ma{number}", "Done.")
    b = resumed(a, "bbbbbbbb-0000-4000-8000-00000000000c", len(a.lines), 1000)
    c = resumed(b, "cccccccc-0000-4000-8000-00000000000b", len(b.lines), 2000)
    d = resumed(a, "dddddddd-0000-4000-8000-00000000000a", 3, 3000)
    return [a, b, c, d]


def resumed(parent: ClaudeFile, session: str, count: int, seconds: float) -> ClaudeFile:
    child = ClaudeFile(session)
    child.lines = [{**line, "sessionId": session} for line in parent.lines[:count]]
    child.last, child.seconds = child.lines[-1]["uuid"], seconds
    child.say(f"in {session[0]}")
    child.answer(f"m-{session[0]}", "Done.")
    return child


def test_whatever_order_copies_come_in_the_state_is_the_same(tmp_path):
    family = claude_family()
    states = set()
    for order in itertools.permutations(range(4)):
        loop = Loop()
        folder = tmp_path / "-".join(map(str, order))
        for place in order:
            family[place].write(folder)
            loop.run(folder, final=True)
        tally = Tally()
        for drafts in loop.journal.drafts().values():
            tally.add(drafts)
        assert (tally.turns, tally.prompts, tally.model_calls) == (6, 6, 6)
        states.add(str(sorted(loop.journal.current().items())).replace(str(folder), ""))
    assert len(states) == 1


def test_a_resumed_session_is_linked_to_the_one_it_copied(tmp_path):
    a, b, _c, d = claude_family()
    loop = Loop()
    for file in (a, b, d):
        file.write(tmp_path)
    loop.run(tmp_path, final=True)
    links = {
        event_of(drafts[0]).provider_session_id[0]: event_of(drafts[1]).kind
        for drafts in loop.journal.drafts().values()
        if isinstance(event_of(drafts[1]), SessionLink)
    }
    assert links == {"b": "resume", "d": "fork"}


def test_copies_that_grow_between_imports_settle_as_if_they_had_come_at_once(tmp_path):
    chance = random.Random(3)
    family = claude_family()
    for attempt in range(10):
        loop = Loop()
        folder = tmp_path / str(attempt)
        lengths = [0] * 4
        while any(length < len(file.lines) for length, file in zip(lengths, family, strict=True)):
            place = chance.randrange(4)
            lengths[place] = min(lengths[place] + chance.randrange(1, 6), len(family[place].lines))
            whole = family[place]
            part = ClaudeFile(whole.session)
            part.lines = whole.lines[: lengths[place]]
            part.write(folder)
            loop.run(folder)
        loop.run(folder, final=True)
        at_once = Loop()
        at_once.run(folder, final=True)
        assert loop.journal.current() == at_once.journal.current()


def test_a_report_says_what_became_of_everything(tmp_path):
    f = transcript()
    f.raw(type="future-thing")
    f.raw(type="mode", mode="x")
    f.lines.append(f.lines[0])
    f.say("Open.")
    path = f.write(tmp_path)
    path.write_bytes(path.read_bytes() + b"broken\n" + b'{"torn')
    CodexFile("0197c000-0000-7000-8000-000000000001").write(tmp_path)
    (tmp_path / "other.json").write_text("{}")
    report, _ = Loop().run(tmp_path, final=True)
    assert (report.files, report.files_read, report.conversations) == (3, 2, 2)
    assert (report.turns, report.unfinished, report.repeats) == (1, 1, 1)
    assert (report.unknown, report.skipped) == ({"future-thing": 1}, {"mode": 1})
    assert report.quarantined_by_reason == {"not_json": 1}
    assert len(report.incomplete) == 1
    assert report.unrecognised == [str(tmp_path / "other.json")]


def test_provider_names_are_their_own():
    assert len({provider.name for provider in PROVIDERS}) == len(PROVIDERS)


def totals(loop: Loop) -> Tally:
    tally = Tally()
    for drafts in loop.journal.drafts().values():
        tally.add(drafts)
    return tally


@pytest.mark.parametrize("deleted_first", [True, False])
def test_a_deleted_session_keeps_what_was_copied_from_it(deleted_first, tmp_path):
    a, b, *_ = claude_family()
    loop = Loop()
    path = a.write(tmp_path)
    loop.run(tmp_path, final=True)
    if deleted_first:
        path.unlink()
    else:
        b.write(tmp_path)
        loop.run(tmp_path, final=True)
        path.unlink()
        b.say("And on.")
        b.answer("m-b2", "Done.")
    b.write(tmp_path)
    report, _ = loop.run(tmp_path, final=True)
    assert report.incarnations_new == 0
    tally = totals(loop)
    turns = 4 if deleted_first else 5
    assert (tally.turns, tally.model_calls) == (turns, turns)


def test_a_moved_session_is_the_same_conversation(tmp_path):
    a, *_ = claude_family()
    loop = Loop()
    path = a.write(tmp_path / "live")
    loop.run(tmp_path, final=True)
    (tmp_path / "archive").mkdir()
    path.rename(tmp_path / "archive" / path.name)
    loop.run(tmp_path, final=True)
    assert len(loop.journal.partitions) == 1
    assert totals(loop).turns == 3


class FailingTelling:
    """Tells one segment and then meets a fault of ours."""

    identity = Identity("claude-code", "s")

    def segments(self, context):
        yield Segment(
            (Draft(1, b'{"type":"conversation_opened","id":"x","origin":"o","conversation_id":"c"}'),), "none"
        )
        raise TypeError("a fault of ours")


def test_a_reader_that_fails_replaces_nothing():
    importer = Importer(Cursors.open(None))
    found = FoundFile("s.jsonl", "claude-code", "", 0, Stillness.FINAL)
    bad = []
    known = Progress("s.jsonl", 0, 100, b"digest of what was told when the reader was well")
    planned = PlannedConversation(
        FailingTelling(), found, share=Share(), known=known, erased=False, report=importer.report, set_aside=bad.append
    )
    assert list(planned.batches()) == []
    assert [one.reason for one in bad] == ["reader_failed:TypeError"]
    assert planned.progress == known


def test_a_reader_that_fails_the_first_time_keeps_what_it_told():
    importer = Importer(Cursors.open(None))
    found = FoundFile("s.jsonl", "claude-code", "", 0, Stillness.FINAL)
    planned = PlannedConversation(
        FailingTelling(), found, share=Share(), known=None, erased=False, report=importer.report, set_aside=[].append
    )
    assert [len(batch.drafts) for batch in planned.batches()] == [1]
    assert planned.progress.count == 1


def test_a_native_file_of_several_conversations_tells_each(tmp_path):
    path = tmp_path / "all.ndjson"
    lines = (laid_out("native", tmp_path) / "lighthouse.ndjson").read_text()
    path.write_text(lines + lines.replace("lighthouse-7", "lighthouse-8") + lines.replace("Light the lamp.", "Again."))
    loop = Loop()
    report, _ = loop.run(path, final=True)
    assert report.conversations == 2
    assert report.quarantined_by_reason == {"not_for_importers": 2}
    told = [b"Again." in b"".join(d.payload for d in drafts) for drafts in loop.journal.drafts().values()]
    assert sorted(told) == [False, True], "one that stands twice counts as it stands last"
    assert loop.run(path, final=True)[1] == 0
