"""Plain statements for formats whose conversation is a list of messages: a provider yields them, `tell` does the rest.

The statements are few on purpose: who said what, what a call asked and got, what it cost, where a turn ended. The
rules of turns are the teller's.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from facts.events import (
    Block,
    MaterialOrigin,
    Message,
    MessageKind,
    Role,
    SessionLink,
    Superseded,
    ToolCall,
    ToolResult,
    TurnStatus,
)
from sources.content import as_json, text_block
from sources.conversation import Identity, Segment, Tokens
from sources.provider import Context
from sources.teller import Teller
from sources.times import When
from sources.tool_actions import tool_use

NEVER = When(None)


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What the source knows of the conversation as a whole."""

    session_id: str | None = None
    source_path: str | None = None
    when: When = NEVER
    title: str | None = None
    cwd: str | None = None
    repo: str | None = None
    git_branch: str | None = None
    links: tuple[tuple[Literal["subagent", "fork", "resume", "compaction"], Identity, str], ...] = ()


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A person speaks: a turn begins."""

    key: str
    when: When
    blocks: tuple[Block, ...]
    origin: MaterialOrigin = "human_authored"
    parent: str | None = None
    superseded: bool = False


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What is no speech: told in the open turn, or in the next one. `error`: the last word so far says it failed."""

    key: str
    when: When
    text: str
    origin: MaterialOrigin = "runtime_protocol"
    role: Role = "system"
    kind: MessageKind = "notice"
    author: str | None = None
    error: str | None = None
    superseded: bool = False


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool. `waits` False: no result of it is ever recorded."""

    tool_call_id: str
    name: str
    arguments: Any = None
    server: str | None = None
    when: When | None = None
    waits: bool = True


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The model speaks, or asks: one call of it. Statements of the same key are one call."""

    key: str
    when: When
    blocks: tuple[Block, ...] = ()
    asked: tuple[Asked, ...] = ()
    model: str | None = None
    usage: Tokens | None = None
    ended: When | None = None
    stop_reason: str | None = None
    error: str | None = None
    parent: str | None = None
    superseded: bool = False


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A tool answered."""

    key: str
    when: When
    tool_call_id: str
    name: str | None = None
    text: str | None = None
    parts: tuple[Block, ...] = ()
    is_error: bool | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    superseded: bool = False


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The source states (or its rules infer) the end of the open turn."""

    when: When
    status: TurnStatus = "completed"
    evidence: Literal["stated", "inferred"] = "stated"
    code: str | None = None
    message: str | None = None


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that left the live path."""

    key: str
    when: When
    message_ids: tuple[str, ...]
    reason: Literal["rewound", "rolled_back", "replaced"] = "rewound"


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the session now."""

    when: When
    title: str | None = None
    cwd: str | None = None


