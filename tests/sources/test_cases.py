"""Every row A of the case files by its number: what broke other products, and what ours shows of it."""

import json
import os
import threading
from itertools import permutations

import pytest

from facts.events import ConversationOpened, Message, ModelCall, SessionLink, Superseded, ToolCall, ToolResult, Usage
from tests.sources.counting import event_of
from tests.sources.histories import ClaudeFile, CodexFile, tool
from tests.sources.loop import Loop
from tests.sources.test_following import lines_of
from tests.support.shared import shared_path


def history(*names: str):
    return [shared_path("cases", "history", *name.split("/")) for name in names]


def told(*names: str) -> tuple[list, Loop]:
    loop = Loop()
    loop.run_all(history(*names), final=True)
    return [event_of(draft) for drafts in loop.journal.drafts().values() for draft in drafts], loop


def some(events, kind):
    return [event for event in events if isinstance(event, kind)]


def sums(events) -> tuple[int, int, int, int, int]:
    """Calls, input, output, cache written, cache read."""
    used = some(events, Usage)
    return (
        len(some(events, ModelCall)),
        sum(u.input_tokens or 0 for u in used),
        sum(u.output_tokens or 0 for u in used),
        sum(u.cache_write_tokens or 0 for u in used),
        sum(u.cache_read_tokens or 0 for u in used),
    )


def spoken(events) -> list[str]:
    return [
        "".join(block.text or "" for block in message.blocks)
        for message in some(events, Message)
        if message.material_origin == "human_authored"
    ]


def test_a01_a_call_in_several_lines_counts_with_its_largest_usage():
    events, _ = told("claude/streamed_usage.jsonl")
    assert sums(events) == (3, 2700, 215, 400, 18400)
    assert max(u.output_tokens for u in some(events, Usage)) == 187, "not 3, which came first"


def test_a02_lines_without_a_request_id_are_one_call_all_the_same():
    events, _ = told("claude/streamed_usage.jsonl")
    assert [u.output_tokens for u in some(events, Usage) if u.call_id == "msg_T7C"] == [6]


@pytest.mark.parametrize("order", list(permutations(("claude/resume_a.jsonl", "claude/resume_b.jsonl"))))
def test_a03_a_resumed_copy_is_counted_once_in_either_order(order):
    loop = Loop()
    for name in order:
        loop.run(*history(name), final=True)
    events = [event_of(draft) for drafts in loop.journal.drafts().values() for draft in drafts]
    assert sums(events)[:3] == (3, 2700, 95)
    assert [link.kind for link in some(events, SessionLink)] == ["resume"]


def test_a06_a_compaction_is_one_conversation_with_its_boundary_and_summary():
    events, loop = told("claude/compaction.jsonl")
    assert len(loop.journal.partitions) == 1
    assert sums(events)[:3] == (3, 4800, 155)
    assert [m.material_origin for m in some(events, Message) if m.kind == "summary"] == ["generated_summary"]
    assert [e.boundary for e in events if type(e).__name__ == "ContextSnapshot"] == ["compaction"]


def test_a07_subagents_are_counted_once_and_linked_to_the_call_that_started_them():
    main, _ = told("claude/sidechain/5d0c7a10-0000-4000-8000-0000000000aa.jsonl")
    assert sums(main)[1:3] == (1100, 50)
    events, loop = told("claude/sidechain")
    assert sums(events)[1:] == (5100, 200, 0, 1000)
    assert len(loop.journal.partitions) == 2, "neither journal.jsonl, meta.json nor tool-results is a session"
    (link,) = some(events, SessionLink)
    assert link.parent_tool_call_id in {call.tool_call_id for call in some(events, ToolCall)}
    assert {o.agent_id for o in some(events, ConversationOpened)} == {None, "a7c3"}


def test_a08_a_bad_line_costs_nothing_but_itself(tmp_path):
    path = tmp_path / "broken.jsonl"
    content = history("claude/broken_lines.jsonl")[0].read_bytes()
    path.write_bytes(content)
    loop = Loop()
    report, _ = loop.run(path, now_us=0)
    assert (report.records, len(report.quarantined), len(report.incomplete)) == (3, 8, 1)
    offsets = [bad.offset for _path, bad in report.quarantined]
    assert all(content[offset - 1 : offset] == b"\n" for offset in offsets)
    assert len(loop.journal.partitions["imports"][-1]) == 8, "each is in the journal, and so in import_quarantine"
    path.write_bytes(content + b"\n")
    report, new = loop.run(path, now_us=0)
    assert new == 1, "the cut line was no error until it had an end"


