"""ChatGPT's export: `conversations.json` (or a zip of it), each conversation a tree of nodes.

The live path leads from `current_node` up to the root; what hangs beside it (an answer regenerated, a prompt edited)
is told after it and marked superseded. A turn is a user's node up to an assistant's with `end_turn` that speaks to
all; one that speaks to a tool asks it. A node whose parent is missing, and a path that runs in a circle, end there.
The export states no tokens.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from facts.events import Block
from sources import fields
from sources.content import as_json, bounded, plain_text, text_block
from sources.conversation import Identity
from sources.dialogue import Answer, Asked, End, Notice, Opening, Prompt, Result, Statement, Talk
from sources.exports import Conversation, Element, beginning, conversations
from sources.lines import SetAside
from sources.provider import Context, Provider
from sources.times import When, read_time

NAME: Final = "chatgpt"
NOTICE_BYTES_MAX: Final = 64 * 1024
_CONTEXTS: Final = frozenset({"user_editable_context", "model_editable_context"})


def recognise(path: Path, head: bytes) -> bool:
    """Conversations with a `mapping` of nodes."""
    if path.suffix not in {".json", ".zip"}:
        return False
    begin = beginning(path, head)
    return b'"mapping"' in begin and b'"create_time"' in begin and b'"polylogue_capture_kind"' not in begin


def tellings(path: Path, set_aside: SetAside) -> Iterator[Talk]:
    """Each conversation of the export."""
    for name, element in conversations(path, _name, set_aside=set_aside):
        yield Talk(Identity(NAME, name), partial(_talk, path, element))


def _name(conversation: Conversation) -> str | None:
    return fields.text(conversation.get("conversation_id")) or fields.text(conversation.get("id"))


def _talk(path: Path, element: Element, context: Context) -> tuple[Opening, Iterator[Statement]]:
    conversation = element.decode()
    opening = Opening(
        session_id=_name(conversation),
        source_path=str(path),
        when=read_time(conversation.get("create_time")),
        title=fields.text(conversation.get("title")),
    )
    return opening, _Tree(conversation, context).statements()


class _Tree:
    def __init__(self, conversation: Conversation, context: Context) -> None:
        self.model = fields.text(conversation.get("default_model_slug"))
        self.nodes = {
            ident: fields.mapping(node) for ident, node in fields.mapping(conversation.get("mapping")).items()
        }
        self.current = fields.text(conversation.get("current_node")) or self._last()
        self.context = context
        self._asked: str | None = None

    def statements(self) -> Iterator[Statement]:
        """The live path, then the branches beside it."""
        live = self.path()
        self.context.counts.records += len(self.nodes)
        for ident in live:
            yield from self._node(ident, superseded=False)
        on_path = set(live)
        for branch in self.branches(on_path):
            self._asked = None
            for ident in branch:
                yield from self._node(ident, superseded=True)

    def path(self) -> list[str]:
        """From the root to the current node; a circle or a missing parent ends it."""
        path: list[str] = []
        ident = self.current
        while ident in self.nodes and ident not in path:
            path.append(ident)
            ident = fields.text(self.nodes[ident].get("parent")) or ""
        return path[::-1]

    def branches(self, on_path: set[str]) -> Iterator[list[str]]:
        """Every other node, each chain of only children together, in the order of the file."""
        children: dict[str, list[str]] = {}
        for ident, node in self.nodes.items():
            children.setdefault(fields.text(node.get("parent")) or "", []).append(ident)
        seen = set(on_path)
        for ident in self.nodes:
            parent = fields.text(self.nodes[ident].get("parent")) or ""
            if ident in seen or (parent in self.nodes and parent not in on_path):
                continue
            if parent and parent not in self.nodes:
                self.context.counts.unknown["orphan"] += 1
            yield self._below(ident, children, seen)

    def _below(self, ident: str, children: dict[str, list[str]], seen: set[str]) -> list[str]:
        found: list[str] = []
        waiting = [ident]
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                found.append(one)
                waiting.extend(reversed(children.get(one, [])))
        return found

    def _last(self) -> str:
        """Without a current node: the last node of the file that is nobody's parent."""
        parents = {fields.text(node.get("parent")) for node in self.nodes.values()}
        return next((ident for ident in reversed(self.nodes) if ident not in parents), "")

    def _node(self, ident: str, *, superseded: bool) -> Iterator[Statement]:
        message = fields.mapping(self.nodes[ident].get("message"))
        if not message:
            return
        key = fields.text(message.get("id")) or ident
        when = read_time(message.get("create_time"))
        content = fields.mapping(message.get("content"))
        hidden = fields.mapping(message.get("metadata")).get("is_visually_hidden_from_conversation") is True
        match fields.mapping(message.get("author")).get("role"):
            case "user" if not hidden and _kind(content) not in _CONTEXTS:
                yield Prompt(key=key, when=when, blocks=_blocks(content), superseded=superseded)
            case "assistant" if _kind(content) not in _CONTEXTS:
                yield from self._assistant(key, message, content, when, superseded=superseded)
            case "tool":
                yield self._tool(key, message, content, when, superseded=superseded)
            case role:
                text = bounded(_text_of(content), NOTICE_BYTES_MAX)
                if text:
                    yield Notice(
                        key=key,
                        when=when,
                        text=text,
                        origin="runtime_context",
                        role="user" if role == "user" else "system",
                        superseded=superseded,
                    )

    def _assistant(
        self, key: str, message: Conversation, content: Conversation, when: When, *, superseded: bool
    ) -> Iterator[Statement]:
        recipient = fields.text(message.get("recipient")) or "all"
        metadata = fields.mapping(message.get("metadata"))
        model = fields.text(metadata.get("model_slug")) or self.model
        asked: tuple[Asked, ...] = ()
        if recipient != "all":
            self._asked = key
            asked = (Asked(tool_call_id=key, name=recipient, arguments=_text_of(content)),)
        yield Answer(
            key=key,
            when=when,
            model=model,
            blocks=() if asked else _blocks(content),
            asked=asked,
            stop_reason=fields.text(fields.mapping(metadata.get("finish_details")).get("type")),
            superseded=superseded,
        )
        status = message.get("status")
        if recipient == "all" and message.get("end_turn") is True and status != "in_progress":
            yield End(when=when)

    def _tool(
        self, key: str, message: Conversation, content: Conversation, when: When, *, superseded: bool
    ) -> Statement:
        asked, self._asked = self._asked, None
        failed = content.get("content_type") == "system_error"
        return Result(
            key=key,
            when=when,
            tool_call_id=asked or key,
            name=fields.text(fields.mapping(message.get("author")).get("name")),
            text=_text_of(content),
            is_error=True if failed else None,
            superseded=superseded,
        )


