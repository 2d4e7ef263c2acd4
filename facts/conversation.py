"""The fold of one conversation: takes each record once and hands its event to the fold of its table.

Events are of four sorts. *Markers* move the gate. *Turn events* count while their turn is open and are seen once it
is committed. *Judged events* (approvals, payments, refusals) are judged in whatever state their turn is (ruling 19).
*Frame events* belong to the conversation and to no turn. Which type is of which sort stands in two tables below.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

import msgspec

from facts.anomalies import Anomalies
from facts.assertions import Assertions
from facts.call_ids import Names, named, renamed
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
from facts.intake import Handlers, Intake, Standing
from facts.judgement import JUDGED, Judgement
from facts.messages import Messages
from facts.model_calls import ModelCalls
from facts.notices import Notices
from facts.participation import Participation
from facts.refusals import Refusals
from facts.sessions import Sessions
from facts.superseding import Superseding
from facts.tool_calls import TOOL_CALL_ID, ToolCalls, files_of
from facts.trust import Trust
from facts.turns import Keep, edge_event, harness_event
from polyc.entry import Record
from polyc.errors import CorruptError
from polyc.vocabulary import BY_KIND


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
        messages=Messages(partition, name),
        model_calls=ModelCalls(partition, name),
        tool_calls=ToolCalls(partition, name),
        sessions=Sessions(partition, name),
        refusals=Refusals(partition, name),
        assertions=Assertions(partition, name),
        notices=Notices(partition, name),
        participation=Participation(partition, name),
    )


class ConversationFold:
    """A `facts.fold.Fold` over one `conv-…` partition."""

    __slots__ = ("_partition", "_state", "_trust", "intake", "keeps", "turns")

    def __init__(self, partition: str, trust: Trust, *, state: Conversation | None = None) -> None:
        self._partition = partition
        self._trust = trust
        self._state: Conversation | None = None  # made by the first record, which names the incarnation
        if state is not None:
            self._hold(state)

    @property
    def state(self) -> Conversation:
        """Everything the fold knows."""
        if self._state is None:
            self._hold(_fresh(self._partition, b""))
        assert self._state is not None, "held just now"
        return self._state

    def _hold(self, state: Conversation) -> None:
        self._state = state
        self.turns = state.judgement.turns
        self.keeps: dict[int, Keep] = {code: keep(state) for code, keep in _KEEPS.items()}
        self.intake = Intake(
            self._partition, self._trust, standing=state.standing, anomalies=state.anomalies, handlers=self._HANDLERS
        )

    @property
    def position(self) -> int:
        """The position of the last record that was applied wholly; 0 before the first."""
        return 0 if self._state is None else self._state.standing.position

    def apply(self, record: Record) -> None:
        """Take the next record; CorruptError (with its place) for a poison event."""
        self.apply_all((record,))

    def apply_all(self, records: Iterable[Record]) -> None:
        """Take the next records; CorruptError (with its place) for a poison event, those before it are applied."""
        rest = iter(records)
        start = next(rest, None) if self._state is None else self.intake.take(rest, self)
        while start is not None:
            self._hold(_fresh(self._partition, start.incarnation))
            self.intake.take((start,), self)
            start = self.intake.take(rest, self)

    def _judge(self, event: Any, record: Record) -> None:
        self.state.judgement.take(event, record, self.intake, signers=self._trust.receipt_signers)

    def _opened(self, event: ConversationOpened, record: Record) -> None:
        if record.position == 1:
            self.state.sessions.open(event)
            self.intake.open(imported=event.origin != "live")
        else:
            self.intake.count("repeated_marker", record)

    def _session_updated(self, event: SessionUpdated, record: Record) -> None:
        turns = self.turns
        if event.turn_id is not None and event.turn_id not in turns.open:
            self.intake.count(turns.objection(event), record, turn=event.turn_id)
        else:
            self.state.sessions.update(event, record.position, event.turn_id, self.intake.at)

    def _linked(self, event: SessionLink, record: Record) -> None:
        self.state.sessions.link(event, record.position, self.intake.at)

    def _superseded(self, event: Superseded, record: Record) -> None:
        self.state.superseding.supersede(event, record.position)

    def _refused(self, event: Refusal, record: Record) -> None:
        uses = self.state.tool_calls.uses_of(event.tool_call_id or event.request_id)
        turn = self.turns.claimed(event)
        self.state.refusals.refuse(event, record.position, turn, self.intake.at, uses=uses)

    def _ceremony(self, event: WalletLink, record: Record) -> None:
        turn = self.turns.claimed(event)
        self.state.refusals.wallet(event, record.position, turn, self.intake.at)

    def _identity(self, event: IdentityAsserted, record: Record) -> None:
        turn = self.turns.claimed(event)
        self.state.refusals.identity(event, record.position, turn, self.intake.at)

    def _joined(self, event: ParticipantJoined, record: Record) -> None:
        join = self.state.participation.join
        if kind := join(event, position=record.position, index=record.index, at=self.intake.at):
            self.intake.count(kind, record)

    def _left(self, event: ParticipantLeft, record: Record) -> None:
        leave = self.state.participation.leave
        if kind := leave(event, position=record.position, index=record.index, at=self.intake.at):
            self.intake.count(kind, record)

    def _noticed(self, event: Gap | Recovery | Erased, record: Record) -> None:
        self.state.notices.notice(event, record.position, self.intake.at)

    def _claimed(self, event: Assertion, record: Record) -> None:
        role = self._trust.keys.role_at(record.key_id, record.index)
        by_person = event.author_kind == "person" and role == "control"
        if kind := self.state.assertions.claim(event, record.position, self.intake.at, by_person=by_person):
            self.intake.count(kind, record)

    def _tagged(self, event: SessionTag, record: Record) -> None:
        self.state.assertions.tag(event, record.position, self.intake.at)

    # What takes the events of each type: those of a turn in the spelling in which they name it; judged ones; and those
    # that belong to the conversation and to no turn, or need no committed one.
    _HANDLERS: ClassVar = Handlers(
        dict.fromkeys(JUDGED, _judge)
        | {
            BY_KIND[kind].code: handle
            for kind, handle in (
                ("message", harness_event),
                ("model_call", harness_event),
                ("usage", harness_event),
                ("context_snapshot", harness_event),
                ("tool_call", edge_event),
                ("tool_result", edge_event),
                ("message_withheld", edge_event),
                ("conversation_opened", _opened),
                ("session_updated", _session_updated),
                ("session_link", _linked),
                ("superseded", _superseded),
                ("refusal", _refused),
                ("wallet_link", _ceremony),
                ("identity_asserted", _identity),
                ("participant_joined", _joined),
                ("participant_left", _left),
                ("gap", _noticed),
                ("recovery", _noticed),
                ("erased", _noticed),
                ("assertion", _claimed),
                ("session_tag", _tagged),
            )
        }
    )

    def rows(self) -> Rows:
        """The rows of every table, as of the records applied so far: the gate is the last filter."""
        state = self.state
        turns = state.judgement.turns
        name = state.standing.incarnation.hex()
        messages, blocks, withheld = state.messages.rows(turns, state.superseding)
        model_calls, usage, boundaries = state.model_calls.rows(turns)
        names = self._call_names(state)
        tool_calls = renamed(state.tool_calls.rows(turns, state.superseding), names, id_column=TOOL_CALL_ID)
        approvals, payments, verdicts = state.judgement.rows(names)
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

    def _call_names(self, state: Conversation) -> Names:
        """The ids of calls that cannot go by their native id alone: it repeats, or somebody was asked about it."""
        committed = self.turns.committed
        asked = state.judgement.approvals.by_call
        natives = state.tool_calls.repeated.keys() | asked.keys()
        if not natives:
            return Names({}, {})
        said = state.tool_calls.said(natives, committed) + state.judgement.approvals.said(committed)
        return named(said, partition=self._partition, committed=committed)

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

# Which types belong to a turn, and which fold keeps them.
_KEEPS: Final[dict[int, Callable[[Conversation], Keep]]] = {
    BY_KIND[kind].code: keep
    for kind, keep in (
        ("message", lambda state: state.messages.message),
        ("model_call", lambda state: state.model_calls.call),
        ("usage", lambda state: state.model_calls.usage),
        ("context_snapshot", lambda state: state.model_calls.boundary),
        ("tool_call", lambda state: state.tool_calls.call),
        ("tool_result", lambda state: state.tool_calls.result),
        ("message_withheld", lambda state: state.messages.withhold),
    )
}
