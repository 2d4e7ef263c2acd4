"""Histories that broke other products (../shared/cases), through parser and folds: what the tables add up to.

The rows' numbers stand in the names and ids: A01 and A02 (streamed), A03 (resumed), A06 (compacted), A07 (subagents),
A09 (forked), A10 and A11 (cumulative), A18 and A19 (synthetic, notices), A20 (times), A25 (Gemini's upserts).
"""

import json

import pytest

from tests.facts.journal import TRUST, Journal, column, fold_of
from tests.sources.loop import Loop
from tests.support.shared import shared_path

NAMES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
CLAUDE = {
    "claude/streamed_usage": ["claude/streamed_usage.jsonl"],
    "claude/resume_a+b": ["claude/resume_a.jsonl", "claude/resume_b.jsonl"],
    "claude/compaction": ["claude/compaction.jsonl"],
    "claude/sidechain main only": ["claude/sidechain/5d0c7a10-0000-4000-8000-0000000000aa.jsonl"],
    "claude/sidechain all": ["claude/sidechain"],
    "claude/meta_synthetic": ["claude/meta_synthetic.jsonl"],
}
FORKS = ["codex/fork_parent.jsonl", "codex/fork_child.jsonl", "codex/fork_grandchild.jsonl"]


def expected(name):
    return json.loads(shared_path("cases", "history", "EXPECTED.json").read_text())[name]


def rows_of(*names):
    """The rows of every conversation that these files tell, by partition."""
    loop = Loop()
    for name in names:
        loop.run(shared_path("cases", "history", name), final=True)
    found = {}
    for partition, drafts in loop.journal.drafts().items():
        journal = Journal(partition)
        for draft in drafts:
            journal.raw(draft.event_type, draft.payload, by="importer")
        if partition.startswith("conv-"):
            found[partition] = fold_of(journal.records, TRUST).rows()
    return found


def spent(found):
    """Sums over the table `usage` of all conversations."""
    return [sum(n or 0 for rows in found.values() for n in column(rows, "usage", name)) for name in NAMES]


ROWS = ["A01-A02", "A03", "A06", "A07-main", "A07", "A18"]


@pytest.mark.parametrize("case", CLAUDE, ids=ROWS)
def test_claude_codes_calls_count_once(case):
    found, right = rows_of(*CLAUDE[case]), expected(case)["right"]
    assert spent(found) == [
        right["input_tokens"],
        right["output_tokens"],
        right["cache_read_input_tokens"],
        right["cache_creation_input_tokens"],
    ]
    assert sum(len(rows["model_call"]) for rows in found.values()) == expected(case)["right_calls"]


@pytest.mark.parametrize("case", CLAUDE, ids=ROWS)
def test_a_sum_over_every_line_would_be_told_from_the_right_one(case):
    """The sibling of the test above: where lines repeat, the naive sum is another."""
    repeats = case in {"claude/streamed_usage", "claude/resume_a+b", "claude/compaction"}
    assert (expected(case)["naive"] != expected(case)["right"]) == repeats


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_resumed_history_counts_once_in_any_order_of_import(order):
    """A03."""
    found, right = rows_of(*(f"claude/resume_{name}.jsonl" for name in order)), expected("claude/resume_a+b")["right"]
    assert spent(found)[:2] == [right["input_tokens"], right["output_tokens"]]
    assert sum(len(rows["session_links"]) for rows in found.values()) == 1


def test_geminis_upserts_count_what_was_spent_and_show_what_is_live():
    """A25: rewound messages stay, marked; their tokens were spent. Gemini counts thoughts beside its output."""
    (rows,) = rows_of("gemini/session-incremental.jsonl").values()
    case = expected("gemini/session-incremental")
    counted = ("input_tokens", "output_tokens", "reasoning_tokens")
    tokens = sum(n or 0 for name in counted for n in column(rows, "usage", name))
    assert tokens == case["spent_by_distinct_id"] != case["naive_every_line"]
    live = [
        name
        for name, gone in zip(
            column(rows, "messages", "message_id"), column(rows, "messages", "superseded"), strict=True
        )
        if not gone
    ]
    assert live == case["final_ids"]
    assert set(column(rows, "messages", "message_id")) - set(live) == {"g4", "g5"}


def test_codexs_parts_are_within_what_they_are_part_of():
    """A11: cached input is part of the input and reasoning of the output; what was not cached is its own column."""
    (rows,) = rows_of("codex/cumulative.jsonl").values()
    right = expected("codex/cumulative")["high_water"]
    sums = {
        name: sum(n or 0 for n in column(rows, "usage", name))
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens", "input_uncached_tokens")
    }
    assert sums["input_tokens"] + sums["output_tokens"] == right["total_tokens"]
    assert sums["reasoning_tokens"] == right["reasoning_output_tokens"]
    assert sums["input_uncached_tokens"] == right["input_tokens"] - right["cached_input_tokens"]


def test_codexs_tokens_are_the_high_water():
    right = expected("codex/cumulative")["high_water"]
    assert spent(rows_of("codex/cumulative.jsonl"))[:3] == [
        right["input_tokens"],
        right["output_tokens"],
        right["cached_input_tokens"],
    ]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_family_of_forks_is_counted_once_in_any_order(order):
    right = expected("codex/fork family")["right"]
    assert spent(rows_of(*(FORKS[place] for place in order)))[:2] == [right["input_tokens"], right["output_tokens"]]


def test_a_subagents_conversation_is_linked_to_the_call_that_started_it():
    found = rows_of("claude/sidechain")
    links = [row for rows in found.values() for row in rows["session_links"]]
    calls = {call for rows in found.values() for call in column(rows, "tool_calls", "tool_call_id")}
    assert links
    assert {row[9] for row in links} - {None} <= calls


def test_exactly_one_human_turn_is_in_a_file_full_of_notices():
    (rows,) = rows_of("claude/meta_synthetic.jsonl").values()
    authored = [
        text
        for text, origin in zip(
            column(rows, "messages", "text"), column(rows, "messages", "material_origin"), strict=True
        )
        if origin == "human_authored"
    ]
    assert authored == ["What is the adult fare?"]


def test_order_is_the_files_and_unreadable_times_are_null_and_flagged():
    (rows,) = rows_of("claude/order_tz.jsonl").values()
    positions = column(rows, "messages", "position")
    assert positions == sorted(positions)
    pairs = list(zip(column(rows, "messages", "occurred_at"), column(rows, "messages", "time_flag"), strict=True))
    assert all(flag is not None for time, flag in pairs if time is None)
    assert any(time is None for time, _ in pairs)
    assert all(time is None or 2000 < time.year < 2100 for time, _ in pairs), "never 1970, never the year 9999"