def _kind(content: Conversation) -> str | None:
    return fields.text(content.get("content_type"))


def _text_of(content: Conversation) -> str:
    """The text of a content, whatever its type."""
    match content.get("content_type"):
        case "thoughts":
            return "\n".join(
                plain_text(fields.mapping(one).get("content")) for one in fields.items(content.get("thoughts"))
            )
        case "reasoning_recap":
            return plain_text(content.get("content"))
        case "user_editable_context" | "model_editable_context":
            return as_json({key: value for key, value in content.items() if key != "content_type" and value})
    parts = content.get("parts")
    if parts is None:
        return plain_text(content.get("text", content.get("result")))
    return "\n".join(part for part in map(_part_text, fields.items(parts)) if part)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    return plain_text(fields.mapping(part).get("text"))


def _blocks(content: Conversation) -> tuple[Block, ...]:
    kind = _kind(content)
    if kind in {"thoughts", "reasoning_recap"}:
        return (text_block(_text_of(content), "thinking"),)
    if kind == "code":
        return (
            Block(
                type="code", text=bounded(_text_of(content), 1024 * 1024), language=fields.text(content.get("language"))
            ),
        )
    pictures = [
        Block(type="image", flag="export", byte_length=fields.count(part.get("size_bytes")))
        for part in fields.items(content.get("parts"))
        if isinstance(part, dict) and part.get("content_type") == "image_asset_pointer"
    ]
    text = _text_of(content)
    return (*pictures, *([text_block(text)] if text else []))


CHATGPT: Final = Provider(name=NAME, recognise=recognise, tellings=tellings, always_final=True)
