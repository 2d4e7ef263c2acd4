"""Claude Code's content: blocks, usage snapshots, and what of a person's message the harness put before it."""

import re
from typing import Any, Final

from facts.events import Block
from sources import fields
from sources.content import binary_block, bounded, data_url_block, plain_text, text_block
from sources.conversation import Call, Tokens

NOTICE_BYTES_MAX: Final = 64 * 1024  # what is kept of a record that is no speech

REMINDER: Final = re.compile(
    r"\s*<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics|post-tool-use-hook)>.*?</\1>\s*", re.DOTALL
)
_REPLACED_LEAST: Final = 8  # a shorter text that begins the next one is no earlier snapshot of it


def add_block(call: Call, block: Block) -> None:
    """A block of the call; a repeated one changes nothing, a grown snapshot takes the earlier one's place."""
    for place in range(len(call.blocks) - 1, -1, -1):
        known = call.blocks[place]
        if known.type != block.type:
            continue
        if known == block:
            return
        if known.text and block.text and len(known.text) >= _REPLACED_LEAST and block.text.startswith(known.text):
            call.blocks[place] = block
            return
        break
    call.blocks.append(block)


def count_usage(call: Call, usage: Any) -> None:
    """Keep the snapshot with the most output tokens (streaming partials grow); input excludes cache here."""
    if not isinstance(usage, dict):
        return
    output = fields.count(usage.get("output_tokens"))
    if call.usage is not None and (call.usage.output_tokens or 0) > (output or 0):
        return
    fresh = fields.count(usage.get("input_tokens"))
    call.usage = Tokens(
        input_tokens=fresh,
        output_tokens=output,
        cache_read_tokens=fields.count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=fields.count(usage.get("cache_creation_input_tokens")),
        input_uncached_tokens=fresh,
    )


def speech(parts: list[Any]) -> tuple[list[Block], list[str]]:
    """What the person said, and the reminders that the harness put before it."""
    reminders: list[str] = []
    blocks: list[Block] = []
    for part in parts:
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            blocks.extend(blocks_of([part]))
            continue
        while found := REMINDER.match(text):
            reminders.append(found[0].strip())
            text = text[found.end() :]
        if text.strip():
            blocks.append(text_block(text))
    return blocks, reminders


def blocks_of(parts: list[Any]) -> list[Block]:
    """The blocks of a message's parts, whatever they are."""
    blocks: list[Block] = []
    for part in parts:
        if isinstance(part, str):
            blocks.append(text_block(part))
        elif isinstance(part, dict) and fields.text(part.get("type")) in {"image", "document"}:
            blocks.append(binary(part))
        elif part is not None:
            blocks.append(text_block(bounded(plain_text([part]), NOTICE_BYTES_MAX)))
    return blocks


def binary(part: dict[str, Any]) -> Block:
    """An image or a document, by reference."""
    kind = "document" if part.get("type") == "document" else "image"
    source = part.get("source")
    if not isinstance(source, dict):
        return Block(type="image" if kind == "image" else "document", flag="absent")
    url = source.get("url")
    if isinstance(url, str):
        return data_url_block("image" if kind == "image" else "document", url)
    return binary_block(
        "image" if kind == "image" else "document", source.get("data"), media_type=fields.text(source.get("media_type"))
    )
