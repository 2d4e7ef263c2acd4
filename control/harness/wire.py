r"""What Control tells a harness, and what a harness may say back: NDJSON in both directions (docs/control.md).

To the harness, one object:
    {"type":"turn","conversation_id":…,"turn_id":…,"dispatch_id":…,"persona_id":…,"prompt":…,"history":[…],
     "control":{"url":…,"credential":"pcd_…"}}
Back, one event of the vocabulary (facts.events) a line — message, model_call, usage, tool_call, tool_result,
context_snapshot, session_updated — and as the last line
    {"type":"done","status":"completed"}   or   {"type":"done","status":"failed","failure_code":…,"failure_message":…}

Ids, the turn and the dispatch are Control's to set: a line that names another turn is refused, and so is one that
puts words into a person's mouth. A stream that ends without `done` is a turn that failed.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from facts import codec
from facts.events import (
    AnyEvent,
    ContextSnapshot,
    Message,
    ModelCall,
    SessionUpdated,
    ToolCall,
    ToolResult,
    Usage,
)
from polyc import strict_json
from polyc.appending import Draft
from polyc.errors import RefusedError
from polyc.limits import HARNESS_LINE_SIZE_BYTES_MAX

_EVENTS: Final = Message | ModelCall | Usage | ToolCall | ToolResult | ContextSnapshot | SessionUpdated
_KINDS: Final = frozenset(
    {"message", "model_call", "usage", "tool_call", "tool_result", "context_snapshot", "session_updated"}
)


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done", tag_field="type", forbid_unknown_fields=True):
    """The harness's last line."""

    status: Literal["completed", "failed"]
    failure_code: str | None = None
    failure_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessSaid:
    """One event, complete and ready to be appended."""

    event: AnyEvent
    draft: Draft


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What a harness is asked to do. The credential speaks for this dispatch alone."""

    conversation_id: str
    turn_id: str
    dispatch_id: str
    persona_id: str
    prompt: str
    history: tuple[dict[str, str], ...]
    control_url: str
    credential: str

    def __repr__(self) -> str:
        return f"TurnRequest(dispatch_id={self.dispatch_id!r})"

    def encode(self) -> bytes:
        """The request's line, without its newline."""
        return msgspec.json.encode(
            {
                "type": "turn",
                "conversation_id": self.conversation_id,
                "turn_id": self.turn_id,
                "dispatch_id": self.dispatch_id,
                "persona_id": self.persona_id,
                "prompt": self.prompt,
                "history": self.history,
                "control": {"url": self.control_url, "credential": self.credential},
            }
        )


def read_line(line: bytes, *, turn_id: str, new_id: str) -> HarnessSaid | Done:
    """The event or the end that a line states; RefusedError (the turn then fails) for anything else.

    1. Bounded, one JSON object, no member of it twice (of which readers could differ), a kind that harnesses may say.
    2. `id`, `turn_id` and a message's id are completed; another turn is refused. 3. It fits its type. 4. It does not
    speak as a person.
    """
    # 1
    if len(line) > HARNESS_LINE_SIZE_BYTES_MAX:
        raise RefusedError("a line of the harness is too long", code="resource_exhausted")
    value = _object(line)
    try:
        kind = value.get("type")
        if kind == "done":
            return msgspec.convert(value, Done)
        if kind not in _KINDS:
            raise RefusedError("a line of the harness is not an event that a harness may say")
        # 2
        if value.setdefault("turn_id", turn_id) != turn_id or value.get("dispatch_id") is not None:
            raise RefusedError("a line of the harness names another turn")
        value["id"] = value.get("id") or new_id
        if kind == "message":
            value["message_id"] = value.get("message_id") or new_id
        # 3
        event: AnyEvent = msgspec.convert(value, _EVENTS, strict=True)
    except msgspec.DecodeError as error:
        raise RefusedError(f"a line of the harness does not fit the vocabulary: {codec.misfit(error)}") from None
    except (UnicodeError, RecursionError):
        raise RefusedError("a line of the harness does not fit the vocabulary") from None
    # 4
    if isinstance(event, Message) and event.role == "user" and event.material_origin in _PERSONS:
        raise RefusedError("a harness does not speak as a person")
    return HarnessSaid(event=event, draft=codec.encode(event))


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = strict_json.decode(line)
    except ValueError as error:
        raise RefusedError(f"a line of the harness cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise RefusedError("a line of the harness is no JSON object")
    return value


_PERSONS: Final = frozenset({"human_authored", "operator_command"})
