"""Claude Code's records: what becomes of each kind."""

import json

import pytest

from facts.events import (
    ContextSnapshot,
    Message,
    SessionLink,
    SessionUpdated,
    Superseded,
    ToolCall,
    ToolResult,
    TurnComplete,
    TurnStart,
    Usage,
)
from tests.sources.counting import Tally, event_of
from tests.sources.histories import ClaudeFile, tool
from tests.sources.loop import Loop
from tests.support.shared import shared_path


def told(*files: ClaudeFile, folder, final: bool = True) -> list:
    """The events of all files' conversations, in order."""
    loop = Loop()
    for file in files:
        file.write(folder)
    loop.run(folder, final=final)
    return [event_of(draft) for drafts in loop.journal.drafts().values() for draft in drafts]


def of(kind, events) -> list:
    return [event for event in events if isinstance(event, kind)]


def ends(events) -> list[tuple]:
    return [(e.status, e.evidence) for e in of(TurnComplete, events)]


def test_the_last_and_largest_usage_of_a_call_counts(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m", "Thinking about it.", stop=None, tokens=(100, 3, 7, 2))
    f.answer("m", "And more.", stop=None, tokens=(100, 631, 7, 2))
    f.answer("m", "Out of order.", tokens=(100, 5, 7, 2))
    events = told(f, folder=tmp_path)
    (usage,) = of(Usage, events)
    assert (usage.output_tokens, usage.input_tokens, usage.cache_read_tokens) == (631, 100, 7)
    assert usage.input_uncached_tokens == 100, "Claude's input excludes the cache"
    assert len([m for m in of(Message, events) if m.role == "assistant"]) == 1


def test_a_cumulative_line_repeats_nothing(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m", "Let me look", stop=None)
    f.answer("m", "Let me look at it.", tool("t1"), stop=None)
    f.answer("m", "Let me look at it.", tool("t1"), stop="tool_use")
    f.result("t1")
    f.answer("m2", "Done.")
    events = told(f, folder=tmp_path)
    assert len(of(ToolCall, events)) == 1
    first = next(m for m in of(Message, events) if m.role == "assistant")
    assert [b.text for b in first.blocks if b.type == "text"] == ["Let me look at it."]


def test_a_turn_ends_as_the_records_say(tmp_path):
    f = ClaudeFile("s")
    f.say("One.")
    f.answer("m1", "Done.")
    f.say("Two.")
    f.answer("m2", tool("t"), stop="tool_use")
    f.say([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    f.say("Three.")
    f.answer("m3", tool("t3"), stop="tool_use")
    f.say("Four, never mind three.")
    f.answer("x", "API Error: 529 overloaded", model="<synthetic>", isApiErrorMessage=True)
    f.say("Five.")
    f.answer("m5", tool("t5"), stop="tool_use")
    events = told(f, folder=tmp_path)
    assert ends(events) == [
        ("completed", "inferred"),
        ("cancelled", "stated"),
        ("cancelled", "next_prompt"),
        ("failed", "stated"),
    ]
    assert len(of(TurnStart, events)) == 5, "the last turn has no end: kept, and in no table"


def test_an_answer_without_a_stop_reason_ends_a_turn_only_where_none_is_ever_stated(tmp_path):
    old = ClaudeFile("old")
    old.say("Hello.")
    old.answer("m1", "Hi.", stop=None)
    new = ClaudeFile("new")
    new.say("Hello.")
    new.answer("m2", "Hi.")
    new.say("More.")
    new.answer("m3", "Partial", stop=None)
    assert ends(told(old, folder=tmp_path / "a")) == [("completed", "final_message")]
    assert ends(told(new, folder=tmp_path / "b")) == [("completed", "inferred")]


def test_output_after_an_end_opens_an_implicit_turn(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m1", "Done.")
    f.answer("m2", "One more thing.")
    events = told(f, folder=tmp_path)
    assert [e.evidence for e in of(TurnStart, events)] == ["inferred", "continuation"]
    assert len(ends(events)) == 2


NOT_A_PROMPT = {
    "<command-name>/model</command-name>": "operator_command",
    "<local-command-stdout>Set</local-command-stdout>": "runtime_protocol",
    "<system-reminder>be brief</system-reminder>": "runtime_context",
    "<bash-input>ls</bash-input>": "operator_command",
    "<task-notification>done</task-notification>": "runtime_protocol",
    "This session is being continued from a previous conversation that ran out of context.": "generated_summary",
}


@pytest.mark.parametrize("text", NOT_A_PROMPT)
def test_what_a_harness_wrote_is_no_human_turn(text, tmp_path):
    f = ClaudeFile("s")
    f.say(text)
    f.say("Real.")
    f.answer("m", "Yes.")
    events = told(f, folder=tmp_path)
    origins = [m.material_origin for m in of(Message, events)]
    assert origins == [NOT_A_PROMPT[text], "human_authored", "assistant_authored"]
    assert len(of(TurnStart, events)) == 1
    assert len({m.turn_id for m in of(Message, events)}) == 1, "context is told in the turn that it was put before"


def test_a_reminder_before_a_prompt_is_told_apart_from_it(tmp_path):
    f = ClaudeFile("s")
    f.say("<ide_opened_file>x.py</ide_opened_file>Fix it.")
    f.answer("m", "Yes.")
    context, prompt, _answer = of(Message, told(f, folder=tmp_path))
    assert (context.material_origin, prompt.blocks[0].text) == ("runtime_context", "Fix it.")


def test_a_synthetic_reply_is_a_notice_and_no_call(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("x", "API Error: 529", model="<synthetic>", stop="stop_sequence")
    f.answer("m", "Here.")
    events = told(f, folder=tmp_path)
    assert [m.role for m in of(Message, events)] == ["user", "system", "assistant"]
    assert ends(events) == [("completed", "inferred")]


def test_a_rewound_branch_is_kept_and_marked(tmp_path):
    f = ClaudeFile("s")
    f.say("One.")
    base = f.answer("m1", "Done one.")
    f.say("Two.")
    f.answer("m2", "Done two.")
    f.say("Two, better.", parent=base)
    f.answer("m3", "Done better.")
    events = told(f, folder=tmp_path)
    (gone,) = of(Superseded, events)
    starts = of(TurnStart, events)
    assert gone.reason == "rewound"
    assert gone.turn_ids == (starts[1].turn.turn_id,)
    assert "m2" in gone.message_ids
    assert len(ends(events)) == 3


def test_compaction_is_one_conversation_with_a_marked_summary():
    loop = Loop()
    loop.run(shared_path("cases", "history", "claude", "compaction.jsonl"), final=True)
    (drafts,) = loop.journal.drafts().values()
    events = [event_of(draft) for draft in drafts]
    (summary,) = [m for m in of(Message, events) if m.kind == "summary"]
    assert summary.material_origin == "generated_summary"
    assert [s.pre_tokens for s in of(ContextSnapshot, events)] == [4210]
    assert len([m for m in of(Message, events) if m.material_origin == "human_authored"]) == 3


def test_a_subagent_is_its_own_conversation_linked_to_the_call_that_started_it():
    loop = Loop()
    report, _ = loop.run(shared_path("cases", "history", "claude", "sidechain"), final=True)
    assert (report.conversations, report.unrecognised) == (2, [])
    links = [
        e for drafts in loop.journal.drafts().values() for e in map(event_of, drafts) if isinstance(e, SessionLink)
    ]
    (link,) = links
    assert (link.kind, link.parent_tool_call_id) == ("subagent", "toolu_task1")
    assert link.parent_partition in loop.journal.drafts()


def test_odd_results_are_all_imported_and_pictures_become_references():
    loop = Loop()
    report, _ = loop.run(shared_path("cases", "history", "claude", "tool_result_shapes.jsonl"), final=True)
    assert report.records == 13
    (drafts,) = loop.journal.drafts().values()
    events = [event_of(draft) for draft in drafts]
    results = {e.tool_call_id: e for e in of(ToolResult, events)}
    assert len(results) == 8
    assert (results["toolu_I0"].text, results["toolu_I0"].parts[0].media_type) == ("shot 0", "image/png")
    assert results["toolu_I1"].parts[0].flag == "undecodable"
    assert results["toolu_I5"].is_error is True
    assert results["toolu_I6"].text == '{"odd":"a dict"}'
    assert results["toolu_I4"].is_error is None, "absent is unknown"
    assert not any(b"iVBORw0KGgo" in draft.payload for draft in drafts)


def test_times_are_read_or_null_with_a_flag():
    loop = Loop()
    loop.run(shared_path("cases", "history", "claude", "order_tz.jsonl"), final=True)
    (drafts,) = loop.journal.drafts().values()
    messages = of(Message, map(event_of, drafts))
    assert messages[0].blocks[0].text == "last second of Mar 28 UTC", "order is the file's"
    flags = {m.blocks[0].text: (m.occurred_at is None, m.time_flag) for m in messages}
    assert flags["empty"] == (True, "missing")
    assert flags["no such day"] == (True, "unreadable")
    assert flags["far future"] == (True, "out_of_range")
    assert flags["epoch ms as a number"] == (False, None)
    assert len(messages) == 13


def test_copied_records_belong_to_the_first_session_in_any_order(tmp_path):
    a = ClaudeFile("aaaaaaaa-0000-4000-8000-000000000001")
    a.say("One.")
    a.answer("m1", "Done.")
    a.say("Two.")
    b = ClaudeFile("bbbbbbbb-0000-4000-8000-000000000002")
    b.lines = [{**line, "sessionId": b.session} for line in a.lines]
    b.last, b.seconds = a.last, 1000
    b.say("Two again, elsewhere.")
    b.answer("m3", "Done elsewhere.")
    a.answer("m2", "Done two.")
    states = []
    for order in ((a, b), (b, a)):
        loop = Loop()
        for file in order:
            loop.run(file.write(tmp_path), final=True)
        states.append(loop.journal.current())
        tally = Tally()
        for drafts in loop.journal.drafts().values():
            tally.add(drafts)
        assert (tally.turns, tally.model_calls, tally.prompts) == (3, 3, 3)
        assert [type(event_of(d)).__name__ for drafts in loop.journal.drafts().values() for d in drafts].count(
            "SessionLink"
        ) == 1
    assert states[0] == states[1]


def test_a_file_in_two_places_is_one_conversation(tmp_path):
    f = ClaudeFile("aaaaaaaa-0000-4000-8000-000000000001")
    f.say("One.")
    f.answer("m1", "Done.")
    short = f.write(tmp_path / "backup")
    f.say("Two.")
    f.answer("m2", "Done.")
    f.write(tmp_path / "live")
    loop = Loop()
    for _ in range(3):
        report, _new = loop.run(tmp_path, final=True)
    assert len(loop.journal.partitions) == 1
    tally = Tally()
    tally.add(next(iter(loop.journal.drafts().values())))
    assert tally.turns == 2
    assert short.exists()
    assert report.files_read == 0


def test_a_title_is_told_when_it_comes_and_once(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m", "Done.")
    f.raw(type="ai-title", aiTitle="Trams", sessionId="s")
    f.raw(type="ai-title", aiTitle="Trams", sessionId="s")
    updates = of(SessionUpdated, told(f, folder=tmp_path, final=False))
    assert [(u.title, u.title_source) for u in updates] == [("Trams", "ai-title")]


def test_an_unknown_record_is_kept_and_counted(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.raw(type="future-thing", payload={"x": 1})
    f.answer("m", "Done.")
    loop = Loop()
    report, _ = loop.run(f.write(tmp_path), final=True)
    assert report.unknown == {"future-thing": 1}
    kept = [
        m for m in of(Message, map(event_of, next(iter(loop.journal.drafts().values())))) if m.author == "future-thing"
    ]
    assert json.loads(kept[0].blocks[0].text)["payload"] == {"x": 1}
    assert kept[0].kind == "notice"


def test_a_spilled_result_is_read_from_its_file(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m1", tool("t1"), tool("t2"), stop="tool_use")
    where = "/home/kim/.claude/projects/x/s/tool-results/b1.txt"
    f.result("t1", f"<persisted-output>\nOutput too large (9KB). Full output saved to: {where}\n\nPreview:\nfirst")
    f.result("t2", where.replace("b1", "../../../../etc/passwd"))
    f.answer("m2", "Done.")
    f.write(tmp_path)
    spilled = tmp_path / "s" / "tool-results" / "b1.txt"
    spilled.parent.mkdir(parents=True)
    spilled.write_text("all of it")
    loop = Loop()
    report, _ = loop.run(tmp_path, final=True)
    results = of(ToolResult, map(event_of, next(iter(loop.journal.drafts().values()))))
    assert results[0].text == "all of it"
    assert report.unrecognised == []


def test_sidechains_in_the_session_s_own_file_are_conversations_of_their_own(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    main = f.answer("m1", tool("task1", "Task", prompt="Look around."), stop="tool_use")
    f.say("Look around.", parent=None, isSidechain=True)
    f.answer("m2", "Nothing here.", isSidechain=True)
    f.result("task1", "Nothing here.", parent=main)
    f.answer("m3", "Done.")
    loop = Loop()
    loop.run(f.write(tmp_path), final=True)
    told_apart = [[event_of(d) for d in drafts] for drafts in loop.journal.drafts().values()]
    assert sorted(len(of(TurnComplete, events)) for events in told_apart) == [1, 1]
    (link,) = [e for events in told_apart for e in of(SessionLink, events)]
    assert (link.evidence, link.parent_tool_call_id) == ("sidechain", "task1")
    assert sum(len(of(Usage, events)) for events in told_apart) == 3


def test_a_title_before_the_first_record_is_told_and_another_session_s_summary_is_not(tmp_path):
    f = ClaudeFile("s")
    f.raw(type="custom-title", customTitle="Mine", sessionId="s")
    f.raw(type="summary", summary="Another session", leafUuid="elsewhere")
    f.say("Go.")
    last = f.answer("m", "Done.")
    f.raw(type="summary", summary="Ours", leafUuid=last)
    updates = of(SessionUpdated, told(f, folder=tmp_path))
    assert [(u.title, u.title_source) for u in updates] == [("Mine", "custom-title"), ("Ours", "summary")]


def test_what_stands_beside_a_result_is_told_apart(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    for number, beside in enumerate(("Careful with that.", "<system-reminder>Be brief.</system-reminder>", "")):
        f.answer(f"m{number}", tool(f"t{number}", command="ls"), stop="tool_use")
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "ok"}
        f.say([result, {"type": "text", "text": beside}])
    f.answer("m9", tool("t9", command="rm"), stop="tool_use")
    f.say([{"type": "tool_result", "tool_use_id": "t9"}, {"type": "text", "text": "[Request interrupted by user]"}])
    loop = Loop()
    loop.run(f.write(tmp_path), final=True)
    (drafts,) = loop.journal.drafts().values()
    events = [event_of(draft) for draft in drafts]
    people = [e.blocks[0].text for e in events if getattr(e, "material_origin", "") == "human_authored"]
    assert people == ["Go.", "Careful with that."]
    context = [e.blocks[0].text for e in events if getattr(e, "material_origin", "") == "runtime_context"]
    assert context == ["<system-reminder>Be brief.</system-reminder>"]
    assert [e.status for e in events if type(e).__name__ == "TurnComplete"] == ["cancelled"]


def test_a_queued_command_is_a_prompt_between_turns_and_a_remark_within(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f._record("attachment", attachment={"type": "queued_command", "prompt": "And then stop."})
    f.answer("m1", "Done.")
    f._record("attachment", attachment={"type": "queued_command", "prompt": [{"type": "text", "text": "Next."}]})
    f._record("attachment", attachment={"type": "queued_command", "prompt": "x", "commandMode": "task-notification"})
    f.answer(
        "m2",
        "Done too.",
        {"type": "server_tool_use", "id": "w1", "name": "web_search", "input": {"q": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "w1", "content": [{"type": "text", "text": "found"}]},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "novel", "of": 1},
        "Last.",
    )
    loop = Loop()
    report, _ = loop.run(f.write(tmp_path), final=True)
    (drafts,) = loop.journal.drafts().values()
    events = [event_of(draft) for draft in drafts]
    people = [e.blocks[0].text for e in events if getattr(e, "material_origin", "") == "human_authored"]
    assert people == ["Go.", "And then stop.", "Next."]
    assert report.turns == 2
    assert [e.tool_call_id for e in events if type(e).__name__ == "ToolResult"] == ["w1"]
    flags = {b.flag for e in events if type(e).__name__ == "Message" for b in e.blocks}
    assert {"redacted", "unknown:novel"} <= flags
