"""One operation of the HTTP face: what it is called, who may call it, what goes in and what comes out.

The table of operations is the routes and the OpenAPI document at once; an operation that is not in it does not exist.
A plain `handle` runs off the event loop and may block on the journal; a coroutine runs on it; one that streams
answers with NDJSON lines.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from control.context import ControlContext
from control.dispatches import LiveDispatch
from control.service import Service
from control.sessions import Caller

Access = Literal["public", "persona", "admin", "session", "dispatch", "late_dispatch"]
Handle = (
    Callable[["Call"], BaseModel]
    | Callable[["Call"], Awaitable[BaseModel]]
    | Callable[["Call"], Awaitable[AsyncIterator[bytes]]]
)


class Wire(BaseModel):
    """A body at the edge: strict types, no unknown member, and no input in an error's text."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True, frozen=True)


class Nothing(Wire):
    """An answer that says only that it was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call whose caller is verified and whose body is well-formed."""

    service: Service
    caller: Caller | LiveDispatch | None
    body: Any
    path: dict[str, str]
    query: dict[str, str]

    @property
    def context(self) -> ControlContext:
        """The service's context, acting on the word of the calling session."""
        context = self.service.context
        return context.acting(self.caller.credential_id) if isinstance(self.caller, Caller) else context

    @property
    def who(self) -> Caller:
        """The session's caller, of an operation for sessions."""
        assert isinstance(self.caller, Caller), "the operation is for sessions"
        return self.caller

    @property
    def dispatch(self) -> LiveDispatch:
        """The trusted attribution, of an operation for dispatches."""
        assert isinstance(self.caller, LiveDispatch), "the operation is for dispatches"
        return self.caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A row of the table.

    `access`: `public` needs no bearer, `persona` a persona's session, `admin` an admin's, `session` either,
    `dispatch` the credential of a running dispatch, `late_dispatch` also of one that ended a little ago.
    `query` names the query parameters it knows, with their descriptions; others are refused.
    """

    name: str
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    access: Access
    summary: str
    answer: type[BaseModel]
    handle: Handle
    body: type[BaseModel] | None = None
    query: dict[str, str] = field(default_factory=dict)
    streams: bool = False
