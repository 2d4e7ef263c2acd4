"""Which turns are open and which ids were used, as Control's own markers say it (data-model.md, ruling 4).

A dispatch is open from its `dispatch_intent` until a record closes its fence: its `turn_complete`, or the `recovery`
with which a restart says that it found the turn abandoned. Pure: the book is told records in log order.
"""

import msgspec

from facts.events import AnyEvent, DispatchIntent, Recovery, TurnComplete
from polyc.entry import NO_FENCE, Record
from polyc.limits import DISPATCHES_ENDED_MAX

CODES = frozenset({"dispatch_intent", "turn_complete", "recovery"})


class OpenDispatch(msgspec.Struct, frozen=True):
    """A dispatch whose fence is open."""

    dispatch_id: str
    partition: str
    turn_id: str
    fence: bytes
    persona_id: str | None
    harness: str | None
    index: int


class TurnBook(msgspec.Struct):
    """Open dispatches by id, ids of turns and the last harness by conversation, and the dispatches that ended last."""

    open: dict[str, OpenDispatch] = msgspec.field(default_factory=dict)
    turn_ids: dict[str, set[str]] = msgspec.field(default_factory=dict)
    ended: dict[str, str] = msgspec.field(default_factory=dict)
    harnesses: dict[str, str] = msgspec.field(default_factory=dict)

    def apply(self, record: Record, event: AnyEvent) -> None:
        """Take a marker of Control."""
        match event:
            case DispatchIntent():
                self.turn_ids.setdefault(record.partition, set()).add(event.turn.turn_id)
                if event.harness is not None:
                    self.harnesses[record.partition] = event.harness
                self.open[event.dispatch_id] = OpenDispatch(
                    event.dispatch_id,
                    record.partition,
                    event.turn.turn_id,
                    record.fence,
                    event.persona_id,
                    event.harness,
                    record.index,
                )
            case TurnComplete():
                self._close(record, event.status)
            case Recovery() if record.fence != NO_FENCE:
                self._close(record, "abandoned")
            case _:
                pass

    def of_conversation(self, partition: str) -> list[OpenDispatch]:
        """The open dispatches of a conversation."""
        return [item for item in self.open.values() if item.partition == partition]

    def _close(self, record: Record, outcome: str) -> None:
        closed = [item for item in self.open.values() if item.fence == record.fence]
        for item in closed:
            del self.open[item.dispatch_id]
            self.ended[item.dispatch_id] = outcome
        while len(self.ended) > DISPATCHES_ENDED_MAX:
            del self.ended[next(iter(self.ended))]
