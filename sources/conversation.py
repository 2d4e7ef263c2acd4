"""A conversation as a provider sees it: whose it is, its model calls, and the segments its events come in."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

import msgspec

from facts.events import Block, ToolCall
from polyc.appending import Draft
from polyc.ids import Partition, imported_partition


class Identity(msgspec.Struct, frozen=True):
    """Whose history: ruling 13 makes the partition of it."""

    provider: str
    native_id: str
    agent_id: str = ""

    @property
    def partition(self) -> Partition:
        """`conv-imp-…`."""
        return imported_partition(self.provider, self.native_id, self.agent_id)


class Segment(msgspec.Struct, frozen=True):
    """Events that belong together: a closed turn, or what was said between turns, or the open end of a file.

    `provisional`: a turn that closes where the file ends for now; it is told again, as it is then, when the file goes
    on. Only a followed telling has such, and each `PAUSE` of it says that the file ends there for now.
    """

    drafts: tuple[Draft, ...]
    turn: Literal["none", "closed", "open"]
    provisional: bool = False


PAUSE: Final = Segment((), "none")


class Tokens(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a call used, in the provider's own counting (ruling 20)."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    input_uncached_tokens: int | None = None


@dataclass(slots=True)
class Call:
    """One call of a model, as far as its records were read."""

    call_id: str
    message_id: str
    at: datetime | None = None
    time_flag: str | None = None
    ended_at: datetime | None = None
    model: str | None = None
    parent_message_id: str | None = None
    author: str | None = None
    stop_reason: str | None = None
    error: str | None = None
    latency_ms: int | None = None
    blocks: list[Block] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: Tokens | None = None
    superseded: bool = False
    counted: bool = True  # False: told as a message, but its call and usage belong to another record

    @property
    def speaks(self) -> bool:
        """Whether it says something to the person, beside thinking and asking for tools."""
        return any(block.type not in {"thinking", "tool_use"} for block in self.blocks)
