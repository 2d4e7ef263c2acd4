"""The fold of one conversation: takes each record once and hands its event to the fold of its table.

Events are of four sorts. *Markers* move the gate. *Turn events* count while their turn is open and are seen once it
is committed. *Judged events* (approvals, payments, refusals) are judged in whatever state their turn is (ruling 19).
*Frame events* belong to the conversation and to no turn. Which type is of which sort stands in two tables below.
"""

from collections.abc import Callable
from types import MethodType
from typing import Any, ClassVar, Final

import msgspec

from facts.anomalies import Anomalies
from facts.assertions import Assertions
from facts.events import (
    Assertion,
    ConversationOpened,
    Erased,
    Gap,
    IdentityAsserted,
    ParticipantJoined,
    ParticipantLeft,
    Recovery,
    Refusal,
    SessionLink,
    SessionTag,
    SessionUpdated,
    Superseded,
    WalletLink,
)
from facts.fold import Rows
from facts.intake import Handle, Intake, Standing
from facts.judgement import JUDGED, Judgement
from facts.messages import Messages
from facts.model_calls import ModelCalls
from facts.notices import Notices
from facts.participation import Participation
from facts.refusals import Refusals
from facts.sessions import Sessions
from facts.superseding import Superseding
from facts.tool_calls import ToolCalls, files_of
from facts.trust import Trust
from facts.turns import Keep, Spelling, Turns
from polyc.entry import Record
from polyc.errors import CorruptError
from polyc.vocabulary import BY_CODE, BY_KIND


class Conversation(msgspec.Struct):
    """Everything that the fold of one incarnation knows; a snapshot is this value's bytes."""

    standing: Standing
    anomalies: Anomalies
    judgement: Judgement
    superseding: Superseding
    messages: Messages
    model_calls: ModelCalls
    tool_calls: ToolCalls
    sessions: Sessions
    refusals: Refusals
    assertions: Assertions
    notices: Notices
    participation: Participation


def _fresh(partition: str, incarnation: bytes) -> Conversation:
    name = incarnation.hex()
    return Conversation(
        standing=Standing(incarnation),
        anomalies=Anomalies(),
        judgement=Judgement.fresh(partition),
        superseding=Superseding(),
        messages=Messages(),
        model_calls=ModelCalls(f"{partition}:"),
        tool_calls=ToolCalls(f"{partition}:"),
        sessions=Sessions(partition, name),
        refusals=Refusals(partition, name),
        assertions=Assertions(partition, name),
        notices=Notices(partition, name),
        participation=Participation(partition, name),
    )


