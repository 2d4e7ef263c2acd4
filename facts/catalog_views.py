"""The units of the query language as views over the tables (query-language.md, "Units").

Each is one SELECT over tables of the same realm; nothing is stored. A row that two conversations make together
(a delegation, a parent run) shows of the other side only what the caller's scope admits, and NULL otherwise.
"""

from typing import Final

from facts.columns import TURN_PLACE, Column, View, flag, number, text, time, word

_PLACE_OF: Final = "{0}.partition, {0}.source_incarnation, {0}.position, {0}.turn_id, {0}.recorded_at"
_RESULT_STATE: Final = """CASE WHEN r.tool_call_id IS NULL THEN 'no_result'
            WHEN r.exit_code IS NOT NULL THEN CASE WHEN r.exit_code = 0 THEN 'outcome_success' ELSE 'outcome_error' END
            WHEN r.is_error IS NULL THEN 'outcome_unknown'
            WHEN r.is_error THEN 'outcome_error' ELSE 'outcome_success' END"""
_RUN_ID: Final = "COALESCE({0}.dispatch_id, {0}.partition || '/' || {0}.turn_id)"

ACTIONS: Final = View(
    name="actions",
    realm="participant",
    tables=("tool_calls",),
    description="One row a tool call, joined with its result.",
    example=(
        "SELECT name, result_state, COUNT(*) AS calls FROM actions GROUP BY name, result_state ORDER BY calls DESC, "
        "name"
    ),
    sql=f"""
SELECT {_PLACE_OF.format("c")},
       c.tool_call_id, c.message_id, c.name, c.server, c.action, c.command, c.path, c.arguments,
       r.result_text AS output, r.is_error, r.exit_code,
       {_RESULT_STATE} AS result_state,
       r.duration_ms, c.occurred_at, r.occurred_at AS finished_at, r.position AS result_position, c.superseded,
       CASE WHEN LEAD(c.position) OVER next IS NULL THEN 'last_call'
            WHEN LEAD(c.name) OVER next IS DISTINCT FROM c.name THEN 'other_tool'
            WHEN LEAD(c.arguments) OVER next IS NOT DISTINCT FROM c.arguments THEN 'repeated'
            ELSE 'same_tool' END AS followup_class
FROM tool_calls c
LEFT JOIN tool_calls r
       ON r.partition = c.partition AND r.tool_call_id = c.tool_call_id AND r.block_type = 'result'
WHERE c.block_type = 'call'
WINDOW next AS (PARTITION BY c.partition, c.turn_id ORDER BY c.position)
""".strip(),
    columns=(
        *TURN_PLACE,
        text("tool_call_id", "the call, as in `tool_calls`"),
        text("message_id", "the message that carries the call"),
        word("name", "the tool's name"),
        word("server", "the server that offers the tool"),
        word("action", "what it does, as in `tool_calls`"),
        text("command", "the command line"),
        text("path", "the file"),
        Column(name="arguments", type="JSON", description="the arguments in full"),
        text("output", "the result's text"),
        flag("is_error", "whether the tool said that it failed; NULL = it did not say"),
        number("exit_code", "the process's exit code", "exit code"),
        word(
            "result_state",
            "`no_result`, `outcome_unknown`, `outcome_error` or `outcome_success`; the exit code decides first",
        ),
        number("duration_ms", "how long it ran", "ms"),
        time("occurred_at", "when it was called"),
        time("finished_at", "when it was answered"),
        Column(name="result_position", type="UBIGINT", description="where the result stands"),
        flag("superseded", "a rewind took it off the live path"),
        word("followup_class", "the turn's next call: `last_call`, `repeated`, `same_tool` or `other_tool`"),
    ),
)

