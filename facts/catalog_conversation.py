"""The conversation's tables: what a participant may read of its turns, messages, calls and files.

Every table starts with the place columns; `gated` tables have rows of committed turns only.
"""

from typing import Final

from facts.columns import TURN_PLACE, Column, Table, flag, integer, number, text, time, word

_ID_RULE: Final = "`{partition}:{native id}`, `#2` and so on for a repeat"

TURNS: Final = Table(
    name="turns",
    realm="participant",
    gated=True,
    family="row",
    description="One row a committed turn: a dispatch of the conversation that has its start and its end.",
    example="SELECT * FROM turns LIMIT 5",
    columns=(
        *TURN_PLACE,
        integer("turn_index", "number of the committed turn in its conversation, by start, from 1"),
        text("dispatch_id", "the dispatch that ran the turn; NULL for imported turns"),
        word("persona_id", "the persona on whose behalf the turn ran"),
        word("harness", "the harness that ran it"),
        word("status", "`completed`, `failed` or `cancelled`"),
        word("failure_code", "why it failed or was cancelled, as a code"),
        text("failure_message", "why, in the harness's words"),
        time("started_at", "when it began: stated, or when a live turn's start was recorded"),
        time("completed_at", "when it ended: stated, or when a live turn's end was recorded"),
        number("duration_ms", "stated, or the difference of the two times", "ms"),
        word("start_evidence", "what says that the turn began: `dispatch`, `stated`, `inferred`, `continuation`"),
        word("end_evidence", "what says that it ended: `dispatch`, `stated`, `final_message`, `next_prompt`, …"),
        word("origin", "`live`, or the provider that the conversation was imported from"),
        flag("superseded", "the turn was rewound or rolled back; its rows stay, marked"),
    ),
)

_MESSAGE_COLUMNS: Final = (
    *TURN_PLACE,
    text("message_id", "the message's id: the provider's where it has one"),
    text("parent_message_id", "the message it follows"),
    word("role", "`user`, `assistant`, `system` or `tool`"),
    word("material_origin", "`human_authored`, `assistant_authored`, `operator_command`, `runtime_protocol`, …"),
    word("kind", "`text`, `thinking`, `summary` or `notice`"),
    word("author", "who wrote it: a persona, an agent"),
    word("model", "the model that wrote it"),
    text("text", "its text blocks, joined by an empty line; of a message that only thinks, the thinking"),
    time("occurred_at", "when it was said; NULL when the source's time cannot be read"),
    number("word_count", "words in `text`, separated by white space", "words"),
    flag("superseded", "a rewind or a replacement took it off the live path"),
    word("time_flag", "why `occurred_at` is NULL or doubtful"),
)

MESSAGES: Final = Table(
    name="messages",
    realm="participant",
    gated=True,
    family="row",
    description="One row a message. A model call without text still has one; messages that were withheld have none.",
    example="SELECT partition, position, role, text FROM messages ORDER BY partition, position",
    columns=_MESSAGE_COLUMNS,
)

MESSAGES_WITHHELD: Final = Table(
    name="messages_withheld",
    realm="fleet",
    gated=True,
    family="row",
    description="Messages that a turn marks as never sent to a client, with the reason.",
    example="SELECT reason, COUNT(*) AS messages FROM messages_withheld GROUP BY reason",
    columns=(*_MESSAGE_COLUMNS, word("reason", "why it was withheld")),
)

BLOCKS: Final = Table(
    name="blocks",
    realm="participant",
    gated=True,
    family="row",
    description="One row a part of a message. Binary parts are named by digest and size.",
    example="SELECT type, COUNT(*) AS blocks FROM blocks GROUP BY type ORDER BY type",
    columns=(
        *TURN_PLACE,
        text("block_id", "`{message_id}/{block_index}`"),
        text("message_id", "the message it is part of"),
        integer("block_index", "its place in the message, from 0"),
        word("type", "`text`, `thinking`, `code`, `image`, `document`, `tool_use` or `tool_result`"),
        word("language", "of code"),
        word("media_type", "of images and documents"),
        text("text", "its text"),
        text("sha256", "digest of content that is kept elsewhere (hex)"),
        number("byte_length", "size of that content", "bytes"),
    ),
)

MODEL_CALL: Final = Table(
    name="model_call",
    realm="participant",
    gated=True,
    family="row",
    description="One row a model call (not a turn: a turn makes many).",
    example="SELECT model, COUNT(*) AS calls FROM model_call GROUP BY model ORDER BY model",
    columns=(
        *TURN_PLACE,
        text("call_id", _ID_RULE),
        word("provider", "who serves the model"),
        word("model", "the model's name, as the provider writes it"),
        time("started_at", "when the call began"),
        time("ended_at", "when it ended"),
        number("latency_ms", "stated, or the difference of the two times", "ms"),
        word("stop_reason", "why the model stopped, in the provider's word"),
        text("error", "the error's code or class"),
        text("native_call_id", "the provider's own id of the call"),
    ),
)

