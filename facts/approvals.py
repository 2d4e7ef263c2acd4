"""The table `approvals`, and what payments ask: was this call approved before it was paid.

A request has one outcome: the first decision that finds it open, within its turn. A decision at or after the
request's expiry, when that is stated, comes too late: it expires the request. Requests of one native id in one
turn are decided in their order. A decision that finds no open request changes nothing. An empty id is no id: a request
without one is a row, which no decision finds and no payment uses.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from facts.call_ids import Names, Said, qualified
from facts.events import ApprovalDecided, ApprovalRequested
from facts.fold import Row
from facts.intake import utc
from facts.turns import TURN, End

POSITION, AT, REQUEST_ID, NATIVE = 2, 4, 5, 12
_DECIDED: Final = ("approved", "denied")  # by a person; a request that is cancelled or expired has no time to miss


class Request(msgspec.Struct):
    """A request, open or decided."""

    place: Row
    native: str
    tool_name: str
    requested_at: datetime | None
    expires_at: datetime | None
    outcome: str | None = None
    decided_at: datetime | None = None
    decided_by: str | None = None
    reason: str | None = None
    paid: bool = False

    def is_over(self, at: datetime) -> bool:
        """Whether the time to decide had passed at this instant."""
        return self.expires_at is not None and at >= self.expires_at


class Approvals(msgspec.Struct):
    """The approvals of one incarnation of a conversation, of all turns."""

    partition: str
    requests: list[Request] = []
    by_call: dict[str, list[int]] = {}  # native id -> its requests

    def request(self, event: ApprovalRequested, place: Row) -> None:
        """Take a request of an open turn."""
        if event.request_id:
            self.by_call.setdefault(event.request_id, []).append(len(self.requests))
        requested_at = utc(event.occurred_at) or place[AT]
        self.requests.append(Request(place, event.request_id, event.tool_name, requested_at, utc(event.expires_at)))

    def decide(self, event: ApprovalDecided, place: Row) -> str | None:
        """Take a decision of an open turn; the kind of anomaly when no request is open, or it comes too late."""
        for number in self.by_call.get(event.request_id, ()):
            request = self.requests[number]
            if request.place[TURN] == place[TURN] and request.outcome is None:
                request.decided_at = utc(event.occurred_at) or place[AT]
                if event.outcome in _DECIDED and request.is_over(request.decided_at):
                    request.outcome, request.reason = "expired", "decided_too_late"
                    return "decision_after_expiry"
                request.outcome, request.decided_by, request.reason = event.outcome, event.decided_by, event.reason
                return None
        return "decision_without_request"

    def spend(self, native: str, turn: str) -> tuple[int | None, str]:
        """The approved request of this call and turn that no payment used yet, or None and why there is none.

        An approval pays for one payment and no second.
        """
        state = "never_requested"
        for place in self.by_call.get(native, ()):
            request = self.requests[place]
            if request.place[TURN] != turn:
                continue
            if request.outcome == "approved" and not request.paid:
                request.paid = True
                return place, "approved"
            state = "used_before" if request.paid else request.outcome or "undecided"
        return None, state

    def call_id(self, native: str, turn: str, *, request: int | None, names: Names) -> str | None:
        """The id that a payment of this call shows: its request's, or that of the call's first use in the turn."""
        first = names.first.get((native, turn), qualified(self.partition, native))
        return first if request is None else names.by_position.get(self.requests[request].place[POSITION], first)

    def said(self, committed: Mapping[str, End]) -> list[Said]:
        """For which calls committed turns ask for approval."""
        return [
            Said(request.place[POSITION], request.place[TURN], request.native, "request")
            for request in self.requests
            if request.native and request.place[TURN] in committed
        ]

    def rows(self, committed: Mapping[str, End]) -> list[Row]:
        """One row a request of a committed turn, ids of repeats not yet told apart."""
        return [
            (
                *request.place,
                qualified(self.partition, request.native),
                request.tool_name,
                request.outcome,
                request.requested_at,
                request.decided_at,
                request.decided_by,
                request.reason,
                request.native,
            )
            for request in self.requests
            if request.place[TURN] in committed
        ]