Statement = Prompt | Notice | Answer | Result | End | Gone | Named


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation whose file is read anew for each telling."""

    identity: Identity
    read: Callable[[Context], tuple[Opening, Iterable[Statement]]]

    def segments(self, context: Context) -> Iterator[Segment]:
        """Its events in order."""
        opening, statements = self.read(context)
        yield from tell(self.identity, opening, statements, context)


def tell(identity: Identity, opening: Opening, statements: Iterable[Statement], context: Context) -> Iterator[Segment]:
    """The events of a conversation that is a list of statements."""
    teller = Teller(identity, redactor=context.redactor)
    opened = False
    for statement in statements:
        if not opened:
            opened = True
            _open(teller, opening, context)
        _state(teller, statement)
        yield from teller.take()
    if opened:
        yield from teller.finish(level=context.level)
        context.counts.untold = teller.has_untold


def _open(teller: Teller, opening: Opening, context: Context) -> None:
    links: list[SessionLink] = [
        teller.link(kind, parent.partition, evidence) for kind, parent, evidence in opening.links
    ]
    teller.open(
        ordinal=context.ordinal,
        at=opening.when.at,
        session_id=opening.session_id,
        source_path=opening.source_path,
        links=links,
        title=opening.title,
        cwd=opening.cwd,
        repo=opening.repo,
        git_branch=opening.git_branch,
    )


def _state(teller: Teller, statement: Statement) -> None:
    match statement:
        case Prompt():
            teller.prompt(_prompt(teller, statement))
        case Notice():
            teller.context(_notice(teller, statement), error=statement.error)
        case Answer():
            _answer(teller, statement)
        case Result():
            teller.result(_result(teller, statement))
        case End():
            teller.end(
                statement.status,
                statement.evidence,
                statement.when.at,
                code=statement.code,
                message=statement.message,
            )
            if statement.evidence == "stated":
                teller.settle()
        case Gone():
            teller.replaced(
                Superseded(
                    id=teller.event_id("superseded", statement.key),
                    occurred_at=statement.when.at,
                    reason=statement.reason,
                    message_ids=statement.message_ids,
                )
            )
        case Named():
            title_source = "provider" if statement.title else None
            teller.session(statement.when.at, title=statement.title, title_source=title_source, cwd=statement.cwd)


def _prompt(teller: Teller, said: Prompt) -> Message:
    return Message(
        id=teller.event_id("message", said.key),
        occurred_at=said.when.at,
        message_id=said.key,
        role="user",
        material_origin=said.origin,
        blocks=said.blocks,
        parent_message_id=said.parent,
        superseded=said.superseded,
        time_flag=said.when.flag,
    )


def _notice(teller: Teller, said: Notice) -> Message:
    return Message(
        id=teller.event_id("message", said.key),
        occurred_at=said.when.at,
        message_id=said.key,
        role=said.role,
        material_origin=said.origin,
        kind=said.kind,
        blocks=(text_block(said.text),) if said.text else (),
        author=said.author,
        superseded=said.superseded,
        time_flag=said.when.flag,
    )


def _answer(teller: Teller, said: Answer) -> None:
    call = teller.call(said.key, said.when.at)
    call.time_flag = said.when.flag if not call.blocks else call.time_flag
    call.model = said.model or call.model
    call.parent_message_id = said.parent or call.parent_message_id
    call.superseded = said.superseded
    call.usage = said.usage or call.usage
    call.stop_reason = said.stop_reason or call.stop_reason
    call.error = said.error or call.error
    call.ended_at = (said.ended.at if said.ended else said.when.at) or call.ended_at
    call.blocks.extend(said.blocks)
    for asked in said.asked:
        use = tool_use(asked.name, asked.arguments)
        when = asked.when or said.when
        arguments = {"input": asked.arguments} if isinstance(asked.arguments, str) else asked.arguments
        event = ToolCall(
            id=teller.event_id("tool_call", f"{call.message_id}:{asked.tool_call_id}:{len(call.tool_calls)}"),
            occurred_at=when.at,
            tool_call_id=asked.tool_call_id,
            name=asked.name,
            arguments=None if arguments is None else as_json(arguments),
            message_id=call.message_id,
            server=asked.server or use.server,
            action=use.action,
            command=use.command,
            path=use.path,
            superseded=said.superseded,
            time_flag=when.flag,
        )
        call.blocks.append(Block(type="tool_use", tool_call_id=asked.tool_call_id))
        if asked.waits:
            teller.ask(call, event)
        else:
            call.tool_calls.append(event)


def _result(teller: Teller, said: Result) -> ToolResult:
    whole = text_block(said.text) if said.text is not None else None
    parts = said.parts
    if whole is not None and whole.flag is not None:
        parts = (*parts, msgspec.structs.replace(whole, text=None))
    return ToolResult(
        id=teller.event_id("tool_result", said.key),
        occurred_at=said.when.at,
        tool_call_id=said.tool_call_id,
        name=said.name,
        text=whole.text if whole is not None else None,
        parts=parts,
        is_error=said.is_error,
        exit_code=said.exit_code,
        duration_ms=said.duration_ms,
        superseded=said.superseded,
        time_flag=said.when.flag,
    )
