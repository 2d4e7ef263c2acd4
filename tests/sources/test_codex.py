"""Codex's records: turns, pairs of one message, tokens, results, forks, compressed rollouts."""

import json

import zstandard

from facts.events import (
    ContextSnapshot,
    Message,
    SessionLink,
    Superseded,
    ToolCall,
    ToolResult,
    TurnComplete,
    TurnStart,
    Usage,
)
from tests.sources.counting import event_of
from tests.sources.histories import CodexFile
from tests.sources.loop import Loop

A, B, C = (f"0197b000-0000-7000-8000-00000000000{n}" for n in (1, 2, 3))


def told(*files: CodexFile, folder, final: bool = True) -> list:
    loop = Loop()
    for file in files:
        file.write(folder)
    loop.run(folder, final=final)
    return [event_of(draft) for drafts in loop.journal.drafts().values() for draft in drafts]


def of(kind, events) -> list:
    return [event for event in events if isinstance(event, kind)]


def texts(events, origin="human_authored") -> list[str]:
    return ["".join(b.text or "" for b in m.blocks) for m in of(Message, events) if m.material_origin == origin]


def test_the_person_who_says_the_same_twice_said_it_twice(tmp_path):
    f = CodexFile(A)
    for _ in range(2):
        f.say("continue")
        f.answer("ok")
    assert texts(told(f, folder=tmp_path)) == ["continue", "continue"]


def test_the_pair_of_a_message_is_one_in_either_order(tmp_path):
    f = CodexFile(A)
    f.event("user_message", message="Go.", images=[])
    f.item("message", role="user", content=[{"type": "input_text", "text": "Go."}])
    f.item("message", role="assistant", content=[{"type": "output_text", "text": "Done."}])
    f.event("agent_message", message="Done.")
    events = told(f, folder=tmp_path)
    assert texts(events) == ["Go."]
    assert texts(events, "assistant_authored") == ["Done."]


def test_injected_context_is_no_human_speech(tmp_path):
    f = CodexFile(A)
    for text in (
        "# AGENTS.md instructions for /x",
        "<environment_context>x</environment_context>",
        "<user_instructions>x",
    ):
        f.item("message", role="user", content=[{"type": "input_text", "text": text}])
    f.item("message", role="developer", content=[{"type": "input_text", "text": "rules"}])
    f.item(
        "message", role="user", content=[{"type": "input_text", "text": "<user_shell_command>ls</user_shell_command>"}]
    )
    f.say("Go.")
    f.answer("Done.")
    events = told(f, folder=tmp_path)
    assert texts(events) == ["Go."]
    assert len(texts(events, "runtime_context")) == 4
    assert len(texts(events, "operator_command")) == 1


def test_stated_turns_end_as_stated_and_late_ends_change_nothing(tmp_path):
    f = CodexFile(A)
    f.start("t1")
    f.say("One.")
    f.event("task_complete", turn_id="t1")
    f.start("t2")
    f.say("Two.")
    f.event("task_complete", turn_id="t1")
    f.event("turn_aborted", turn_id="t2", reason="interrupted")
    f.start("t3")
    f.say("Three.")
    f.event("error", message="overloaded", codex_error_info="server_overloaded")
    f.start("t4")
    f.say("Four.")
    f.start("t5")
    f.say("Five.")
    f.answer("Working.")
    events = told(f, folder=tmp_path)
    assert [(e.turn.turn_id, e.status, e.evidence) for e in of(TurnComplete, events)] == [
        ("t1", "completed", "stated"),
        ("t2", "cancelled", "stated"),
        ("t3", "failed", "stated"),
        ("t4", "cancelled", "next_prompt"),
    ]
    assert len(of(TurnStart, events)) == 5, "t5 has no end: in a file that states its ends an answer is none"


def test_a_rollback_marks_the_last_turns_and_keeps_them(tmp_path):
    f = CodexFile(A)
    for number in range(3):
        f.start(f"t{number}")
        f.say(f"{number}.")
        f.answer(f"{number}!")
        f.event("task_complete", turn_id=f"t{number}")
    f.event("thread_rolled_back", num_turns=2)
    events = told(f, folder=tmp_path)
    (gone,) = of(Superseded, events)
    assert (gone.reason, gone.turn_ids) == ("rolled_back", ("t1", "t2"))
    assert len(of(TurnComplete, events)) == 3


