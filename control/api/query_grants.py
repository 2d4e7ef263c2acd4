"""Minting grants over HTTP: the reference's two calls. Control only mints the credential; it never sees a statement."""

from typing import Literal

from pydantic import BaseModel

from control import grants_api, revocations
from control.api.operation import Call, Operation, Wire


class GrantAnswer(Wire):
    """A token and the millisecond it ends at."""

    token: str
    expires_at_ms: int


class GrantBody(Wire):
    """What the grant is for, as the audit will name it; may be left out altogether."""

    surface: Literal["execute", "language", "search", "mcp"] = "execute"


def grant(call: Call) -> BaseModel:
    """Mint over the conversations of the persona."""
    body: GrantBody = call.body
    return _answer(call, grants_api.mint_participant(call.context, call.who.persona_id, surface=body.surface))


def admin_grant(call: Call) -> BaseModel:
    """Mint over the fleet."""
    body: GrantBody = call.body
    return _answer(call, grants_api.mint_admin(call.context, call.who.subject, surface=body.surface))


def _answer(call: Call, minted: grants_api.NewGrant) -> GrantAnswer:
    revocations.publish(call.context)
    return GrantAnswer(token=minted.token, expires_at_ms=minted.expires_at_ms)


OPERATIONS = [
    Operation(
        name="mint_grant",
        method="POST",
        path="/api/query/grant",
        access="persona",
        summary="A grant over the conversations your participation records name, good for five minutes.",
        body=GrantBody,
        answer=GrantAnswer,
        handle=grant,
    ),
    Operation(
        name="mint_admin_grant",
        method="POST",
        path="/api/query/admin-grant",
        access="admin",
        summary="A fleet-wide grant for an admin's session, good for five minutes.",
        body=GrantBody,
        answer=GrantAnswer,
        handle=admin_grant,
    ),
]