RUNS: Final = View(
    name="runs",
    realm="participant",
    tables=("turns", "sessions", "session_links", "tool_calls"),
    description="One row a dispatch of a turn to a harness.",
    example="SELECT harness, role, status, COUNT(*) AS runs FROM runs GROUP BY harness, role, status",
    sql=f"""
SELECT {_PLACE_OF.format("t")},
       {_RUN_ID.format("t")} AS run_id, t.harness, s.agent_id AS agent,
       CASE WHEN s.link_kind = 'subagent' THEN 'subagent' ELSE 'main' END AS role,
       t.status, {_RUN_ID.format("p")} AS parent_run,
       s.provider_session_id, s.parent_partition, s.cwd, s.git_branch AS branch,
       t.started_at, t.completed_at AS ended_at, t.duration_ms, t.start_evidence, t.end_evidence
FROM turns t
LEFT JOIN sessions s ON s.partition = t.partition
LEFT JOIN (SELECT partition, MIN(parent_tool_call_id) AS parent_tool_call_id
           FROM session_links WHERE kind = 'subagent' GROUP BY partition) l ON l.partition = t.partition
LEFT JOIN tool_calls c ON c.tool_call_id = l.parent_tool_call_id AND c.block_type = 'call'
LEFT JOIN turns p ON p.partition = c.partition AND p.turn_id = c.turn_id
""".strip(),
    columns=(
        *TURN_PLACE,
        text("run_id", "the dispatch's id, or `{partition}/{turn_id}` where there was none"),
        word("harness", "the harness"),
        word("agent", "the agent's own id"),
        word("role", "`main` or `subagent`"),
        word("status", "as in `turns`"),
        text("parent_run", "the run whose call started this one; NULL when unknown or outside the scope"),
        text("provider_session_id", "the provider's own id of the conversation"),
        word("parent_partition", "the conversation it claims to come from"),
        word("cwd", "the working folder"),
        word("branch", "the branch"),
        time("started_at", "when it began"),
        time("ended_at", "when it ended"),
        number("duration_ms", "how long it took", "ms"),
        word("start_evidence", "as in `turns`"),
        word("end_evidence", "as in `turns`"),
    ),
)

_EVENTS: Final = (
    # kind, object, subject, delivery state, summary, evidence, FROM …
    ("'session_started'", "x.partition", "x.harness", "'committed'", "x.origin", "x.start_evidence",
     "turns x WHERE x.turn_index = 1"),
    ("CASE x.status WHEN 'failed' THEN 'turn_failed' ELSE 'turn_cancelled' END", "x.turn_id", "x.harness",
     "'committed'", "x.failure_code", "x.end_evidence", "turns x WHERE x.status <> 'completed'"),
    ("'tool_finished'", "x.tool_call_id", "x.name", "'committed'",
     "CASE WHEN x.exit_code IS NOT NULL THEN 'exit ' || x.exit_code WHEN x.is_error THEN 'error' END",
     "'tool_calls'", "tool_calls x WHERE x.block_type = 'result'"),
    ("'approval_decided'", "x.request_id", "x.tool_name", "'committed'", "x.outcome", "'approvals'",
     "approvals x WHERE x.outcome IS NOT NULL"),
    ("'payment_settled'", "x.tool_call_id", "x.payee", "'committed'",
     "x.amount_base_units::VARCHAR || ' ' || x.asset", "x.reference", "payments x"),
    ("'refused'", "x.request_id", "x.tool_name", "'recorded'", "x.stage", "x.rule", "refusals x"),
    ("'compacted'", "x.call_id", "x.inheritance", "'committed'",
     "x.pre_tokens || ' to ' || x.post_tokens || ' tokens'", "'context_boundaries'",
     "context_boundaries x WHERE x.boundary = 'compaction'"),
)  # fmt: skip

OBSERVED_EVENTS: Final = View(
    name="observed_events",
    realm="participant",
    tables=("turns", "tool_calls", "approvals", "payments", "refusals", "context_boundaries"),
    description=(
        "One row a fact of a turn's life: a session's start, a tool's end, a decision, a payment, a refusal, a "
        "failure, a compaction."
    ),
    example="SELECT kind, COUNT(*) AS events FROM observed_events GROUP BY kind ORDER BY kind",
    sql="\nUNION ALL\n".join(
        f"SELECT {_PLACE_OF.format('x')}, {kind} AS kind, {object_} AS object, {subject} AS subject, "
        f"{state} AS delivery_state, {summary} AS summary, {evidence} AS evidence FROM {source}"
        for kind, object_, subject, state, summary, evidence, source in _EVENTS
    ),
    columns=(
        *TURN_PLACE,
        word(
            "kind",
            "`session_started`, `tool_finished`, `approval_decided`, `payment_settled`, `refused`, "
            "`turn_failed`, `turn_cancelled`, `compacted`",
        ),
        text("object", "what it happened to: a call, a request, a turn, a conversation"),
        word("subject", "who or what acted: a tool, a harness, a payee"),
        word("delivery_state", "`committed` (its turn is) or `recorded` (outside the gate)"),
        text("summary", "the outcome in a word"),
        text("evidence", "what it rests on"),
    ),
)