def test_tokens_of_a_repeated_count_are_counted_once(tmp_path):
    f = CodexFile(A)
    f.say("Go.")
    f.answer("One.")
    f.tokens(100, 60, 10, 4)
    f.lines.append(f.lines[-1])
    f.event("token_count", info=None)
    f.answer("Two.")
    f.tokens(50, 0, 5, 0)
    used = of(Usage, told(f, folder=tmp_path))
    assert [(u.input_tokens, u.cache_read_tokens, u.output_tokens, u.reasoning_tokens) for u in used] == [
        (100, 60, 10, 4),
        (50, 0, 5, 0),
    ]
    assert used[0].input_uncached_tokens == 40, "Codex's input includes the cached part"


def test_tokens_that_come_before_their_answer_belong_to_it(tmp_path):
    f = CodexFile(A)
    f.say("Go.")
    f.tokens(7, 0, 1, 0)
    f.answer("Done.")
    events = told(f, folder=tmp_path)
    assert len(of(Usage, events)) == 1
    assert len([m for m in of(Message, events) if m.role == "assistant"]) == 1


def test_results_state_their_exit(tmp_path):
    f = CodexFile(A)
    f.say("Go.")
    outputs = {
        "c1": "Chunk ID: x\nWall time: 1.5 seconds\nProcess exited with code 2\nOutput:\nno",
        "c2": json.dumps({"output": "fine", "metadata": {"exit_code": 0, "duration_seconds": 0.5}}),
        "c3": "plain words",
        "c4": [
            {"type": "input_text", "text": "seen"},
            {"type": "input_image", "image_url": "data:image/png;base64,aGVsbG8="},
        ],
    }
    for name, output in outputs.items():
        f.item("function_call", name="shell", arguments="{}", call_id=name)
        f.item("function_call_output", call_id=name, output=output)
    found = {e.tool_call_id: e for e in of(ToolResult, told(f, folder=tmp_path))}
    assert (found["c1"].exit_code, found["c1"].is_error, found["c1"].duration_ms) == (2, True, 1500)
    assert (found["c2"].text, found["c2"].is_error, found["c2"].duration_ms) == ("fine", False, 500)
    assert found["c3"].is_error is None
    assert (found["c4"].text, found["c4"].parts[0].byte_length) == ("seen", 5)


def test_arguments_are_valid_json_whatever_the_tool_got(tmp_path):
    f = CodexFile(A)
    f.say("Go.")
    f.item(
        "custom_tool_call",
        name="apply_patch",
        input="*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch",
        call_id="c1",
    )
    f.item("function_call", name="shell", arguments="not json", call_id="c2")
    f.item("local_shell_call", call_id="c3", action={"type": "exec", "command": ["bash", "-lc", "git log"]})
    calls = {e.tool_call_id: e for e in of(ToolCall, told(f, folder=tmp_path))}
    assert all(json.loads(call.arguments) for call in calls.values())
    assert (calls["c1"].action, calls["c1"].path) == ("file_edit", "a.py")
    assert (calls["c3"].action, calls["c3"].command) == ("git", "git log")


def test_a_web_search_waits_for_no_output(tmp_path):
    f = CodexFile(A)
    f.say("Look it up.")
    f.item("web_search_call", id="ws1", status="completed", action={"type": "search", "query": "bells"})
    f.answer("Found.")
    assert [e.status for e in of(TurnComplete, told(f, folder=tmp_path))] == ["completed"]


def test_a_compaction_leaves_a_boundary_and_a_summary(tmp_path):
    f = CodexFile(A)
    f.say("Go.")
    f.answer("Done.")
    f.line("compacted", {"message": "We went."})
    f.say("On.")
    f.answer("Done.")
    events = told(f, folder=tmp_path)
    assert [m.kind for m in of(Message, events) if m.material_origin == "generated_summary"] == ["summary"]
    assert [s.boundary for s in of(ContextSnapshot, events)] == ["compaction"]


def fork_of(parent: CodexFile, session: str, cut: int | None = None) -> CodexFile:
    child = CodexFile(session, forked_from_id=parent.session)
    child.seconds = 500
    child.lines += [{**line, "timestamp": "2026-03-01T12:08:20.000Z"} for line in parent.lines[:cut]]
    child.totals = list(parent.totals)
    return child


