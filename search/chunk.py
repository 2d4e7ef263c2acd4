"""A chunk: the unit that is indexed, found, shown and proved. A value; where it comes from is `search.build.chunker`.

A chunk is a part of one event of one committed turn. Its text is a slice of the event's canonical text (already
redacted when the event was made, ruling 18): `start_byte` and `end_byte` say which, in UTF-8, and the bytes of the
slice are exactly the chunk's text. The canonical text of a message is `messages.text`, of an output
`tool_calls.result_text`, of a call the lines of `render_call`.
"""

import hashlib
from typing import Final, Literal

import msgspec

CHUNKER: Final = "turn/1"  # 1200 characters, 150 of overlap: about 256 and 32 tokens of MiniLM
REDACTION: Final = "at-source"  # the events name the policy that made them; nothing is redacted again here

Kind = Literal["transcript", "summary", "call", "output", "other"]
KINDS: Final[tuple[Kind, ...]] = ("transcript", "summary", "call", "output", "other")  # the number is the position


class Chunk(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """See the module. `position` is the event that said it; `evidence` all events that the text rests on.

    `blanks` are ranges of characters of the text that hold encoded data: they are shown, but no words.
    """

    partition: str
    source_incarnation: str
    turn_id: str
    run_id: str | None
    kind: Kind
    position: int
    evidence: tuple[int, ...]
    text: str
    fields: tuple[str, ...]
    start_byte: int
    end_byte: int
    occurred_at_us: int | None
    role: str
    origin: str
    tool: str | None
    tool_call_id: str | None
    paths: tuple[str, ...]
    is_error: bool | None
    capped: bool  # the event was longer than what is indexed of it
    blanks: tuple[tuple[int, int], ...] = ()

    @property
    def chunk_id(self) -> str:
        """32 hex digits that stay the same however often the chunk is built again."""
        place = f"{self.position}\x1f{self.kind}\x1f{self.start_byte}"
        text = f"{CHUNKER}\x1f{self.partition}\x1f{self.source_incarnation}\x1f{place}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def words_text(self) -> str:
        """The text as it is indexed: of the same length, encoded data blanked."""
        text = self.text
        for start, end in self.blanks:
            text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
        return text


class SessionMeta(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What filters and answers need of a conversation: the current row of `sessions`."""

    title: str | None = None
    origin: str | None = None
    provider_session_id: str | None = None
    repo: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    updated_at_us: int | None = None
    parent: str | None = None
    root: str | None = None
    link_kind: str | None = None
    agent_id: str | None = None