CONTEXT_SNAPSHOTS: Final = View(
    name="context_snapshots",
    realm="participant",
    tables=("context_boundaries", "usage"),
    description="One row what a model call was given: where its context began or was cut.",
    example=(
        "SELECT boundary, AVG(pre_tokens) AS before, AVG(post_tokens) AS after FROM context_snapshots GROUP BY boundary"
    ),
    sql=f"""
SELECT {_PLACE_OF.format("b")},
       b.boundary, b.inheritance, b.pre_tokens, b.post_tokens, b.call_id, u.model,
       u.input_tokens, u.cache_read_tokens, u.cache_write_tokens, u.input_uncached_tokens, b.occurred_at
FROM context_boundaries b
LEFT JOIN usage u ON u.partition = b.partition AND u.call_id = b.call_id
""".strip(),
    columns=(
        *TURN_PLACE,
        word("boundary", "`session_start`, `resume`, `subagent_start` or `compaction`"),
        word("inheritance", "what the new context took over"),
        number("pre_tokens", "tokens before", "tokens"),
        number("post_tokens", "tokens after", "tokens"),
        text("call_id", "the model call, as in `usage`"),
        word("model", "its model"),
        number("input_tokens", "its input, as the provider counts it", "tokens"),
        number("cache_read_tokens", "read from a cache", "tokens"),
        number("cache_write_tokens", "written to a cache", "tokens"),
        number("input_uncached_tokens", "from no cache", "tokens"),
        time("occurred_at", "when"),
    ),
)

DELEGATIONS: Final = View(
    name="delegations",
    realm="participant",
    tables=("tool_calls", "session_links", "messages", "model_call"),
    description=(
        "One row a parent's call that dispatches another conversation. It never claims that the child succeeded."
    ),
    example=(
        "SELECT mapping_state, result_status, COUNT(*) AS delegations FROM delegations GROUP BY mapping_state, "
        "result_status"
    ),
    sql=f"""
SELECT {_PLACE_OF.format("c")},
       c.tool_call_id AS parent_tool_call_id, l.partition AS child_partition,
       CASE WHEN l.partition IS NULL THEN 'unresolved' ELSE 'resolved' END AS mapping_state,
       l.evidence AS link_method,
       CASE WHEN json_valid(c.arguments) THEN json_extract_string(c.arguments, '$.model') END AS requested_model,
       m.model AS dispatch_model, k.model AS child_model,
       LEFT(i.instruction, 200) AS instruction_preview, sha256(i.instruction) AS instruction_sha256,
       {_RESULT_STATE} AS result_status, c.occurred_at
FROM tool_calls c
JOIN (SELECT partition, position,
             CASE WHEN json_valid(arguments)
                  THEN COALESCE(json_extract_string(arguments, '$.prompt'), json_extract_string(arguments, '$.message'),
                                json_extract_string(arguments, '$.instruction')) END AS instruction
      FROM tool_calls WHERE action IN ('agent', 'subagent')) i
  ON i.partition = c.partition AND i.position = c.position
LEFT JOIN tool_calls r
       ON r.partition = c.partition AND r.tool_call_id = c.tool_call_id AND r.block_type = 'result'
LEFT JOIN session_links l ON l.parent_tool_call_id = c.tool_call_id AND l.kind = 'subagent'
LEFT JOIN (SELECT partition, message_id, MIN(model) AS model FROM messages GROUP BY partition, message_id) m
       ON m.partition = c.partition AND m.message_id = c.message_id
LEFT JOIN (SELECT partition, ARG_MIN(model, position) AS model FROM model_call GROUP BY partition) k
       ON k.partition = l.partition
WHERE c.block_type = 'call' AND c.action IN ('agent', 'subagent')
""".strip(),
    columns=(
        *TURN_PLACE,
        text("parent_tool_call_id", "the parent's call"),
        word("child_partition", "the conversation it started; NULL when unknown or outside the scope"),
        word("mapping_state", "`resolved` (a link names the call) or `unresolved`"),
        word("link_method", "what the link rests on"),
        word("requested_model", "the model the call asked for"),
        word("dispatch_model", "the model that made the call"),
        word("child_model", "the model of the child's first call"),
        text("instruction_preview", "the first 200 characters of the instruction"),
        text("instruction_sha256", "digest of the whole instruction (hex)"),
        word("result_status", "what came back to the parent, as in `actions`"),
        time("occurred_at", "when it was called"),
    ),
)

VIEWS: Final = (ACTIONS, RUNS, OBSERVED_EVENTS, CONTEXT_SNAPSHOTS, DELEGATIONS)
