"""What anybody who reaches the socket may know: that Control lives, and the public half of trust."""

import msgspec
from pydantic import BaseModel

from control import revocations
from control.api.operation import Call, Operation, Wire
from polyc.errors import UnavailableError
from polyc.published import KEYS_FILE, REVOCATIONS_FILE


class HealthAnswer(Wire):
    """`size` is how many entries the log has sealed."""

    status: str
    size: int


class KeyAnswer(Wire):
    """A key that may sign grants now or from some log index on."""

    kid: str
    alg: str
    public_key: str
    from_index: int
    to_index: int | None


class KeysAnswer(Wire):
    """The published key set: the grant keys, and the signed key events they come from."""

    origin: str
    size: int
    keys: list[KeyAnswer]
    entries: list[dict[str, str | None]]


class RevocationsAnswer(Wire):
    """The signed list, as a compact JWS."""

    revocations: str


def health(call: Call) -> BaseModel:
    """The journal answers."""
    return HealthAnswer(status="ok", size=call.context.journal.size())


def keys(call: Call) -> BaseModel:
    """The bundle as it is published, with the grant keys of it spelled out."""
    try:
        bundle = msgspec.json.decode((call.context.published / KEYS_FILE).read_bytes())
    except FileNotFoundError:
        raise UnavailableError("the key set was not published yet") from None
    with call.context.index.view():
        listed = [
            KeyAnswer(
                kid=key.key_id.hex(),
                alg="Ed25519",
                public_key=key.public_key.hex(),
                from_index=key.from_index,
                to_index=key.to_index,
            )
            for key in call.context.index.keys.all()
            if key.role == "grant"
        ]
    return KeysAnswer(origin=bundle["origin"], size=bundle["size"], keys=listed, entries=bundle["entries"])


def revoked(call: Call) -> BaseModel:
    """The list of this second."""
    revocations.publish(call.context)
    return RevocationsAnswer(revocations=(call.context.published / REVOCATIONS_FILE).read_text())


OPERATIONS = [
    Operation(
        name="health",
        method="GET",
        path="/api/health",
        access="public",
        summary="Whether Control and its journal answer.",
        answer=HealthAnswer,
        handle=health,
    ),
    Operation(
        name="keys",
        method="GET",
        path="/api/keys",
        access="public",
        summary="The keys that may sign grants, with the signed key events they come from.",
        answer=KeysAnswer,
        handle=keys,
    ),
    Operation(
        name="revocations",
        method="GET",
        path="/api/revocations",
        access="public",
        summary="The signed list of what was revoked, of this second.",
        answer=RevocationsAnswer,
        handle=revoked,
    ),
]