USAGE: Final = Table(
    name="usage",
    realm="participant",
    gated=True,
    family="row",
    description=(
        "Tokens of one model call, in the provider's own counting; of repeated records the last counts. "
        "Claude's `input_tokens` excludes cache reads and writes, Codex's and Gemini's include cached input; Codex's "
        "`output_tokens` include reasoning, Gemini's stand beside it. Compare input by `input_uncached_tokens`."
    ),
    example=(
        "SELECT turn_id, SUM(input_tokens) AS input_tokens, SUM(output_tokens) AS output_tokens FROM usage GROUP BY "
        "turn_id ORDER BY turn_id"
    ),
    columns=(
        *TURN_PLACE,
        text("call_id", _ID_RULE),
        word("provider", "who serves the model"),
        word("model", "the model's name"),
        number("input_tokens", "input, as the provider counts it", "tokens"),
        number("output_tokens", "output, as the provider counts it", "tokens"),
        number("cache_read_tokens", "input read from a cache", "tokens"),
        number("cache_write_tokens", "input written to a cache", "tokens"),
        number("reasoning_tokens", "output spent on reasoning", "tokens"),
        number("input_uncached_tokens", "input that came from no cache: comparable between providers", "tokens"),
        text("native_call_id", "the provider's own id of the call"),
    ),
)

TOOL_CALLS: Final = Table(
    name="tool_calls",
    realm="participant",
    gated=True,
    family="row",
    description="One row a tool call (`block_type` call) and one a result; they share `tool_call_id`.",
    example=(
        "SELECT name, COUNT(*) AS calls FROM tool_calls WHERE block_type = 'call' GROUP BY name ORDER BY calls "
        "DESC, name"
    ),
    columns=(
        *TURN_PLACE,
        text("tool_call_id", _ID_RULE + "; a result bears its call's"),
        text("message_id", "the message that carries it"),
        word("block_type", "`call` or `result`"),
        word("name", "the tool's name"),
        word("server", "the server that offers the tool"),
        word(
            "action",
            "what it does: `file_read`, `file_write`, `file_edit`, `shell`, `search`, `web`, `agent`, "
            "`subagent`, `git`, `other`",
        ),
        Column(name="arguments", type="JSON", description="the arguments in full, after redaction; JSON text"),
        text("command", "the command line, of shell calls"),
        text("path", "the file, of file calls"),
        text("result_text", "the result's text, in full"),
        flag("is_error", "whether the tool said that it failed; NULL = it did not say"),
        number("exit_code", "the process's exit code", "exit code"),
        time("occurred_at", "when it was called or answered"),
        number("duration_ms", "how long the tool ran", "ms"),
        flag("superseded", "a rewind or a replacement took it off the live path"),
        word("time_flag", "why `occurred_at` is NULL or doubtful"),
        text("native_tool_call_id", "the provider's own id of the call"),
    ),
)

CONTEXT_BOUNDARIES: Final = Table(
    name="context_boundaries",
    realm="participant",
    gated=True,
    family="row",
    description="Where a model's context was started anew or cut: the rows under the view `context_snapshots`.",
    example="SELECT boundary, COUNT(*) AS boundaries FROM context_boundaries GROUP BY boundary",
    columns=(
        *TURN_PLACE,
        word("boundary", "`session_start`, `resume`, `subagent_start` or `compaction`"),
        word("inheritance", "what the new context took over"),
        number("pre_tokens", "tokens before", "tokens"),
        number("post_tokens", "tokens after", "tokens"),
        text("call_id", _ID_RULE),
        time("occurred_at", "when"),
    ),
)

_COUNTED: Final = (
    ("user", "messages of role user"),
    ("authored_user", "messages that a person wrote (material_origin `human_authored`)"),
    ("assistant", "messages of role assistant"),
    ("system", "messages of role system"),
    ("tool", "messages of role tool"),
)

