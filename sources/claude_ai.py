"""Claude.ai's export: `conversations.json` (or a zip of it), each conversation a list of messages.

A turn is a human's message and the assistant's after it; the export has no stop mark, model or usage. The flat `text`
of a message repeats its content. Extracted texts of attachments are context, not speech.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from facts.events import Block
from sources import fields
from sources.content import plain_text, text_block
from sources.conversation import Identity
from sources.dialogue import Answer, Asked, Notice, Opening, Prompt, Result, Statement, Talk
from sources.exports import Conversation, Element, beginning, conversations
from sources.lines import SetAside
from sources.provider import Context, Provider
from sources.times import read_time

NAME: Final = "claude-ai"


def recognise(path: Path, head: bytes) -> bool:
    """Conversations with `chat_messages`."""
    return path.suffix in {".json", ".zip"} and b'"chat_messages"' in beginning(path, head)


def tellings(path: Path, set_aside: SetAside) -> Iterator[Talk]:
    """Each conversation of the export."""
    for name, element in conversations(path, _name, set_aside=set_aside):
        yield Talk(Identity(NAME, name), partial(_talk, path, element))


def _name(conversation: Conversation) -> str | None:
    return fields.text(conversation.get("uuid"))


def _talk(path: Path, element: Element, context: Context) -> tuple[Opening, Iterator[Statement]]:
    conversation = element.decode()
    opening = Opening(
        session_id=_name(conversation),
        source_path=str(path),
        when=read_time(conversation.get("created_at")),
        title=fields.text(conversation.get("name")) or fields.text(conversation.get("title")),
    )
    return opening, _statements(conversation, context)


def _statements(conversation: Conversation, context: Context) -> Iterator[Statement]:
    for place, message in enumerate(map(fields.mapping, fields.items(conversation.get("chat_messages")))):
        context.counts.records += 1
        key = fields.text(message.get("uuid")) or f"message-{place}"
        parent = fields.text(message.get("parent_message_uuid"))
        when = read_time(message.get("created_at"))
        content = [fields.mapping(part) for part in fields.items(message.get("content"))]
        if message.get("sender") == "human":
            for number, attachment in enumerate(map(fields.mapping, fields.items(message.get("attachments")))):
                text = fields.text(attachment.get("extracted_content"))
                if text is not None:
                    name = fields.text(attachment.get("file_name"))
                    yield Notice(
                        key=f"{key}:attachment:{number}",
                        when=when,
                        text=text,
                        origin="runtime_context",
                        role="user",
                        author=name,
                    )
            blocks = [*_texts(message, content), *_files(message)]
            yield Prompt(key=key, when=when, blocks=tuple(blocks), parent=parent)
        else:
            yield from _answer(key, message, content, parent)


def _answer(key: str, message: Conversation, content: list[dict[str, Any]], parent: str | None) -> Iterator[Statement]:
    when = read_time(message.get("created_at"))
    uses = [part for part in content if part.get("type") == "tool_use"]
    results = [part for part in content if part.get("type") == "tool_result"]
    ids = [fields.text(use.get("id")) or f"{key}:{place}" for place, use in enumerate(uses)]
    answered = [fields.text(result.get("tool_use_id")) for result in results]
    yield Answer(
        key=key,
        when=when,
        blocks=tuple(_texts(message, content)),
        asked=tuple(
            Asked(tool_call_id=ident, name=fields.text(use.get("name")) or "unknown", arguments=use.get("input"))
            for ident, use in zip(ids, uses, strict=True)
        ),
        parent=parent,
    )
    for place, result in enumerate(results):
        ident = answered[place] or (ids[place] if place < len(ids) else f"{key}:{place}")
        is_error = result.get("is_error")
        yield Result(
            key=f"{key}:result:{place}",
            when=when,
            tool_call_id=ident,
            name=fields.text(result.get("name")),
            text=plain_text(result.get("content")),
            is_error=is_error if isinstance(is_error, bool) else None,
        )
    if results:  # what a message says after its tools is its answer; in the list it stands in the same message
        yield Answer(key=key, when=when)


def _texts(message: Conversation, content: list[dict[str, Any]]) -> list[Block]:
    blocks = []
    for part in content:
        match part.get("type"):
            case "text" | "voice_note":
                blocks.append(text_block(plain_text(part.get("text", part.get("transcript")))))
            case "thinking":
                blocks.append(text_block(plain_text(part.get("thinking")), "thinking"))
    if not blocks and (flat := fields.text(message.get("text"))):
        blocks.append(text_block(flat))
    return blocks


def _files(message: Conversation) -> list[Block]:
    files = [*fields.items(message.get("files")), *fields.items(message.get("attachments"))]
    return [
        Block(
            type="document",
            media_type=fields.text(one.get("file_type")),
            byte_length=fields.count(one.get("file_size")),
            flag="export",
        )
        for one in map(fields.mapping, files)
    ]


CLAUDE_AI: Final = Provider(name=NAME, recognise=recognise, tellings=tellings, always_final=True)
