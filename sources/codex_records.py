"""Codex's records → statements to the teller: turns, pairs of one message, model calls, results, tokens."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from facts.events import (
    Block,
    ContextSnapshot,
    MaterialOrigin,
    Message,
    MessageKind,
    Role,
    SessionLink,
    ToolCall,
    ToolResult,
)
from sources import fields
from sources.codex_lines import Lineage, Record, decode_record, key_of
from sources.codex_results import read_output
from sources.codex_speech import Pairs, classify, texts_of
from sources.codex_titles import title_of
from sources.content import as_json, bounded, data_url_block, text_block
from sources.conversation import Call, Identity, Segment, Tokens
from sources.foreign_json import value_in
from sources.keys import KeyChain
from sources.provider import Context
from sources.teller import Teller
from sources.times import When, read_time
from sources.tool_actions import tool_use

NOTICE_BYTES_MAX: Final = 64 * 1024

SILENT_EVENTS: Final = frozenset({
    "exec_command_begin", "exec_command_end", "exec_command_output_delta", "patch_apply_begin", "patch_apply_end",
    "mcp_tool_call_begin", "mcp_tool_call_end", "web_search_begin", "web_search_end", "turn_diff", "plan_update",
    "image_generation_begin", "image_generation_end", "view_image_tool_call", "context_compacted", "item_started",
    "item_completed", "sub_agent_activity", "thread_goal_updated", "background_event",
    "agent_reasoning_section_break", "raw_response_item", "session_configured", "entered_review_mode",
    "exited_review_mode", "shutdown_complete", "collab_agent_spawn_begin", "collab_agent_spawn_end",
    "collab_agent_interaction_begin", "collab_agent_interaction_end", "collab_waiting_begin", "collab_waiting_end",
    "collab_close_begin", "collab_close_end", "collab_resume_begin", "collab_resume_end", "stream_error", "warning",
    "deprecation_notice", "undo_started", "undo_completed", "exec_approval_request", "apply_patch_approval_request",
    "dynamic_tool_call_request", "dynamic_tool_call_response",
})  # fmt: skip
SILENT_ITEMS: Final = frozenset({"ghost_snapshot", "compaction", "compaction_summary", "context_compaction", "other"})


class Reader:
    """Reads one rollout from its beginning."""

    def __init__(self, identity: Identity, *, context: Context, path: Path, lineage: Lineage) -> None:
        self.context = context
        self.teller = Teller(identity, redactor=context.redactor)
        self.links: Callable[[Reader], Iterable[SessionLink]] = lambda _reader: ()
        self._path = path
        self._session_id = lineage.session_id
        self._chain = KeyChain(lineage.eldest)
        self._is_copy = False
        self._meta: dict[str, Any] = {}
        self._opened = False
        self._model: str | None = None
        self._call: Call | None = None
        self._calls = 0
        self._answered = False
        self._pending: Tokens | None = None
        self._total: Any = None
        self._turn_stated = False  # whether the open turn's beginning was stated
        self._turn_named: str | None = None  # the id that was stated with it
        self._pairs = Pairs()
        self._tools: dict[str, str] = {}

    def segments(self) -> Iterator[Segment]:
        """All events of the file, turn by turn."""
        counts = self.context.counts
        for found in self.context.records(self._path, self._decode):
            if found is None:
                counts.untold = self.teller.has_untold
                yield from self.teller.pause()
                continue
            offset, record = found
            counts.records += 1
            if record.kind == "session_meta":
                self._meta = self._meta or record.item
            elif self._is_copy:
                counts.copies += 1
                self._remember(record)
            else:
                self._read(record, offset)
                yield from self.teller.take()
        self._end_call()
        yield from self.teller.finish(level=self.context.level)
        counts.untold = self.teller.has_untold

    def _decode(self, line: bytes) -> Record:
        if self.context.foreign:
            key = key_of(self._chain, line)
            self._is_copy = key is not None and key[0] in self.context.foreign
        return decode_record(line)

    def _remember(self, record: Record) -> None:
        """What a copied record leaves behind: the model in use, the totals so far, names of tools."""
        if record.kind == "turn_context":
            self._model = fields.text(record.item.get("model")) or self._model
        elif record.item.get("type") == "token_count":
            info = record.item.get("info")
            self._total = info.get("total_token_usage") if isinstance(info, dict) else self._total

    def _read(self, record: Record, offset: int) -> None:
        when = read_time(record.stamp, naive_is_utc=True)
        item = record.item
        if not self._opened:
            self._open(when)
        match record.kind:
            case "turn_context":
                self._model = fields.text(item.get("model")) or self._model
                self.teller.session(when.at, cwd=fields.text(item.get("cwd")))
            case "response_item":
                self._item(item, when, offset)
            case "event_msg":
                self._event(item, when, offset)
            case "compacted":
                self._compacted(item, when, offset)
            case "state":
                self.context.counts.skipped["state"] += 1
            case _:
                self._unknown(record.kind, item, when, offset)

    def _open(self, when: When) -> None:
        self._opened = True
        meta = self._meta
        git = meta.get("git")
        git = git if isinstance(git, dict) else {}
        at = read_time(meta.get("timestamp"), naive_is_utc=True).at or when.at
        self.teller.open(
            ordinal=self.context.ordinal,
            at=at,
            session_id=fields.text(meta.get("id")),
            source_path=str(self._path),
            links=tuple(self.links(self)),
            title=title_of(self._path, self._session_id),
            cwd=fields.text(meta.get("cwd")),
            repo=fields.text(git.get("repository_url")),
            git_branch=fields.text(git.get("branch")),
        )

    # --- events --------------------------------------------------------------------------------------------------

    def _event(self, item: dict[str, Any], when: When, offset: int) -> None:
        kind = fields.text(item.get("type")) or "untyped"
        match kind:
            case "user_message":
                self._user([fields.text(item.get("message")) or ""], _images(item), when, offset, side="event")
            case "agent_message":
                self._spoke(fields.text(item.get("message")) or "", "text", when, side="event")
            case "agent_reasoning" | "agent_reasoning_raw_content":
                self._spoke(fields.text(item.get("text")) or "", "thinking", when, side="event")
            case "token_count":
                self._tokens(item.get("info"), when)
            case "task_started" | "turn_started":
                self._end_call()
                self._pairs.forget()
                self._turn_stated = True
                self.teller.states_ends = True
                native = self._turn_named = fields.text(item.get("turn_id"))
                self.teller.begin(native or self.teller.event_id("turn", str(offset)), when.at, evidence="stated")
            case "task_complete" | "turn_complete":
                self._ended(item, when, completed=True)
            case "turn_aborted":
                self._ended(item, when, completed=False)
            case "error":
                self._failed(item, when, offset)
            case "thread_rolled_back":
                self._rolled_back(item, when, offset)
            case "thread_name_updated":
                if name := fields.text(item.get("thread_name")):
                    self.teller.session(when.at, title=name, title_source="thread_name")
            case _ if kind in SILENT_EVENTS:
                self.context.counts.skipped[kind] += 1
            case _:
                self._unknown(kind, item, when, offset)

    def _ended(self, item: dict[str, Any], when: When, *, completed: bool) -> None:
        named = fields.text(item.get("turn_id"))
        is_late = self._turn_stated and None not in {named, self._turn_named} and named != self._turn_named
        if is_late or not self.teller.in_turn:
            return  # the end of a turn that is over
        self._end_call()
        if completed:
            self.teller.end("completed", "stated", when.at)
        else:
            self.teller.end("cancelled", "stated", when.at, code=fields.text(item.get("reason")) or "interrupted")
        self._turn_over()

    def _failed(self, item: dict[str, Any], when: When, offset: int) -> None:
        text = fields.text(item.get("message")) or "error"
        self._notice(f"error:{offset}", text, when)
        if self.teller.in_turn:
            self._end_call()
            info = item.get("codex_error_info")
            code = info if isinstance(info, str) else next(iter(info), "error") if isinstance(info, dict) else "error"
            self.teller.end("failed", "stated", when.at, code=code, message=text)
            self._turn_over()

    def _turn_over(self) -> None:
        self.teller.settle()
        self._turn_stated = False
        self._pairs.forget()

    def _rolled_back(self, item: dict[str, Any], when: When, offset: int) -> None:
        count = item.get("num_turns")
        if isinstance(count, int) and count > 0:
            self._end_call()
            live = [i for i in range(self.teller.turn_index) if i not in self.teller.superseded]
            if live:
                self.teller.supersede(f"rollback:{offset}", when.at, "rolled_back", live[-min(count, len(live))])

    # --- items of a response ---------------------------------------------------------------------------------------

    def _item(self, item: dict[str, Any], when: When, offset: int) -> None:
        kind = fields.text(item.get("type")) or "untyped"
        match kind:
            case "message" if item.get("role") == "assistant":
                for text in texts_of(item.get("content")):
                    self._spoke(text, "text", when, side="item")
            case "message" if item.get("role") == "user":
                self._user(texts_of(item.get("content")), _images(item), when, offset, side="item")
            case "message":
                text = "\n".join(texts_of(item.get("content")))
                self._notice(f"item:{offset}", text, when, origin="runtime_context", role="system")
            case "reasoning":
                self._reasoned(item, when)
            case "function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call" | "web_search_call":
                self._ask(kind, item, when, offset)
            case "image_generation_call":
                self._ask(kind, {**item, "result": None}, when, offset)
            case "function_call_output" | "custom_tool_call_output" | "tool_search_output" | "mcp_tool_call_output":
                self._answer(item, when, offset)
            case _ if kind in SILENT_ITEMS:
                self.context.counts.skipped[kind] += 1
            case _:
                self._unknown(kind, item, when, offset)

    def _user(self, texts: list[str], images: list[Block], when: When, offset: int, *, side: str) -> None:
        """A message of role user: context, a command, or a person; each of its texts is judged by itself."""
        said: list[str] = []
        for place, text in enumerate(texts):
            speech = classify(text)
            if speech.origin == "human_authored":
                if speech.context:
                    self._notice(f"context:{offset}", speech.context, when, origin="runtime_context", role="user")
                said.append(speech.text)
            elif not self._pairs.is_second("context", side, text):
                self._notice(f"user:{offset}:{place}", text, when, origin=speech.origin, role="user")
        text = "\n".join(said)
        if not text.strip() and not images:
            return
        if self._pairs.is_second("user", side, text):
            return
        self._end_call()
        message = self._message(f"user:{offset}", [*([text_block(text)] if text else []), *images], when)
        if self._turn_stated and self.teller.in_turn:
            self.teller.say(message)
        else:
            self.teller.prompt(message)

    def _spoke(self, text: str, kind: str, when: When, *, side: str) -> None:
        if not text or self._pairs.is_second(kind, side, text):
            return
        call = self._current(when)
        call.blocks.append(text_block(text, "thinking" if kind == "thinking" else "text"))
        call.ended_at = when.at or call.ended_at

    def _reasoned(self, item: dict[str, Any], when: When) -> None:
        texts = [*texts_of(item.get("summary")), *texts_of(item.get("content"))]
        for text in texts:
            self._spoke(text, "thinking", when, side="item")
        if not texts and fields.text(item.get("encrypted_content")):
            self._current(when).blocks.append(Block(type="thinking", flag="encrypted"))

    def _ask(self, kind: str, item: dict[str, Any], when: When, offset: int) -> None:
        call = self._current(when)
        native = fields.text(item.get("call_id")) or fields.text(item.get("id"))
        tool_call_id = native or f"{call.call_id}:{offset}"
        name = fields.text(item.get("name")) or kind.removesuffix("_call")
        namespace = fields.text(item.get("namespace"))
        arguments = _arguments(kind, item)
        use = tool_use(name, arguments)
        text = item.get("arguments")
        is_json = kind == "function_call" and isinstance(text, str) and not isinstance(arguments, str)
        self._tools[tool_call_id] = name
        call.blocks.append(Block(type="tool_use", tool_call_id=tool_call_id))
        call.ended_at = when.at or call.ended_at
        event = ToolCall(
            turn_id=self.teller.turn_id,
            id=self.teller.event_id("tool_call", f"{call.message_id}:{tool_call_id}:{offset}"),
            occurred_at=when.at,
            tool_call_id=tool_call_id,
            name=name,
            arguments=str(text)
            if is_json
            else as_json({"input": arguments} if isinstance(arguments, str) else arguments),
            message_id=call.message_id,
            server=use.server or namespace,
            action=use.action,
            command=use.command,
            path=use.path,
            time_flag=when.flag,
        )
        if kind in {"web_search_call", "image_generation_call"}:
            call.tool_calls.append(event)  # done by the model's provider: no output is ever recorded
        else:
            self.teller.ask(call, event)

    def _answer(self, item: dict[str, Any], when: When, offset: int) -> None:
        tool_call_id = fields.text(item.get("call_id")) or f"output:{offset}"
        output = read_output(item.get("output", item.get("tools")))
        whole = text_block(output.text)
        self._answered = True
        self.teller.result(
            ToolResult(
                turn_id=self.teller.turn_id,
                id=self.teller.event_id("tool_result", str(offset)),
                occurred_at=when.at,
                tool_call_id=tool_call_id,
                name=self._tools.get(tool_call_id),
                text=whole.text,
                parts=(*output.parts, *([msgspec.structs.replace(whole, text=None)] if whole.flag else [])),
                is_error=output.is_error,
                exit_code=output.exit_code,
                duration_ms=output.duration_ms,
                time_flag=when.flag,
            )
        )

    # --- model calls and their tokens ------------------------------------------------------------------------------

    def _current(self, when: When) -> Call:
        """The model call that is being read; a result answered within it, or its tokens, closed the one before."""
        if self._call is None or self._answered:
            self._call = self._new_call(when)
        return self._call

    def _new_call(self, when: When) -> Call:
        self._calls += 1
        self._answered = False
        call = self.teller.call(f"call-{self._calls}", when.at)
        call.time_flag = when.flag
        call.model = self._model
        call.usage, self._pending = self._pending, None
        return call

    def _tokens(self, info: Any, when: When) -> None:
        total = info.get("total_token_usage") if isinstance(info, dict) else None
        if not isinstance(total, dict) or total == self._total:
            return
        last = info.get("last_token_usage")
        used = last if isinstance(last, dict) else _difference(total, self._total)
        self._total = total
        tokens = _usage(used)
        if self._call is not None and self._call.usage is None:
            self._call.usage = tokens
            self._call = None
            self._answered = False
            return
        self._end_call()
        self._pending = tokens
        if not self.teller.in_turn:
            self._end_call(when)

    def _end_call(self, when: When | None = None) -> None:
        """No more of the current call comes; tokens that found no answer are a call of their own."""
        if self._pending is not None and (self.teller.in_turn or when is not None):
            self._new_call(when or When(None))
        self._call = None
        self._answered = False

    # --- what is no speech -----------------------------------------------------------------------------------------

    def _compacted(self, item: dict[str, Any], when: When, offset: int) -> None:
        self._end_call()
        self.teller.context(
            ContextSnapshot(
                id=self.teller.event_id("compaction", str(offset)), occurred_at=when.at, boundary="compaction"
            )
        )
        text = fields.text(item.get("message"))
        if text is not None:
            self._notice(f"summary:{offset}", text, when, origin="generated_summary", role="user", kind="summary")

    def _unknown(self, kind: str, item: dict[str, Any], when: When, offset: int) -> None:
        self.context.counts.unknown[kind] += 1
        text = bounded(as_json(item), NOTICE_BYTES_MAX)
        self._notice(f"unknown:{offset}", text, when, author=kind)

    def _notice(
        self,
        key: str,
        text: str,
        when: When,
        *,
        origin: MaterialOrigin = "runtime_protocol",
        role: Role = "system",
        kind: MessageKind = "notice",
        author: str | None = None,
    ) -> None:
        self.teller.context(
            Message(
                id=self.teller.event_id("message", key),
                occurred_at=when.at,
                message_id=key,
                role=role,
                material_origin=origin,
                kind=kind,
                blocks=(text_block(text),),
                author=author,
                time_flag=when.flag,
            )
        )

    def _message(self, key: str, blocks: list[Block], when: When) -> Message:
        return Message(
            id=self.teller.event_id("message", key),
            occurred_at=when.at,
            message_id=key,
            role="user",
            material_origin="human_authored",
            blocks=tuple(blocks),
            time_flag=when.flag,
        )


def _arguments(kind: str, item: dict[str, Any]) -> Any:
    """What the tool was given, decoded where it is JSON; a string where it is not."""
    if kind == "function_call":
        text = item.get("arguments")
        if not isinstance(text, str):
            return text if text is not None else {}
        value = value_in(text)
        return text if value is None else value
    if kind == "custom_tool_call":
        return fields.text(item.get("input")) or ""
    action = item.get("action", item.get("arguments"))
    return action if isinstance(action, dict) else {key: item[key] for key in ("query", "prompt") if key in item}


def _images(item: dict[str, Any]) -> list[Block]:
    parts = item.get("content") if isinstance(item.get("content"), list) else item.get("images")
    urls = (
        [part.get("image_url") if isinstance(part, dict) else part for part in parts] if isinstance(parts, list) else []
    )
    return [data_url_block("image", url) for url in urls if isinstance(url, str)]


def _usage(used: dict[str, Any]) -> Tokens:
    """Input includes the cached part here, output the reasoning (A11)."""
    input_tokens, cached = fields.count(used.get("input_tokens")), fields.count(used.get("cached_input_tokens"))
    return Tokens(
        input_tokens=input_tokens,
        output_tokens=fields.count(used.get("output_tokens")),
        cache_read_tokens=cached,
        reasoning_tokens=fields.count(used.get("reasoning_output_tokens")),
        input_uncached_tokens=None if input_tokens is None else max(input_tokens - (cached or 0), 0),
    )


def _difference(total: dict[str, Any], before: Any) -> dict[str, int]:
    known = before if isinstance(before, dict) else {}
    return {
        name: max(value - (fields.count(known.get(name)) or 0), 0)
        for name, value in total.items()
        if fields.count(value) is not None
    }
