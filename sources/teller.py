"""From statements to events: the rules of turns, shared by all providers (design: foreign histories, last table).

A provider states what its records say: a prompt, a part of a model call, a result, an end. The teller keeps the open
turn, closes it by the first rule that holds, and gives the events of closed turns as `Segment`s, in order:

    opened, links            once
    [session_updated]        what changed since the last turn
    turn_start               with the evidence of its beginning
    context                  what was put before the model since the last turn (never human speech)
    prompt, calls, results   one message, model_call and usage for each call, however many records it came in
    turn_complete            status and evidence

An end is stated by the provider or found here: an API error as the last word (failed), the next prompt after a
closing answer (completed, `final_message`), the next prompt before any (cancelled, `next_prompt`). Output after an
end without a prompt opens an implicit turn (`continuation`, ruling 22). A turn without an end gives no segment until
the file is still: then what stands after the last end is told too, without an end, so that no table shows it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import structs

from facts.events import (
    ConversationOpened,
    EdgeEvent,
    Event,
    Evidence,
    HarnessEvent,
    Message,
    ModelCall,
    Redaction,
    SessionLink,
    SessionUpdated,
    Superseded,
    ToolCall,
    ToolResult,
    TurnComplete,
    TurnRef,
    TurnStart,
    TurnStatus,
    Usage,
)
from polyc.ids import Partition
from sources.conversation import PAUSE, Call, Identity, Segment
from sources.drafts import drafts_of
from sources.redaction import REDACTION, Redactor
from sources.stillness import Stillness

_VARIANTS: Final = {digit: f"{int(digit, 16) & 0b0011 | 0b1000:x}" for digit in "0123456789abcdef"}  # RFC 9562, §4.1
SESSION_FIELDS: Final = ("title", "title_source", "cwd", "repo", "git_branch")


@dataclass(slots=True)
class _End:
    status: TurnStatus
    evidence: Evidence
    at: datetime | None
    code: str | None = None
    message: str | None = None


@dataclass(slots=True)
class _Turn:
    turn_id: str
    at: datetime | None
    evidence: Evidence
    updates: list[Event]
    context: list[HarnessEvent]
    items: list[HarnessEvent | EdgeEvent | Call] = field(default_factory=list)
    calls: dict[str, Call] = field(default_factory=dict)
    open_tools: set[str] = field(default_factory=set)
    after: list[Event] = field(default_factory=list)
    last: HarnessEvent | EdgeEvent | Call | None = None
    last_at: datetime | None = None
    error: str | None = None  # the API error that is the last word so far
    end: _End | None = None


class Teller:
    """The teller of one conversation."""

    def __init__(self, identity: Identity, *, redactor: Redactor, harness: str | None = None) -> None:
        self.identity = identity
        self.partition = identity.partition
        self.conversation_id = identity.partition.removeprefix("conv-")
        self.harness = harness or identity.provider
        self.states_ends = False  # whether the file has stated an end: then a last answer alone is none
        self.turn_ids: list[str] = []
        self.turn_messages: list[list[str]] = []
        self.superseded: set[int] = set()
        self._redactor = redactor
        self._base = f"{self.partition}\x1f"
        self._segments: list[Segment] = []
        self._turn: _Turn | None = None
        self._context: list[HarnessEvent] = []
        self._known: dict[str, str | None] = {}
        self._updates: dict[str, str | None] = {}
        self._update_at: datetime | None = None
        self._update_count = 0
        self._closed_calls: set[str] = set()
        self._turn_id_counts: dict[str, int] = {}

    # --- ids ---------------------------------------------------------------------------------------------------

    def event_id(self, kind: str, key: str) -> str:
        """The UUIDv8 of (partition, kind, key): `polyc.ids.uuid8`, without its detours: it is made for each event."""
        name = f"{self._base}{kind}\x1f{key}".encode("utf-8", "surrogatepass")
        text = hashlib.sha256(name).hexdigest()
        variant = _VARIANTS[text[16]]
        return f"{text[:8]}-{text[8:12]}-8{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"

    # --- the conversation --------------------------------------------------------------------------------------

    def open(
        self,
        *,
        ordinal: int,
        at: datetime | None,
        session_id: str | None,
        source_path: str | None,
        links: Iterable[SessionLink] = (),
        **known: str | None,
    ) -> None:
        """The first segment. `ordinal` counts the incarnations the source's rewrites have forced."""
        assert not self._segments, "a conversation opens once"
        self._known = {name: known.get(name) for name in SESSION_FIELDS}
        opened = ConversationOpened(
            id=self.event_id("opened", str(ordinal)),
            occurred_at=at,
            origin=self.identity.provider,
            conversation_id=self.conversation_id,
            provider_session_id=session_id,
            agent_id=self.identity.agent_id or None,
            title=known.get("title"),
            cwd=known.get("cwd"),
            repo=known.get("repo"),
            git_branch=known.get("git_branch"),
            harness=self.harness,
            source_path=source_path,
            redaction=Redaction(REDACTION.policy, REDACTION.version),
        )
        self._give([opened, *links], turn="none")

    def link(
        self, kind: Literal["subagent", "fork", "resume", "compaction"], parent: Partition, evidence: str, **more: Any
    ) -> SessionLink:
        """A claim of a parent, to be given to `open`."""
        return SessionLink(
            id=self.event_id(f"link:{kind}", parent), kind=kind, parent_partition=parent, evidence=evidence, **more
        )

    def session(self, at: datetime | None, **fields: str | None) -> None:
        """What is known of the session now; told before the next turn, a title at once when no turn is open."""
        changed = {
            name: value
            for name, value in fields.items()
            if value is not None and self._updates.get(name, self._known.get(name)) != value
        }
        if not changed:
            return
        self._updates |= changed
        self._update_at = at
        if "title" in changed:
            self.settle()
            if self._turn is None:
                self._give(self._take_updates(), turn="none")

    def _take_updates(self) -> list[Event]:
        if not self._updates:
            return []
        self._update_count += 1
        self._known |= self._updates
        event = SessionUpdated(
            id=self.event_id("session", str(self._update_count)), occurred_at=self._update_at, **self._updates
        )
        self._updates = {}
        return [event]

    # --- turns -------------------------------------------------------------------------------------------------

    @property
    def in_turn(self) -> bool:
        """Whether a turn is open (its end may have been stated a moment ago)."""
        return self._turn is not None

    @property
    def turn_id(self) -> str | None:
        """The open turn's id: an event that is made with it need not be made again when the turn is told."""
        return None if self._turn is None else self._turn.turn_id

    @property
    def has_untold(self) -> bool:
        """Whether something waits for an end or for the next turn."""
        is_open = self._turn is not None and self._turn.end is None
        return is_open or bool(self._context) or bool(self._updates)

    @property
    def turn_index(self) -> int:
        """How many turns have begun; the open one's index + 1."""
        return len(self.turn_ids)

    def begin(self, turn_id: str, at: datetime | None, *, evidence: Evidence) -> None:
        """A turn begins; an open one is closed first, by the rules of the next prompt."""
        self._close_for_next()
        updates = self._take_updates()
        count = self._turn_id_counts[turn_id] = self._turn_id_counts.get(turn_id, 0) + 1
        if count > 1:  # a source that names two turns alike; the second would fold into nothing
            turn_id = f"{turn_id}#{count}"
        self._turn = _Turn(turn_id, at, evidence, updates, self._context, last_at=at)
        self._context = []
        self.turn_ids.append(turn_id)
        self.turn_messages.append([])

    def prompt(self, message: Message, *, turn_id: str | None = None, evidence: Evidence = "inferred") -> None:
        """A person (or a parent agent) speaks: a turn begins with it."""
        self.begin(turn_id or self.event_id("turn", message.message_id), message.occurred_at, evidence=evidence)
        self.say(message)

    def say(self, message: Message) -> None:
        """A message in the open turn, in its place; without a turn it waits for the next one."""
        if self._turn is None:
            self._context.append(message)
        else:
            self._put(message, message.occurred_at)

    def context(self, event: HarnessEvent, *, error: str | None = None) -> None:
        """What is not speech: in the open turn, in its place; between turns it is told in the next one.

        `error`: the event says that the API failed; if nothing follows in the turn, the turn failed.
        """
        self.settle()
        if self._turn is None:
            self._context.append(event)
            return
        self._turn.items.append(event)
        self._turn.last_at = event.occurred_at or self._turn.last_at
        if error is not None:
            self._turn.error = error

    def call(self, key: str, at: datetime | None) -> Call:
        """The call of this key in the open turn, a new one when it is not there; opens a continuation if need be."""
        turn = self._turn
        if turn is not None and (known := turn.calls.get(key)) is not None:
            turn.last, turn.last_at = known, at or turn.last_at
            return known
        self.settle()
        if self._turn is None:
            self.begin(self.event_id("continuation", key), at, evidence="continuation")
        assert self._turn is not None
        again = key in self._closed_calls
        call = Call(key, f"{key}#{self.turn_index}" if again else key, at, counted=not again)
        self._turn.calls[key] = call
        self._put(call, at)
        return call

    def ask(self, call: Call, tool_call: ToolCall) -> None:
        """The call asks for a tool."""
        assert self._turn is not None
        call.tool_calls.append(tool_call)
        self._turn.open_tools.add(tool_call.tool_call_id)

    def result(self, result: ToolResult) -> None:
        """A tool answered; outside a turn it opens a continuation."""
        self.settle()
        if self._turn is None:
            self.begin(self.event_id("continuation", result.id), result.occurred_at, evidence="continuation")
        assert self._turn is not None
        self._turn.open_tools.discard(result.tool_call_id)
        self._put(result, result.occurred_at)

    def end(
        self,
        status: TurnStatus,
        evidence: Evidence,
        at: datetime | None,
        *,
        code: str | None = None,
        message: str | None = None,
    ) -> None:
        """The provider states the end of the open turn; records of the same call may still follow."""
        if self._turn is not None:
            self._turn.end = _End(status, evidence, at or self._turn.last_at, code, message)

    def settle(self) -> None:
        """Close the open turn if its end was stated."""
        if self._turn is not None and self._turn.end is not None:
            self._close(self._turn.end)

    def close_as_answered(self) -> bool:
        """Close an open turn that ends with an answer and waits for no tool (`final_message`)."""
        turn = self._turn
        if turn is None or turn.open_tools or self.states_ends:
            return False
        last = turn.last
        answered = isinstance(last, Call) and last.speaks
        if answered:
            self._close(_End("completed", "final_message", turn.last_at))
        return answered

    def supersede(self, key: str, at: datetime | None, reason: Literal["rewound", "rolled_back"], first: int) -> None:
        """Turns from this index on left the live path."""
        self.settle()
        gone = [i for i in range(first, len(self.turn_ids)) if i not in self.superseded]
        if not gone:
            return
        self.superseded.update(gone)
        event = Superseded(
            id=self.event_id("superseded", key),
            occurred_at=at,
            reason=reason,
            turn_ids=tuple(self.turn_ids[i] for i in gone),
            message_ids=tuple(name for i in gone for name in self.turn_messages[i]),
        )
        if self._turn is not None:
            self._close_for_next()
        self._give([event], turn="none")

    def replaced(self, event: Superseded) -> None:
        """Single messages left the live path: told at once between turns, else right after the open one's end."""
        self.settle()
        if self._turn is None:
            self._give([event], turn="none")
        else:
            self._turn.after.append(event)

    # --- giving ------------------------------------------------------------------------------------------------

    def take(self) -> Sequence[Segment]:
        """The segments closed since the last time."""
        if not self._segments:
            return ()
        segments, self._segments = self._segments, []
        return segments

    def pause(self) -> Iterator[Segment]:
        """The file ends here for now, and the telling may go on: what would be told if this were all."""
        turn = self._turn
        if turn is not None and turn.end is not None:
            yield Segment(drafts_of(self._closed(turn, turn.end), Redactor()), "closed", provisional=True)
        yield PAUSE

    def finish(self, *, level: Stillness) -> Sequence[Segment]:
        """The file ends here for now: close what can be closed, tell what will find no end any more.

        Context that waits for the next turn is told only when the file is final: whoever comes back to a session
        after a pause must not find its last notices in the wrong place.
        """
        self.settle()
        if level >= Stillness.STILL and self._turn is not None:
            if self._turn.error is not None:
                self._close(_End("failed", "stated", self._turn.last_at, "api_error", self._turn.error))
            else:
                self.close_as_answered()
            if self._turn is not None:
                turn, self._turn = self._turn, None
                self._give([*self._events_of(turn), *turn.after], turn="open")
                self._over(turn)
        if level is Stillness.FINAL:
            rest = [*self._take_updates(), *self._context]
            self._context = []
            if rest:
                self._give(rest, turn="none")
        return self.take()

    def _put(self, item: HarnessEvent | EdgeEvent | Call, at: datetime | None) -> None:
        assert self._turn is not None
        self._turn.items.append(item)
        self._turn.last = item
        self._turn.last_at = at or self._turn.last_at
        self._turn.error = None

    def _close_for_next(self) -> None:
        turn = self._turn
        if turn is None:
            return
        if turn.end is not None:
            self._close(turn.end)
        elif turn.error is not None:
            self._close(_End("failed", "stated", turn.last_at, "api_error", turn.error))
        elif not self.close_as_answered():
            self._close(_End("cancelled", "next_prompt", turn.last_at, "abandoned"))

    def _close(self, end: _End) -> None:
        turn = self._turn
        assert turn is not None
        self._turn = None
        self._give(self._closed(turn, end), turn="closed")
        self._over(turn)

    def _over(self, turn: _Turn) -> None:
        """Remember what later turns ask about this one."""
        self._closed_calls.update(turn.calls)
        spoken = (item for item in (*turn.context, *turn.items) if isinstance(item, Message | Call))
        self.turn_messages[-1].extend(item.message_id for item in spoken)

    def _closed(self, turn: _Turn, end: _End) -> list[Event]:
        """The events of a turn that ends so."""
        complete = TurnComplete(
            id=self.event_id("complete", turn.turn_id),
            occurred_at=end.at,
            turn=TurnRef(self.conversation_id, turn.turn_id),
            status=end.status,
            evidence=end.evidence,
            failure_code=end.code,
            failure_message=end.message,
        )
        return [*self._events_of(turn), complete, *turn.after]

    def _events_of(self, turn: _Turn) -> list[Event]:
        start = TurnStart(
            id=self.event_id("start", turn.turn_id),
            occurred_at=turn.at,
            turn=TurnRef(self.conversation_id, turn.turn_id),
            harness=self.harness,
            evidence=turn.evidence,
        )
        events: list[Event] = [*turn.updates, start]
        for item in (*turn.context, *turn.items):
            if isinstance(item, Call):
                events.extend(self._events_of_call(item, turn.turn_id))
            else:
                events.append(_placed(item, turn.turn_id))
        return events

    def _events_of_call(self, call: Call, turn_id: str) -> list[Event]:
        provider = self.identity.provider
        events: list[Event] = [
            Message(
                turn_id=turn_id,
                id=self.event_id("message", call.message_id),
                occurred_at=call.at,
                message_id=call.message_id,
                role="assistant",
                material_origin="assistant_authored",
                kind="text",
                blocks=tuple(call.blocks),
                parent_message_id=call.parent_message_id,
                author=call.author,
                model=call.model,
                call_id=call.call_id,
                superseded=call.superseded,
                time_flag=call.time_flag,
            )
        ]
        if call.counted:
            events.append(
                ModelCall(
                    turn_id=turn_id,
                    id=self.event_id("call", call.call_id),
                    occurred_at=call.at,
                    call_id=call.call_id,
                    provider=provider,
                    model=call.model,
                    started_at=call.at,
                    ended_at=call.ended_at,
                    latency_ms=call.latency_ms,
                    stop_reason=call.stop_reason,
                    error=call.error,
                )
            )
            if call.usage is not None:
                events.append(
                    Usage(
                        turn_id=turn_id,
                        id=self.event_id("usage", call.call_id),
                        occurred_at=call.ended_at or call.at,
                        call_id=call.call_id,
                        provider=provider,
                        model=call.model,
                        input_tokens=call.usage.input_tokens,
                        output_tokens=call.usage.output_tokens,
                        cache_read_tokens=call.usage.cache_read_tokens,
                        cache_write_tokens=call.usage.cache_write_tokens,
                        reasoning_tokens=call.usage.reasoning_tokens,
                        input_uncached_tokens=call.usage.input_uncached_tokens,
                    )
                )
        events.extend(_placed(asked, turn_id) for asked in call.tool_calls)
        return events

    def _give(self, events: Sequence[Event], *, turn: Literal["none", "closed", "open"]) -> None:
        self._segments.append(Segment(drafts_of(events, self._redactor), turn))


def _placed(event: HarnessEvent | EdgeEvent, turn_id: str) -> Event:
    """The event in this turn; most were made in it."""
    return event if event.turn_id == turn_id else structs.replace(event, turn_id=turn_id)