SESSIONS: Final = Table(
    name="sessions",
    realm="participant",
    gated=True,
    family="state",
    key=("partition",),
    description=(
        "One row a conversation that has a committed turn; the place columns name the last event that contributed. "
        "Counts are of committed turns and leave out what is superseded or withheld."
    ),
    example="SELECT partition, title, message_count FROM sessions ORDER BY updated_at DESC LIMIT 5",
    columns=(
        *TURN_PLACE,
        text("title", "the last title it was given"),
        word("title_source", "who gave it"),
        word("origin", "`live`, or the provider it was imported from"),
        text("provider_session_id", "the provider's own id"),
        word("agent_id", "the agent's own id, of a subagent's conversation"),
        word("repo", "the repository's name"),
        word("cwd", "the working folder"),
        word("git_branch", "the branch"),
        time("created_at", "its first known time"),
        time("updated_at", "its last known time"),
        number("turn_count", "committed turns", "turns"),
        number("message_count", "messages", "messages"),
        *(number(f"{name}_message_count", meaning, "messages") for name, meaning in _COUNTED),
        number("word_count", "words of all messages", "words"),
        *(number(f"{name}_word_count", f"words of {meaning}", "words") for name, meaning in _COUNTED[:3]),
        number("tool_use_message_count", "messages that carry a tool call", "messages"),
        number("thinking_message_count", "messages that carry thinking", "messages"),
        number(
            "paste_message_count",
            "messages of a person that carry a paste: its mark, or 10 lines and 1000 characters",
            "messages",
        ),
        number("tool_call_count", "tool calls", "calls"),
        number("duration_ms", "sum of the turns' durations", "ms"),
        word("parent_partition", "the conversation it claims to come from"),
        word("root_partition", "the top of the claimed chain, as far as the claim tells"),
        word("link_kind", "`subagent`, `fork`, `resume` or `compaction`"),
    ),
)

FILES: Final = Table(
    name="files",
    realm="participant",
    gated=True,
    family="state",
    key=("partition", "path"),
    description="One row a file that a conversation's calls named, by normalised path.",
    example="SELECT path, action_count FROM files ORDER BY action_count DESC, path LIMIT 5",
    columns=(
        *TURN_PLACE,
        text("path", "the path, normalised: no `.`, no `..`, no doubled `/`, no trailing `/`"),
        number("action_count", "calls that named it", "calls"),
        number("read_count", "of these, reads", "calls"),
        number("change_count", "of these, writes and edits", "calls"),
        text("first_tool_call_id", "the first call"),
        text("last_tool_call_id", "the last call"),
        time("first_seen_at", "when the first call was made"),
        time("last_seen_at", "when the last call was made"),
    ),
)

SESSION_LINKS: Final = Table(
    name="session_links",
    realm="participant",
    gated=False,
    family="row",
    description="One row a link that a conversation claims to another, with its evidence.",
    example="SELECT kind, COUNT(*) AS links FROM session_links GROUP BY kind",
    columns=(
        *TURN_PLACE,
        word("kind", "`subagent`, `fork`, `resume` or `compaction`"),
        word("parent_partition", "the conversation it claims as its parent"),
        word("root_partition", "the top of the claimed chain, as far as the claim tells"),
        word("evidence", "what the claim rests on"),
        text("parent_tool_call_id", "the parent's call that started it, qualified by the parent's partition"),
        text("parent_message_id", "the parent's message it starts from"),
    ),
)

REFUSALS: Final = Table(
    name="refusals",
    realm="participant",
    gated=False,
    family="row",
    description="One row a blocked attempt, whether or not its turn was ever committed.",
    example="SELECT stage, rule, COUNT(*) AS refusals FROM refusals GROUP BY stage, rule",
    columns=(
        *TURN_PLACE,
        text("request_id", _ID_RULE),
        text("tool_call_id", _ID_RULE),
        word("tool_name", "the tool that was asked for"),
        word("stage", "`policy`, `budget`, `approval` or `sandbox`"),
        word("rule", "the rule that refused"),
        word("reason", "why, as a code"),
        text("native_request_id", "the id as the edge wrote it"),
    ),
)

ASSERTIONS: Final = Table(
    name="assertions",
    realm="participant",
    gated=False,
    family="state",
    key=("partition", "assertion_id"),
    description="One row a claim that somebody made of the conversation, in its last state.",
    example="SELECT kind, state, text FROM assertions ORDER BY position",
    columns=(
        *TURN_PLACE,
        text("assertion_id", "the claim's id"),
        word("kind", "what sort of claim"),
        word("state", "`active`, `candidate`, `accepted`, `rejected`, `deferred`, `superseded`, `deleted`, `inactive`"),
        word("author_kind", "`person`, `agent` or `rule`; what no person wrote starts as `candidate`"),
        text("text", "the claim"),
        text("target_message_id", "the message it is about"),
    ),
)

SESSION_TAGS: Final = Table(
    name="session_tags",
    realm="participant",
    gated=False,
    family="state",
    key=("partition", "tag"),
    description="One row a tag that a conversation bears now.",
    example="SELECT tag, COUNT(*) AS sessions FROM session_tags GROUP BY tag",
    columns=(*TURN_PLACE, word("tag", "the tag"), word("persona_id", "who put it there")),
)

TABLES: Final = (
    TURNS,
    MESSAGES,
    BLOCKS,
    MODEL_CALL,
    USAGE,
    TOOL_CALLS,
    SESSIONS,
    FILES,
    SESSION_LINKS,
    CONTEXT_BOUNDARIES,
    REFUSALS,
    ASSERTIONS,
    SESSION_TAGS,
    MESSAGES_WITHHELD,
)