@pytest.mark.parametrize("order", list(permutations(("fork_parent", "fork_child", "fork_grandchild"))))
def test_a09_a_family_of_forks_is_counted_once_whatever_comes_first(order):
    loop = Loop()
    for name in order:
        loop.run(*history(f"codex/{name}.jsonl"), final=True)
    partitions = loop.journal.drafts().values()
    each = {sums([event_of(draft) for draft in drafts])[1:3] for drafts in partitions}
    assert each >= {(1600, 40), (1700, 30)}
    assert (sum(e[0] for e in each), sum(e[1] for e in each)) == (5800, 250)


def test_a10_a_token_count_that_is_said_again_counts_once():
    events, _ = told("codex/cumulative.jsonl")
    assert sums(events)[1:3] == (14200, 230)


def test_a11_cached_and_reasoning_tokens_are_within_codex_totals_and_beside_claudes():
    events, _ = told("codex/cumulative.jsonl")
    used = some(events, Usage)
    assert sum(u.input_tokens + u.output_tokens for u in used) == 14430
    assert sum(u.cache_read_tokens for u in used) == 11000
    assert all(u.input_uncached_tokens == u.input_tokens - u.cache_read_tokens for u in used)
    claude, _ = told("claude/streamed_usage.jsonl")
    assert all(u.input_uncached_tokens == u.input_tokens for u in some(claude, Usage))


def test_a12_what_stands_as_event_and_item_is_said_once_and_what_is_said_twice_twice(tmp_path):
    for name, count in (("cumulative", 4), ("only_response_item", 2), ("only_event_msg", 2)):
        events, _ = told(f"codex/{name}.jsonl")
        said = [m for m in some(events, Message) if m.material_origin in {"human_authored", "assistant_authored"}]
        assert len([m for m in said if any(b.type == "text" and b.text for b in m.blocks)]) == count, name
    f = CodexFile("0197a000-0000-7000-8000-00000000000a")
    for _ in range(2):
        f.say("continue")
        f.answer("On it.")
    loop = Loop()
    loop.run(f.write(tmp_path), final=True)
    (drafts,) = loop.journal.drafts().values()
    assert spoken(map(event_of, drafts)) == ["continue", "continue"]
    injected = [m for m in some(told("codex/cumulative.jsonl")[0], Message) if m.material_origin == "runtime_context"]
    assert injected


def test_a14_lines_end_at_line_feeds_alone(tmp_path):
    f = CodexFile("0197a000-0000-7000-8000-00000000000b")
    f.say("One\u2028two\u2029three\x85four.")
    f.answer("Five\u2028six.")
    content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in f.lines)
    path = tmp_path / "rollout-x.jsonl"
    path.write_text(content, encoding="utf-8")
    loop = Loop()
    report, _ = loop.run(path, final=True)
    assert (report.records, report.quarantined) == (len(f.lines), [])
    assert len(content.splitlines()) > len(f.lines), "what str.splitlines makes of it"
    (drafts,) = loop.journal.drafts().values()
    assert spoken(map(event_of, drafts)) == ["One\u2028two\u2029three\x85four."]


def test_a16_a_line_of_24_megabytes_stops_nobody(tmp_path):
    f = ClaudeFile("s")
    f.say("Before.")
    f.answer("m1", tool("t"), stop="tool_use")
    f.result("t", "x" * 24_000_000)
    f.answer("m2", "After.")
    path = f.write(tmp_path)
    loop = Loop()
    report, _ = loop.run(path, now_us=0)
    assert (report.records, report.turns, report.quarantined) == (4, 1, [])
    f.say("And on.")
    f.answer("m3", "On.")
    report, new = loop.run(f.write(tmp_path), now_us=0)
    assert (report.turns, new) == (1, 1), "the watcher goes on behind it"


def test_a17_every_shape_of_a_result_is_imported_and_pictures_are_references():
    events, _ = told("claude/tool_result_shapes.jsonl")
    (path,) = history("claude/tool_result_shapes.jsonl")
    results = some(events, ToolResult)
    assert len(results) == sum('"tool_result"' in line for line in path.read_text().splitlines())
    blocks = [b for result in results for b in result.parts] + [b for m in some(events, Message) for b in m.blocks]
    pictures = [block for block in blocks if block.type == "image"]
    assert all(block.byte_length is not None and block.text is None for block in pictures)
    assert {block.flag for block in pictures} >= {None, "undecodable"}


def test_a18_synthetic_replies_are_no_calls():
    events, _ = told("claude/meta_synthetic.jsonl")
    assert sums(events)[:3] == (1, 700, 14)


def test_a19_what_a_harness_wrote_is_no_human_turn():
    events, loop = told("claude/meta_synthetic.jsonl")
    assert spoken(events) == ["What is the adult fare?"]
    loop.lose_cursors()
    report, _ = loop.run(*history("claude/meta_synthetic.jsonl"), final=True)
    assert report.unknown["future-thing"] == 1


