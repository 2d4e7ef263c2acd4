"""The numbers of the case files and of the generated corpus, as their own scripts computed them."""

import json
import subprocess
import sys

import pytest

from tests.sources.counting import Tally, event_of
from tests.sources.loop import Loop
from tests.support.shared import shared_path


def imported(*paths) -> tuple[Loop, Tally]:
    loop = Loop()
    tally = Tally()
    loop.run_all(paths, final=True)
    for drafts in loop.journal.drafts().values():
        tally.add(drafts)
    return loop, tally


def expected(*names: str) -> dict:
    value = json.loads(shared_path("cases", "history", "EXPECTED.json").read_text())
    for name in names:
        value = value[name]
    return value


CLAUDE = {
    "claude/streamed_usage": ["claude/streamed_usage.jsonl"],
    "claude/resume_a+b": ["claude/resume_a.jsonl", "claude/resume_b.jsonl"],
    "claude/compaction": ["claude/compaction.jsonl"],
    "claude/sidechain main only": ["claude/sidechain/5d0c7a10-0000-4000-8000-0000000000aa.jsonl"],
    "claude/sidechain all": ["claude/sidechain"],
    "claude/meta_synthetic": ["claude/meta_synthetic.jsonl"],
}


@pytest.mark.parametrize("case", CLAUDE)
def test_claude_code_counts_each_call_once(case):
    paths = [shared_path("cases", "history", name) for name in CLAUDE[case]]
    _, tally = imported(*paths)
    right = expected(case, "right")
    (used,) = tally.usage.values()
    assert used == [
        right["input_tokens"],
        right["output_tokens"],
        right["cache_read_input_tokens"],
        right["cache_creation_input_tokens"],
    ]
    assert tally.model_calls == expected(case, "right_calls")
    assert used[0] <= expected(case, "naive", "input_tokens"), "the naive sum is what others show"


@pytest.mark.parametrize("case", ["cumulative", "fork_parent", "fork_child", "fork_grandchild"])
def test_codex_tokens_are_the_high_water(case):
    _, tally = imported(shared_path("cases", "history", "codex", f"{case}.jsonl"))
    right = expected(f"codex/{case}", "high_water")
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_output_tokens")
    assert list(tally.usage.values()) == [[right[name] for name in names]]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
def test_a_family_of_forks_is_counted_once_in_any_order_of_import(order):
    names = ("fork_parent", "fork_child", "fork_grandchild")
    paths = [shared_path("cases", "history", "codex", f"{name}.jsonl") for name in names]
    loop = Loop()
    for place in order:
        loop.run(paths[place], final=True)
    tally = Tally()
    shares = {}
    for drafts in loop.journal.drafts().values():
        alone = Tally()
        alone.add(drafts)
        tally.add(drafts)
        shares[event_of(drafts[0]).provider_session_id[-4:]] = next(iter(alone.usage.values()))[:2]
    right = expected("codex/fork family", "right")
    assert next(iter(tally.usage.values()))[:2] == [right["input_tokens"], right["output_tokens"]]
    assert shares["c003"] == [1600, 40]
    assert shares["c004"] == [1700, 30]


@pytest.mark.parametrize(("name", "said"), [("cumulative", 4), ("only_response_item", 2), ("only_event_msg", 2)])
def test_a_message_that_stands_twice_is_told_once(name, said):
    loop, _ = imported(shared_path("cases", "history", "codex", f"{name}.jsonl"))
    (drafts,) = loop.journal.drafts().values()
    messages = [e for e in map(event_of, drafts) if type(e).__name__ == "Message"]
    spoken = [
        m
        for m in messages
        if m.material_origin in {"human_authored", "assistant_authored"} and any(b.text for b in m.blocks)
    ]
    assert len([m for m in spoken if any(b.type == "text" for b in m.blocks)]) == said


def test_a_broken_file_gives_every_line_that_can_be_read_and_names_every_other():
    path = shared_path("cases", "history", "claude", "broken_lines.jsonl")
    loop = Loop()
    report, _ = loop.run(path, final=True)
    assert report.records == expected("claude/broken_lines lines", "parse_as_object")
    data = path.read_bytes()
    for _path, bad in report.quarantined:
        assert data[bad.offset - 1] == 10, "an offset is the beginning of a line"
        assert data[bad.offset + bad.size_bytes - 1] == 10
    assert report.quarantined_by_reason == {"not_json": 3, "not_an_object": 4, "not_utf8": 1}
    assert len(report.incomplete) == 1


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    out = tmp_path_factory.mktemp("corpus")
    generator = shared_path("corpus", "gen_corpus.py")
    arguments = ["--out", str(out), "--sessions", "60", "--scale", "0.5", "--seed", "11"]
    subprocess.run([sys.executable, str(generator), *arguments], check=True, capture_output=True)
    return out


def gold_of(tally: Tally) -> dict:
    return {
        "user_prompts": tally.prompts,
        "messages": tally.messages,
        "model_calls": tally.model_calls,
        "tool_results": tally.tool_results,
        "tool_errors": tally.tool_errors,
        "turns": tally.turns,
        "turns_cancelled": tally.statuses["cancelled"],
        "turns_unfinished": tally.unfinished,
        "tool_calls_by_name": dict(tally.tool_calls),
        "usage": tally.usage,
    }


def check_gold(folder) -> None:
    loop, tally = imported(folder)
    gold = json.loads((folder / "gold.json").read_text())["committed"]
    gold["tool_calls_by_name"] = {name: count for name, count in gold["tool_calls_by_name"].items() if count}
    found = gold_of(tally)
    assert found == {name: gold[name] for name in found}
    assert max(loop.journal.sizes) <= 64


def test_a_generated_corpus_is_counted_to_the_last_token(corpus):
    check_gold(corpus)


@pytest.mark.soak
def test_the_whole_corpus_is_counted_to_the_last_token(tmp_path):
    generator = shared_path("corpus", "gen_corpus.py")
    arguments = ["--out", str(tmp_path), "--sessions", "500", "--scale", "0.72", "--seed", "7"]
    subprocess.run([sys.executable, str(generator), *arguments], check=True, capture_output=True)
    check_gold(tmp_path)


def test_the_prompts_of_unfinished_turns_are_kept_without_an_end(corpus):
    loop, tally = imported(corpus)
    needle = b"heliotrope uncommitted marker"
    open_ended = 0
    for drafts in loop.journal.drafts().values():
        events = [event_of(draft) for draft in drafts]
        ended = {e.turn.turn_id for e in events if type(e).__name__ == "TurnComplete"}
        for event, draft in zip(events, drafts, strict=True):
            if needle in draft.payload and getattr(event, "turn_id", None) not in ended:
                open_ended += 1
    assert open_ended == tally.unfinished