def family() -> tuple[CodexFile, CodexFile, CodexFile]:
    parent = CodexFile(A)
    parent.start("t1")
    parent.say("One.")
    parent.answer("Done one.")
    parent.tokens(100, 0, 10, 0)
    parent.event("task_complete", turn_id="t1")
    child = fork_of(parent, B)
    child.start("t2")
    child.say("Two.")
    child.answer("Done two.")
    child.tokens(200, 0, 20, 0)
    child.event("task_complete", turn_id="t2")
    grandchild = fork_of(child, C)
    grandchild.start("t3")
    grandchild.say("Three.")
    grandchild.answer("Done three.")
    grandchild.tokens(300, 0, 30, 0)
    grandchild.event("task_complete", turn_id="t3")
    parent.seconds = 9000
    parent.start("t4")
    parent.say("Four, much later, in the parent.")
    parent.answer("Done four.")
    parent.tokens(400, 0, 40, 0)
    parent.event("task_complete", turn_id="t4")
    return parent, child, grandchild


def test_a_fork_tells_only_what_it_added_even_when_its_parent_went_on(tmp_path):
    events = told(*family(), folder=tmp_path)
    assert sorted(texts(events)) == ["Four, much later, in the parent.", "One.", "Three.", "Two."]
    assert sum(u.input_tokens for u in of(Usage, events)) == 1000
    assert {e.kind for e in of(SessionLink, events)} == {"fork"}


def test_the_order_of_import_changes_nothing(tmp_path):
    files = family()
    states = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)):
        loop = Loop()
        folder = tmp_path / "".join(map(str, order))
        for place in order:
            files[place].write(folder)
            loop.run(folder, final=True)
        states.append(loop.journal.current())
        for opening, *_ in states[-1].values():
            opening[1].pop("source_path")  # the folder differs, and nothing else
    assert all(state == states[0] for state in states)


def test_equal_beginnings_of_unrelated_sessions_are_no_copies(tmp_path):
    one, two = CodexFile(A), CodexFile(B)
    for f in (one, two):
        f.say("The same words.")
        f.answer("The same answer.")
    assert texts(told(one, two, folder=tmp_path)) == ["The same words."] * 2


def test_a_fork_alone_tells_the_copied_part_too(tmp_path):
    _, child, _ = family()
    assert texts(told(child, folder=tmp_path)) == ["One.", "Two."]


def test_a_compressed_rollout_is_the_rollout(tmp_path):
    f = CodexFile(A)
    f.say("Go.")
    f.answer("Done.")
    plain = Loop()
    plain.run(f.write(tmp_path / "plain"), final=True)
    packed = tmp_path / "packed" / f"rollout-2026-03-01T12-00-00-{A}.jsonl.zst"
    packed.parent.mkdir()
    packed.write_bytes(zstandard.compress(f.bytes()))
    loop = Loop()
    loop.run(packed, final=True)
    assert next(iter(loop.journal.drafts().values()))[1:] == next(iter(plain.journal.drafts().values()))[1:]


def test_older_rollouts_stand_bare(tmp_path):
    lines = [
        {"id": A, "timestamp": "2025-05-01T10:00:00.000Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]},
        {"record_type": "state"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]
    path = tmp_path / f"rollout-2025-05-01-{A}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    loop = Loop()
    report, _ = loop.run(path, final=True)
    events = [event_of(d) for d in next(iter(loop.journal.drafts().values()))]
    assert texts(events) == ["Go."]
    assert (report.turns, report.skipped) == (1, {"state": 2})


def test_two_turns_of_one_name_are_two(tmp_path):
    f = CodexFile(A)
    for text in ("One.", "Two."):
        f.start("t")
        f.say(text)
        f.answer("Done.")
        f.event("task_complete", turn_id="t")
    events = told(f, folder=tmp_path)
    assert [e.turn.turn_id for e in of(TurnComplete, events)] == ["t", "t#2"]
    assert len({e.id for e in of(TurnStart, events)}) == 2


def test_a_session_s_name_is_that_of_the_index_or_of_the_rollout(tmp_path):
    session = "0197a000-0000-7000-8000-00000000000f"
    f = CodexFile(session)
    f.say("Go.")
    f.answer("Done.")
    f.event("thread_name_updated", thread_id=session, thread_name="Later name")
    f.say("And on.")
    f.answer("On.")
    names = [
        {"id": session, "thread_name": "First"},
        {"id": "x", "thread_name": "X"},
        {"id": session, "thread_name": "Lamp"},
    ]
    (tmp_path / "session_index.jsonl").write_text("".join(json.dumps(name) + "\n" for name in names) + "torn")
    loop = Loop()
    report, _ = loop.run(f.write(tmp_path / "sessions" / "2026"), final=True)
    (drafts,) = loop.journal.drafts().values()
    events = [event_of(draft) for draft in drafts]
    assert events[0].title == "Lamp"
    assert [e.title for e in events if type(e).__name__ == "SessionUpdated"] == ["Later name"]
    assert report.turns == 2