def test_a20_the_order_is_the_file_s_and_no_time_is_guessed():
    events, _ = told("claude/order_tz.jsonl")
    lines = [json.loads(line) for line in history("claude/order_tz.jsonl")[0].read_text().splitlines()]
    people = [m for m in some(events, Message) if m.material_origin == "human_authored"]
    assert [m.message_id for m in people] == [line["uuid"] for line in lines]
    by_stamp = {line.get("timestamp"): m for line, m in zip(lines, people, strict=True)}
    assert by_stamp["2026-03-29T01:30:00.000+02:00"].occurred_at.isoformat() == "2026-03-28T23:30:00+00:00"
    for unreadable in ("2026-03-29T02:30:00", "", None, "2026-02-30T00:00:00Z", "9999-12-31T23:59:59.999Z"):
        assert by_stamp[unreadable].occurred_at is None
        assert by_stamp[unreadable].time_flag
    assert {by_stamp[s].occurred_at.year for s in ("1774742400", 1774742400123)} == {2026}


def test_a22_appended_in_two_cuts_shortened_and_rewritten_it_is_the_whole_file(tmp_path):
    (source,) = history("claude/streamed_usage.jsonl")
    content = source.read_bytes()
    path = tmp_path / "s.jsonl"
    path.write_bytes(content)
    wanted = Loop()
    wanted.run(path, final=True)
    for cut in range(0, len(content), 61):
        loop = Loop()
        path.write_bytes(content[:cut])
        loop.run(path, now_us=0)
        path.write_bytes(content)
        loop.run(path, now_us=0)
        path.write_bytes(b"".join(lines_of(content)[:3]))
        loop.run(path, now_us=0)
        path.write_bytes(content)
        loop.run(path, final=True)
        assert loop.journal.current() == wanted.journal.current(), cut


def test_a23_the_live_path_of_a_tree_is_told_and_the_rest_is_marked():
    events, loop = told("chatgpt/conversations.json")
    named = {o.provider_session_id for o in some(events, ConversationOpened)}
    assert len(named) == len(loop.journal.drafts()), "the same id again is an update"
    live = next(
        drafts for drafts in loop.journal.drafts().values() if event_of(drafts[0]).provider_session_id == "conv-cg-1"
    )
    messages = some(map(event_of, live), Message)
    assert [m.message_id for m in messages if not m.superseded] == ["u1", "a1b", "u2", "tool1", "sysmid", "a2"]
    assert [m.message_id for m in messages if m.superseded] == ["a1", "u2old", "lost"]


def test_a25_an_upsert_log_is_told_in_its_last_form_and_rewound_tokens_were_spent():
    events, _ = told("gemini/session-incremental.jsonl")
    gone = {name for e in some(events, Superseded) for name in e.message_ids}
    assert gone == {"g4", "g5"}
    assert [m.message_id for m in some(events, Message) if m.message_id not in gone] == ["g1", "g2", "g3", "g6", "g7"]
    used = some(events, Usage)
    assert sum(u.input_tokens + u.output_tokens + (u.reasoning_tokens or 0) for u in used) == 3175


# --- more of each kind ------------------------------------------------------------------------------------------------


def test_a_folder_of_everything_that_is_no_file_stops_nobody(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m", "Done.")
    f.write(tmp_path)
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "nowhere.jsonl").symlink_to(tmp_path / "absent.jsonl")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    (tmp_path / "deep").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.jsonl")
    reports = []
    thread = threading.Thread(target=lambda: reports.append(Loop().run(tmp_path, final=True)[0]), daemon=True)
    thread.start()
    thread.join(20)
    assert reports, "a pipe that nobody writes was opened"
    assert reports[0].turns == 1
    assert reports[0].quarantined_by_reason == {"unreadable:ENOENT": 1, "unreadable:ELOOP": 1}


