"""Live dispatches: the turns this process runs now, and the credential each harness proves its attribution with.

A credential is `pcd_<dispatch id>_<43 characters of chance>`. It names one dispatch; whoever holds it speaks for that
dispatch and for nothing else, and no argument can choose another conversation. It is good for Control's edge
operations alone, never at Execute, and dies with its turn (for receipts a little later).
"""

import asyncio
import base64
import hashlib
import hmac
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from control.state import State
from polyc.clock import Clock
from polyc.errors import RefusedError
from polyc.ids import IdSource
from polyc.limits import DISPATCH_CALLS_MAX, LATE_RECEIPT_S, SESSION_BEARER_SIZE_BYTES, TURNS_AT_ONCE_MAX

PREFIX: Final = "pcd_"
_CREDENTIAL: Final = re.compile(rf"{PREFIX}([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})_[A-Za-z0-9_-]{{43}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCall:
    """A tool call that was recorded in this dispatch, as an approver is shown it."""

    name: str
    arguments: str | None


@dataclass(slots=True, kw_only=True, eq=False)
class LiveDispatch:
    """One running turn. `fence` goes with every append of it; `ended_s` is set once its end is recorded."""

    dispatch_id: str
    partition: str
    turn_id: str
    persona_id: str
    harness: str
    fence: bytes
    secret_sha256: bytes
    cancel: asyncio.Event = field(default_factory=asyncio.Event)
    calls: OrderedDict[str, KnownCall] = field(default_factory=OrderedDict)
    cancelled_by: str | None = None
    ended_s: float | None = None

    def __repr__(self) -> str:
        return f"LiveDispatch(dispatch_id={self.dispatch_id!r})"

    def remember_call(self, tool_call_id: str, call: KnownCall) -> None:
        """Keep a recorded call for approvers; the oldest are forgotten first."""
        self.calls[tool_call_id] = call
        if len(self.calls) > DISPATCH_CALLS_MAX:
            self.calls.popitem(last=False)


class Dispatches:
    """The live dispatches of this process; safe for several threads."""

    def __init__(self, *, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids
        self._lock = threading.Lock()
        self._live: dict[str, LiveDispatch] = {}

    def new_credential(self, dispatch_id: str) -> tuple[str, bytes]:
        """A fresh credential and its hash."""
        secret = base64.urlsafe_b64encode(self._ids.token(SESSION_BEARER_SIZE_BYTES)).rstrip(b"=").decode()
        credential = f"{PREFIX}{dispatch_id}_{secret}"
        return credential, _hash(credential)

    def add(self, dispatch: LiveDispatch) -> None:
        """Take up a dispatch; RefusedError when its conversation has a running turn, or too many run at once."""
        with self._lock:
            self._forget_late()
            running = [item for item in self._live.values() if item.ended_s is None]
            if any(item.partition == dispatch.partition for item in running):
                raise RefusedError("a turn of this conversation is running", code="aborted", hint="wait, or cancel it")
            if len(running) >= TURNS_AT_ONCE_MAX:
                raise RefusedError("too many turns are running", code="resource_exhausted")
            self._live[dispatch.dispatch_id] = dispatch

    def end(self, dispatch: LiveDispatch) -> None:
        """The turn is over; its credential is good for late receipts only."""
        with self._lock:
            dispatch.ended_s = self._clock.monotonic_s()

    def drop(self, dispatch: LiveDispatch) -> None:
        """The dispatch never began."""
        with self._lock:
            self._live.pop(dispatch.dispatch_id, None)

    def running(self) -> Iterator[LiveDispatch]:
        """The dispatches whose turn is not over."""
        with self._lock:
            return iter([item for item in self._live.values() if item.ended_s is None])

    def is_live(self, dispatch_id: str) -> bool:
        """Whether this process runs the dispatch."""
        with self._lock:
            known = self._live.get(dispatch_id)
            return known is not None and known.ended_s is None

    def verify(self, credential: str, state: State, *, late: bool = False) -> LiveDispatch:
        """The dispatch of a credential.

        `unauthenticated` for one that never was; `failed_precondition` for one whose turn is over: so a harness that
        goes on after the fence learns it. `late` admits an ended dispatch for a while: receipts may come late.
        """
        match = _CREDENTIAL.fullmatch(credential)
        if match is None:
            raise _unauthenticated()
        with self._lock:
            self._forget_late()
            known = self._live.get(match[1])
        if known is None:
            if match[1] in state.turns.ended or match[1] in state.turns.open:
                raise turn_is_over()
            raise _unauthenticated()
        if not hmac.compare_digest(known.secret_sha256, _hash(credential)):
            raise _unauthenticated()
        if known.ended_s is not None and not late:
            raise turn_is_over()
        return known

    def _forget_late(self) -> None:
        oldest_s = self._clock.monotonic_s() - LATE_RECEIPT_S
        for item in [item for item in self._live.values() if item.ended_s is not None and item.ended_s < oldest_s]:
            del self._live[item.dispatch_id]


def turn_is_over() -> RefusedError:
    """What a harness learns that goes on after its turn's fence was closed."""
    return RefusedError("the turn is over", code="failed_precondition", hint="stop: nothing more of it is recorded")


def _unauthenticated() -> RefusedError:
    return RefusedError("not a credential of a running dispatch", code="unauthenticated")


def _hash(credential: str) -> bytes:
    return hashlib.sha256(credential.encode()).digest()
