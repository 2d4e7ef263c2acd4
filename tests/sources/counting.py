"""A small reader of events, independent of the folds: what committed turns add up to."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from facts.events import (
    AnyEvent,
    Message,
    ModelCall,
    ToolCall,
    ToolResult,
    TurnComplete,
    TurnStart,
    Usage,
)
from polyc.vocabulary import BY_CODE

_decoders = {t.__struct_config__.tag: msgspec.json.Decoder(t) for t in AnyEvent.__args__}


def event_of(draft):
    """The event of a draft."""
    return _decoders[BY_CODE[draft.event_type].kind].decode(draft.payload)


@dataclass
class Tally:
    """Sums over committed turns, in the words of the corpus' gold file."""

    turns: int = 0
    statuses: Counter = field(default_factory=Counter)
    evidence: Counter = field(default_factory=Counter)
    unfinished: int = 0
    prompts: int = 0
    model_calls: int = 0
    messages: int = 0
    tool_calls: Counter = field(default_factory=Counter)
    tool_results: int = 0
    tool_errors: int = 0
    usage: dict = field(default_factory=dict)

    def add(self, drafts: Iterable) -> None:
        """Count one conversation."""
        events = [event_of(draft) for draft in drafts]
        ended = {e.turn.turn_id: e for e in events if isinstance(e, TurnComplete)}
        self.unfinished += sum(isinstance(e, TurnStart) and e.turn.turn_id not in ended for e in events)
        self.turns += len(ended)
        for marker in ended.values():
            self.statuses[marker.status] += 1
            self.evidence[marker.evidence] += 1
        for event in events:
            if getattr(event, "turn_id", None) not in ended:
                continue
            match event:
                case Message(role="user", material_origin="human_authored"):
                    self.prompts += 1
                    self.messages += 1
                case Message(role="assistant"):
                    self.messages += 1
                case ModelCall():
                    self.model_calls += 1
                case ToolCall():
                    self.tool_calls[event.name] += 1
                case ToolResult():
                    self.tool_results += 1
                    self.tool_errors += event.is_error is True
                case Usage():
                    cached = event.reasoning_tokens if event.cache_write_tokens is None else event.cache_write_tokens
                    row = self.usage.setdefault(event.model, [0, 0, 0, 0])
                    for place, value in enumerate(
                        (event.input_tokens, event.output_tokens, event.cache_read_tokens, cached)
                    ):
                        row[place] += value or 0
