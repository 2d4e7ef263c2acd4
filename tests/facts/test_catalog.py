"""The catalog: one source of names, types, realms and examples; its SQL runs on the engine that we ship."""

import pytest

from facts.catalog import TABLES, VIEWS, describe, visible
from tests.facts.everything import every_partition
from tests.facts.journal import Journal
from tests.facts.payment import trust
from tests.facts.warehouse import warehouse


@pytest.fixture(scope="module")
def engine():
    return warehouse(*(journal.rows(trust()) for journal in every_partition()))


def ask(engine, sql):
    return engine.execute(sql).fetchall()


@pytest.mark.parametrize("item", list(describe()), ids=lambda item: item.name)
def test_every_example_runs_and_finds_something(engine, item):
    assert ask(engine, item.example)


@pytest.mark.parametrize("view", list(VIEWS.values()), ids=lambda view: view.name)
def test_a_view_has_the_columns_it_says(engine, view):
    found = [(name, kind) for name, kind, *_ in ask(engine, f"DESCRIBE SELECT * FROM {view.name}")]
    assert found == [(c.name, c.type.replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")) for c in view.columns]


@pytest.mark.parametrize("view", list(VIEWS.values()), ids=lambda view: view.name)
def test_a_view_stands_on_tables_of_its_own_realm(view):
    assert all(TABLES[name].realm == view.realm for name in view.tables)
    assert view.name not in view.tables


@pytest.mark.parametrize("table", list(TABLES.values()), ids=lambda table: table.name)
def test_a_table_is_described(table):
    assert table.column_names[:3] == ("partition", "source_incarnation", "position")
    assert len(set(table.column_names)) == len(table.columns)
    assert table.description.endswith(".")
    assert all(column.description for column in table.columns)
    assert set(table.key) <= set(table.column_names)
    assert (table.family == "state") == bool(table.key)
    assert (
        all(column.unit for column in table.columns if column.type in ("BIGINT", "DECIMAL(38,0)"))
        or table.name == "journal_notices"
    )


def test_a_participant_sees_a_part_of_what_the_fleet_sees():
    participant, fleet = visible("participant"), visible("fleet")
    assert set(participant) < set(fleet) == TABLES.keys() | VIEWS.keys()
    assert list(participant) == sorted(participant)


def test_the_five_statements_of_the_reference_run_as_written_and_say_what_they_say(engine):
    turns = ask(engine, "SELECT * FROM turns LIMIT 5")
    assert len(turns) == 3
    tokens = ask(
        engine,
        """SELECT turn_id,
       SUM(input_tokens)  AS input_tokens,
       SUM(output_tokens) AS output_tokens
FROM usage
GROUP BY turn_id
ORDER BY turn_id""",
    )
    assert tokens == [("t1", 90, 7)]
    unanswered = ask(
        engine,
        """SELECT c.name, c.turn_id, c.position
FROM tool_calls c
LEFT JOIN (SELECT tool_call_id FROM tool_calls WHERE block_type = 'result') r
       ON r.tool_call_id = c.tool_call_id
WHERE c.block_type = 'call'
  AND r.tool_call_id IS NULL
ORDER BY c.position DESC""",
    )
    assert [name for name, *_ in unanswered] == ["Bash", "pay", "Task"]
    payments = ask(
        engine,
        """SELECT p.reference, p.amount_base_units, p.asset, a.tool_name, a.outcome
FROM payments p
JOIN approvals a ON a.request_id = p.tool_call_id
ORDER BY p.position DESC""",
    )
    assert payments == [("0xAA01", 10_000, "usdc", "pay", "approved")]
    messages = ask(engine, "SELECT partition, position, role, text\nFROM messages\nORDER BY partition, position")
    assert [text for *_, text in messages] == ["please read a.py", "reading", "look"]


def test_the_references_joins_hold_over_conversations_that_share_native_ids():
    one, other = (Journal(name).open().start().call("x").end() for name in ("conv-a", "conv-b"))
    other.start("t2").result("x", "t2").end("t2")
    engine = warehouse(one.rows(), other.rows())
    sql = """SELECT c.partition FROM tool_calls c
             LEFT JOIN (SELECT tool_call_id FROM tool_calls WHERE block_type = 'result') r USING (tool_call_id)
             WHERE c.block_type = 'call' AND r.tool_call_id IS NULL"""
    assert ask(engine, sql) == [("conv-a",)]


@pytest.mark.parametrize(
    ("result", "state"),
    [
        (None, "no_result"),
        ({}, "outcome_unknown"),
        ({"is_error": True}, "outcome_error"),
        ({"is_error": False}, "outcome_success"),
        ({"is_error": True, "exit_code": 0}, "outcome_success"),
        ({"is_error": False, "exit_code": 2}, "outcome_error"),
    ],
)
def test_an_actions_result_state_is_decided_by_the_exit_code_first(result, state):
    journal = Journal().open().start().call("x")
    if result is not None:
        journal.result("x", **result)
    engine = warehouse(journal.end().rows())
    assert ask(engine, "SELECT result_state FROM actions") == [(state,)]


def test_actions_know_what_the_turn_called_next():
    journal = Journal().open().start().call("1", arguments="{}").call("2", arguments="{}").call("3", arguments="[]")
    engine = warehouse(journal.call("4", name="Read").end().rows())
    found = ask(engine, "SELECT followup_class FROM actions ORDER BY position")
    assert found == [("repeated",), ("same_tool",), ("other_tool",), ("last_call",)]


def test_a_delegation_names_its_child_and_never_claims_that_it_succeeded(engine):
    sql = """SELECT child_partition, mapping_state, link_method, requested_model, dispatch_model, child_model,
                    instruction_preview, result_status FROM delegations"""
    assert ask(engine, sql) == [("conv-child", "resolved", "agent_id", "m-2", "m-1", "m-2", "look", "no_result")]


def test_a_runs_parent_is_the_run_whose_call_started_it(engine):
    found = ask(engine, "SELECT partition, run_id, role, parent_run FROM runs ORDER BY partition, position")
    assert found == [
        ("conv-all", "d1", "main", None),
        ("conv-all", "conv-all/t2", "main", None),
        ("conv-child", "conv-child/t1", "subagent", "d1"),
    ]


def test_observed_events_tell_each_kind(engine):
    kinds = {kind for (kind,) in ask(engine, "SELECT DISTINCT kind FROM observed_events")}
    assert kinds == {
        "session_started", "tool_finished", "approval_decided", "payment_settled", "refused", "turn_failed", "compacted",
    }  # fmt: skip


def test_a_context_snapshot_knows_its_calls_tokens(engine):
    assert ask(engine, "SELECT boundary, input_tokens, model FROM context_snapshots") == [("compaction", 90, "m-1")]


def test_arguments_that_are_no_json_break_no_view():
    journal = Journal().open().start().call("x", name="Task", action="agent", arguments='{"prompt": "cut of').end()
    engine = warehouse(journal.rows(), json="VARCHAR")
    assert ask(engine, "SELECT instruction_preview, requested_model FROM delegations") == [(None, None)]