def test_a_file_that_cannot_be_read_is_named_each_time_and_read_when_it_can(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m", "Done.")
    path = f.write(tmp_path)
    hidden = path.with_suffix(".hidden")
    path.rename(hidden)
    path.symlink_to(path)
    loop = Loop()
    for _ in range(2):
        assert loop.run(tmp_path, final=True)[0].quarantined_by_reason == {"unreadable:ELOOP": 1}
    assert len(loop.journal.partitions["imports"][-1]) == 1, "told once"
    path.unlink()
    hidden.rename(path)
    assert loop.run(tmp_path, final=True)[0].turns == 1


def test_a_file_that_vanishes_while_the_others_are_read_stops_nobody(tmp_path):
    files = []
    for name in "ab":
        f = ClaudeFile(f"{name}aaaaaaa-0000-4000-8000-00000000000d")
        f.say("Go.")
        f.answer(f"m{name}", "Done.")
        files.append(f.write(tmp_path))

    class Vanishing(Loop):
        def __init__(self) -> None:
            super().__init__()
            leaf = self.journal.leaf

            def asked(partition):
                files[1].unlink(missing_ok=True)
                return leaf(partition)

            self.journal.leaf = asked

    report, _ = Vanishing().run(tmp_path, final=True)
    assert report.turns == 1
    assert report.quarantined_by_reason == {"unreadable:ENOENT": 1}


@pytest.mark.parametrize("ending", [b"\r\n", b"\n"])
def test_a_byte_order_mark_and_carriage_returns_are_no_part_of_a_record(ending, tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m", "Done.")
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + f.bytes().replace(b"\n", ending))
    report, _ = Loop().run(path, final=True)
    assert (report.turns, report.quarantined) == (1, [])


def test_a_file_of_another_encoding_is_named(tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    path = tmp_path / "s.jsonl"
    path.write_bytes(f.bytes().decode().encode("utf-16"))
    report, new = Loop().run(path, final=True)
    assert (report.unrecognised, new) == ([str(path)], 0)


@pytest.mark.parametrize(
    ("stamp", "year", "flag"),
    [
        (1774742400, 2026, None),
        (1774742400123, 2026, None),
        (1774742400123456, 2026, None),
        (1774742400123456789, 2026, None),
        ("1774742400.5", 2026, None),
        (0, None, "out_of_range"),
        (-1, None, "out_of_range"),
        (True, None, "unreadable"),
        ("1970-01-01T00:00:00Z", None, "out_of_range"),
        ("2999-01-01T00:00:00Z", None, "out_of_range"),
        ({"at": 1}, None, "unreadable"),
        ("yesterday", None, "unreadable"),
    ],
)
def test_a_time_in_whatever_unit_is_read_or_flagged(stamp, year, flag, tmp_path):
    f = ClaudeFile("s")
    f.say("Go.", timestamp=stamp)
    f.answer("m", "Done.")
    loop = Loop()
    loop.run(f.write(tmp_path), final=True)
    (drafts,) = loop.journal.drafts().values()
    prompt = next(m for m in some(map(event_of, drafts), Message) if m.role == "user")
    assert (prompt.occurred_at and prompt.occurred_at.year, prompt.time_flag) == (year, flag)


@pytest.mark.parametrize("tokens", [-5, 1.5, "12", None, True, 2**60, {}])
def test_tokens_that_are_no_count_are_unknown_and_zero_is_zero(tokens, tmp_path):
    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m0", "Zero.", stop="tool_use", tokens=(0, 0, 0, 0))
    f.answer("m1", "Done.", tokens=(tokens, tokens, tokens, tokens))
    loop = Loop()
    loop.run(f.write(tmp_path), final=True)
    (drafts,) = loop.journal.drafts().values()
    zero, odd = some(map(event_of, drafts), Usage)
    assert (zero.input_tokens, zero.output_tokens) == (0, 0)
    assert (odd.input_tokens, odd.output_tokens) == (None, None)


def test_a_session_in_two_homes_is_one_conversation_and_the_longer_file_tells_it(tmp_path):
    f = ClaudeFile("5d0c7a10-0000-4000-8000-0000000000aa")
    f.say("Go.")
    f.answer("m1", "Done.")
    f.write(tmp_path / "old")
    f.say("More.")
    f.answer("m2", "Done too.")
    f.write(tmp_path / "new")
    states = set()
    for order in permutations(("old", "new")):
        loop = Loop()
        for home in order:
            loop.run(tmp_path / home, final=True)
        (drafts,) = loop.journal.drafts().values()
        states.add(tuple(spoken(map(event_of, drafts))))
    at_once = Loop()
    at_once.run(tmp_path, final=True)
    (drafts,) = at_once.journal.drafts().values()
    states.add(tuple(spoken(map(event_of, drafts))))
    assert states == {("Go.", "More.")}
    assert at_once.run(tmp_path, final=True)[1] == 0


def test_ids_that_two_files_happen_to_share_are_two_calls(tmp_path):
    for session in ("aaaaaaaa-0000-4000-8000-00000000000d", "bbbbbbbb-0000-4000-8000-00000000000d"):
        f = ClaudeFile(session)
        f.say("Go.")
        f.answer("msg-same", tool("toolu_same", command="ls"), stop="tool_use")
        f.result("toolu_same")
        f.answer("msg-end", "Done.")
        f.write(tmp_path)
    loop = Loop()
    loop.run(tmp_path, final=True)
    partitions = loop.journal.drafts().values()
    assert [len(some(map(event_of, drafts), ToolResult)) for drafts in partitions] == [1, 1]
