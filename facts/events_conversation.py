"""Events of a conversation: its frame, and what a harness says."""

from typing import Literal

import msgspec

from facts.events_base import EdgeEvent, Event, HarnessEvent, Instant, Integer, Marker

TurnStatus = Literal["completed", "failed", "cancelled"]
Role = Literal["user", "assistant", "system", "tool"]
MaterialOrigin = Literal[
    "human_authored",
    "assistant_authored",
    "operator_command",
    "runtime_protocol",
    "runtime_context",
    "tool_result",
    "generated_summary",
    "unknown",
]
MessageKind = Literal["text", "thinking", "summary", "notice"]
BlockType = Literal["text", "thinking", "code", "image", "document", "tool_use", "tool_result"]
Evidence = Literal[
    "stated",  # the provider wrote the boundary down
    "inferred",  # a rule of the source's format says so
    "final_message",  # the file closes with an assistant message and has no open call
    "next_prompt",  # the next prompt came before any end
    "continuation",  # output after an end without a prompt (ruling 22)
    "dispatch",  # Control's own marker
]


class Redaction(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Which redaction policy an author applied (ruling 18) and how often it struck."""

    policy: str
    version: str
    count: Integer = 0


class ConversationOpened(Event, frozen=True, gc=False, kw_only=True, tag="conversation_opened"):
    """The first event of an incarnation: where the conversation comes from.

    `origin` is `live` for dispatched conversations, else the provider (`claude-code`, `codex`, …); anything but
    `live` makes the partition an imported one, whose markers the importer's key may sign.
    """

    origin: str
    conversation_id: str
    provider_session_id: str | None = None
    agent_id: str | None = None
    title: str | None = None
    cwd: str | None = None
    repo: str | None = None
    git_branch: str | None = None
    harness: str | None = None
    source_path: str | None = None
    redaction: Redaction | None = None


class DispatchIntent(Marker, frozen=True, gc=False, kw_only=True, tag="dispatch_intent"):
    """Control says, before it calls the harness, which dispatch runs which turn."""

    dispatch_id: str
    harness: str | None = None
    persona_id: str | None = None


class TurnStart(Marker, frozen=True, gc=False, kw_only=True, tag="turn_start"):
    """The turn begins."""

    dispatch_id: str | None = None
    persona_id: str | None = None
    harness: str | None = None
    evidence: Evidence = "dispatch"


class TurnComplete(Marker, frozen=True, gc=False, kw_only=True, tag="turn_complete"):
    """The turn ended, one way or another; without this marker no gated table has a row of the turn."""

    status: TurnStatus
    evidence: Evidence = "dispatch"
    failure_code: str | None = None
    failure_message: str | None = None
    duration_ms: Integer | None = None


class SessionUpdated(HarnessEvent, frozen=True, gc=False, kw_only=True, tag="session_updated"):
    """What is known of the session now; the last word of each field wins."""

    title: str | None = None
    title_source: str | None = None
    cwd: str | None = None
    repo: str | None = None
    git_branch: str | None = None


class SessionLink(Event, frozen=True, gc=False, kw_only=True, tag="session_link"):
    """This conversation claims a parent."""

    kind: Literal["subagent", "fork", "resume", "compaction"]
    parent_partition: str
    evidence: str
    parent_tool_call_id: str | None = None
    parent_message_id: str | None = None
    root_partition: str | None = None  # the top of the claimed chain, when the author knows it


class Superseded(Event, frozen=True, gc=False, kw_only=True, tag="superseded"):
    """Rows that a rewind, a rollback or a replacement took off the live path; they stay, marked."""

    reason: Literal["rewound", "rolled_back", "replaced"]
    message_ids: tuple[str, ...] = ()
    turn_ids: tuple[str, ...] = ()


class Block(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A part of a message. Binary content is named by digest and size, never inlined."""

    type: BlockType
    text: str | None = None
    language: str | None = None
    media_type: str | None = None
    sha256: str | None = None
    byte_length: Integer | None = None
    tool_call_id: str | None = None
    flag: str | None = None


class Message(HarnessEvent, frozen=True, gc=False, kw_only=True, tag="message"):
    """One message; a model call without text still has one (ruling 21)."""

    message_id: str
    role: Role
    material_origin: MaterialOrigin
    kind: MessageKind = "text"
    blocks: tuple[Block, ...] = ()
    parent_message_id: str | None = None
    author: str | None = None
    model: str | None = None
    call_id: str | None = None
    superseded: bool = False
    withheld: str | None = None  # the reason, when the turn marks it as never sent to a client
    time_flag: str | None = None


class ModelCall(HarnessEvent, frozen=True, gc=False, kw_only=True, tag="model_call"):
    """One call of a model."""

    call_id: str
    provider: str | None = None
    model: str | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    latency_ms: Integer | None = None
    stop_reason: str | None = None
    error: str | None = None


class Usage(HarnessEvent, frozen=True, gc=False, kw_only=True, tag="usage"):
    """Tokens of one model call, in the provider's own counting; repeated for one call_id, the last counts.

    `input_uncached_tokens` compares between providers: Claude's input excludes cache, Codex' includes it (ruling 20).
    """

    call_id: str
    provider: str | None = None
    model: str | None = None
    input_tokens: Integer | None = None
    output_tokens: Integer | None = None
    cache_read_tokens: Integer | None = None
    cache_write_tokens: Integer | None = None
    reasoning_tokens: Integer | None = None
    input_uncached_tokens: Integer | None = None


Action = Literal[
    "file_read", "file_write", "file_edit", "shell", "search", "web", "agent", "subagent", "git", "other"
]  # fmt: skip


class ToolCall(EdgeEvent, frozen=True, gc=False, kw_only=True, tag="tool_call"):
    """The model asks for a tool. `arguments` is the JSON text as the provider wrote it, after redaction."""

    tool_call_id: str
    name: str
    arguments: str | None = None
    message_id: str | None = None
    server: str | None = None
    action: Action = "other"
    command: str | None = None
    path: str | None = None
    superseded: bool = False
    time_flag: str | None = None


class ToolResult(EdgeEvent, frozen=True, gc=False, kw_only=True, tag="tool_result"):
    """What the tool gave back; `is_error` None = unknown; `parts` name images and documents by digest."""

    tool_call_id: str
    name: str | None = None
    message_id: str | None = None
    text: str | None = None
    parts: tuple[Block, ...] = ()
    is_error: bool | None = None
    exit_code: Integer | None = None
    duration_ms: Integer | None = None
    superseded: bool = False
    time_flag: str | None = None


class ContextSnapshot(HarnessEvent, frozen=True, gc=False, kw_only=True, tag="context_snapshot"):
    """What a model call was given."""

    boundary: Literal["session_start", "resume", "subagent_start", "compaction"]
    inheritance: str | None = None
    pre_tokens: Integer | None = None
    post_tokens: Integer | None = None
    call_id: str | None = None