class ConversationFold:
    """A `facts.fold.Fold` over one `conv-…` partition."""

    __slots__ = ("_intake", "_partition", "_trust", "state")

    def __init__(self, partition: str, trust: Trust, *, state: Conversation | None = None) -> None:
        self._partition = partition
        self._trust = trust
        self._hold(state or _fresh(partition, b""))

    def _hold(self, state: Conversation) -> None:
        self.state = state
        self._intake = Intake(
            self._partition,
            self._trust,
            standing=state.standing,
            anomalies=state.anomalies,
            handler_of=self._handler_of,
        )

    def _handler_of(self, code: int) -> Handle | None:
        """What takes the events of a type, bound to the state in hand."""
        if code in _TURN_EVENTS:
            spelling, keep = _TURN_EVENTS[code]
            return spelling(self.state.judgement.turns, keep(self.state), self._intake)
        if code in JUDGED:
            return self._judge
        method = self._FRAME_EVENTS.get(BY_CODE[code].kind) if code in BY_CODE else None
        return None if method is None else MethodType(method, self)

    def apply(self, record: Record) -> None:
        """Take the next record; CorruptError (with its place) for a poison event."""
        if record.position == 1 and self._intake.starts(record):
            self._hold(_fresh(self._partition, record.incarnation))
        self._intake.take(record)

    def _judge(self, event: Any, record: Record) -> None:
        self.state.judgement.take(event, record, self._intake, signers=self._trust.receipt_signers)

    def _opened(self, event: ConversationOpened, record: Record) -> None:
        if record.position == 1:
            self.state.sessions.opened = event
            self._intake.open(imported=event.origin != "live")
        else:
            self._intake.count("repeated_marker", record)

    def _session_updated(self, event: SessionUpdated, record: Record) -> None:
        turns = self.state.judgement.turns
        if event.turn_id is not None and event.turn_id not in turns.open:
            self._intake.count(turns.objection(event), record, turn=event.turn_id)
        else:
            self.state.sessions.update(event, record.position, event.turn_id, self._intake.at)

    def _linked(self, event: SessionLink, record: Record) -> None:
        self.state.sessions.link(event, record.position, self._intake.at)

    def _superseded(self, event: Superseded, record: Record) -> None:
        self.state.superseding.supersede(event, record.position)

    def _refused(self, event: Refusal, record: Record) -> None:
        uses = self.state.tool_calls.uses(event.tool_call_id or event.request_id)
        turn = self.state.judgement.turns.claimed(event)
        self.state.refusals.refuse(event, record.position, turn, self._intake.at, uses=uses)

    def _ceremony(self, event: WalletLink, record: Record) -> None:
        turn = self.state.judgement.turns.claimed(event)
        self.state.refusals.wallet(event, record.position, turn, self._intake.at)

    def _identity(self, event: IdentityAsserted, record: Record) -> None:
        turn = self.state.judgement.turns.claimed(event)
        self.state.refusals.identity(event, record.position, turn, self._intake.at)

    def _joined(self, event: ParticipantJoined, record: Record) -> None:
        join = self.state.participation.join
        if kind := join(event, position=record.position, index=record.index, at=self._intake.at):
            self._intake.count(kind, record)

    def _left(self, event: ParticipantLeft, record: Record) -> None:
        leave = self.state.participation.leave
        if kind := leave(event, position=record.position, index=record.index, at=self._intake.at):
            self._intake.count(kind, record)

    def _noticed(self, event: Gap | Recovery | Erased, record: Record) -> None:
        self.state.notices.notice(event, record.position, self._intake.at)

    def _claimed(self, event: Assertion, record: Record) -> None:
        self.state.assertions.claim(event, record.position, self._intake.at)

    def _tagged(self, event: SessionTag, record: Record) -> None:
        self.state.assertions.tag(event, record.position, self._intake.at)

    # Which types belong to the conversation and to no turn, or need no committed one.
    _FRAME_EVENTS: ClassVar[dict[str, Callable[..., None]]] = {
        "conversation_opened": _opened,
        "session_updated": _session_updated,
        "session_link": _linked,
        "superseded": _superseded,
        "refusal": _refused,
        "wallet_link": _ceremony,
        "identity_asserted": _identity,
        "participant_joined": _joined,
        "participant_left": _left,
        "gap": _noticed,
        "recovery": _noticed,
        "erased": _noticed,
        "assertion": _claimed,
        "session_tag": _tagged,
    }

    def rows(self) -> Rows:
        """The rows of every table, as of the records applied so far: the gate is the last filter."""
        state = self.state
        turns = state.judgement.turns
        committed = turns.committed
        name = state.standing.incarnation.hex()
        messages, blocks, withheld = state.messages.rows(committed, state.superseding)
        model_calls, usage, boundaries = state.model_calls.rows(committed)
        tool_calls = state.tool_calls.rows(committed, state.superseding)
        approvals, payments, verdicts = state.judgement.rows()
        assertions, tags = state.assertions.rows()
        origin, superseded = state.sessions.origin, state.superseding.turns
        return {
            "turns": turns.rows(self._partition, name, origin=origin, superseded=superseded),
            "messages": messages,
            "blocks": blocks,
            "messages_withheld": withheld,
            "model_call": model_calls,
            "usage": usage,
            "context_boundaries": boundaries,
            "tool_calls": tool_calls,
            "files": files_of(tool_calls),
            "sessions": state.sessions.rows(turns, messages=messages, blocks=blocks, calls=tool_calls),
            "session_links": list(state.sessions.links),
            "approvals": approvals,
            "payments": payments,
            "settlement_verdicts": verdicts,
            "refusals": list(state.refusals.refused),
            "wallet_link_lifecycle": list(state.refusals.wallets),
            "identity_provenance": list(state.refusals.identities),
            "assertions": assertions,
            "session_tags": tags,
            "journal_notices": list(state.notices.entries),
            "persona_participation": state.participation.rows(),
            "anomalies": state.anomalies.rows(self._partition, name),
        }

    def snapshot(self) -> bytes:
        """The fold's state; an optimisation, never evidence."""
        return msgspec.msgpack.encode(self.state)

    @classmethod
    def resume(cls, partition: str, trust: Trust, snapshot: bytes) -> "ConversationFold":
        """The fold as it was when the snapshot was taken; CorruptError when it is not one of this partition."""
        try:
            state = _SNAPSHOTS.decode(snapshot)
        except (msgspec.DecodeError, RecursionError):
            raise CorruptError("not a snapshot of this fold", place=partition, kind="snapshot") from None
        if state.sessions.partition != partition:
            raise CorruptError("snapshot of another partition", place=partition, kind="snapshot")
        return cls(partition, trust, state=state)


_SNAPSHOTS: Final = msgspec.msgpack.Decoder(Conversation)

# Which types belong to a turn, in which spelling they name it, and which fold keeps them.
_TURN_EVENTS: Final[dict[int, tuple[Spelling, Callable[[Conversation], Keep]]]] = {
    BY_KIND[kind].code: (spelling, keep)
    for kind, spelling, keep in (
        ("message", Turns.harness_events, lambda state: state.messages.message),
        ("model_call", Turns.harness_events, lambda state: state.model_calls.call),
        ("usage", Turns.harness_events, lambda state: state.model_calls.usage),
        ("context_snapshot", Turns.harness_events, lambda state: state.model_calls.boundary),
        ("tool_call", Turns.edge_events, lambda state: state.tool_calls.call),
        ("tool_result", Turns.edge_events, lambda state: state.tool_calls.result),
        ("message_withheld", Turns.edge_events, lambda state: state.messages.withhold),
    )
}
