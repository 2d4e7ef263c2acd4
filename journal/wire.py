"""Between the journal's values and its protobuf messages; errors travel as status codes with trailing metadata."""

from collections.abc import Iterable, Iterator
from typing import Final, NoReturn

import grpc

from journal.body import Stored
from journal.port import PartitionHead, RawEntry
from polyc.appending import Ack, Head, SignedAppend, SignedEntry
from polyc.errors import (
    Code,
    ConflictError,
    CorruptError,
    IdempotencyConflictError,
    PolycError,
    RefusedError,
    UnavailableError,
)
from polyc.limits import STREAM_MESSAGE_BYTES_MAX, STREAM_MESSAGE_ROWS_MAX
from polychrome.journal.v1 import journal_pb2 as pb

_ACTUAL: Final = "polychrome-actual-position"
_HINT: Final = "polychrome-hint-bin"
_PLACE: Final = "polychrome-place-bin"
_KIND: Final = "polychrome-kind"
_FAMILY: Final = "polychrome-family"

_CODES: Final[dict[Code, grpc.StatusCode]] = {
    "canceled": grpc.StatusCode.CANCELLED,
    "unknown": grpc.StatusCode.UNKNOWN,
    "invalid_argument": grpc.StatusCode.INVALID_ARGUMENT,
    "deadline_exceeded": grpc.StatusCode.DEADLINE_EXCEEDED,
    "not_found": grpc.StatusCode.NOT_FOUND,
    "already_exists": grpc.StatusCode.ALREADY_EXISTS,
    "permission_denied": grpc.StatusCode.PERMISSION_DENIED,
    "resource_exhausted": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "failed_precondition": grpc.StatusCode.FAILED_PRECONDITION,
    "aborted": grpc.StatusCode.ABORTED,
    "out_of_range": grpc.StatusCode.OUT_OF_RANGE,
    "unimplemented": grpc.StatusCode.UNIMPLEMENTED,
    "internal": grpc.StatusCode.INTERNAL,
    "unavailable": grpc.StatusCode.UNAVAILABLE,
    "data_loss": grpc.StatusCode.DATA_LOSS,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
}
_NAMES: Final[dict[grpc.StatusCode, Code]] = {status: code for code, status in _CODES.items()}


def append_to_pb(signed: SignedAppend) -> pb.SignedAppend:
    """The message of a signed append."""
    return pb.SignedAppend(
        partition=signed.partition,
        append_id=signed.append_id,
        key_id=signed.key_id,
        signature=signed.signature,
        entries=[pb.SignedEntry(header=item.header, salt=item.salt, payload=item.payload) for item in signed.entries],
        replaces=signed.replaces,
    )


def append_of_pb(message: pb.SignedAppend) -> SignedAppend:
    """The signed append of a message."""
    entries = tuple(SignedEntry(item.header, item.salt, item.payload) for item in message.entries)
    return SignedAppend(
        message.partition, message.append_id, message.key_id, message.signature, entries, message.replaces
    )


def head_to_pb(head: PartitionHead) -> pb.PartitionHead:
    """The message of a partition's head."""
    return pb.PartitionHead(
        partition=head.partition,
        incarnation=head.incarnation,
        position=head.position,
        leaf=head.leaf,
        first_index=head.first_index,
        last_index=head.last_index,
    )


def head_of_pb(message: pb.PartitionHead) -> PartitionHead:
    """The partition's head of a message."""
    return PartitionHead(
        message.partition,
        message.incarnation,
        message.position,
        message.leaf,
        message.first_index,
        message.last_index,
    )


def ack_to_pb(ack: Ack) -> pb.Ack:
    """The message of an acknowledgement."""
    head = pb.PartitionHead(
        partition=ack.head.partition,
        incarnation=ack.head.incarnation,
        position=ack.head.position,
        leaf=ack.head.leaf,
    )
    return pb.Ack(
        first_index=ack.first_index,
        first_position=ack.first_position,
        last_position=ack.last_position,
        head=head,
        checkpoint=ack.checkpoint,
        repeated=ack.repeated,
    )


def ack_of_pb(message: pb.Ack) -> Ack:
    """The acknowledgement of a message."""
    head = message.head
    return Ack(
        first_index=message.first_index,
        first_position=message.first_position,
        last_position=message.last_position,
        head=Head(head.partition, head.incarnation, head.position, head.leaf),
        checkpoint=message.checkpoint,
        repeated=message.repeated,
    )


def entry_to_pb(raw: RawEntry, *, signature: bool) -> pb.Entry:
    """The message of a stored entry."""
    signed = raw.signature if signature else b""
    return pb.Entry(index=raw.index, header=raw.header, salt=raw.salt, payload=raw.payload, signature=signed)


def batched(entries: Iterable[RawEntry], *, signatures: bool = True) -> Iterator[list[pb.Entry]]:
    """The entries in messages' portions."""
    portion: list[pb.Entry] = []
    size_bytes = 0
    for raw in entries:
        portion.append(entry_to_pb(raw, signature=signatures))
        size_bytes += len(raw.header) + len(raw.payload or b"")
        if len(portion) >= STREAM_MESSAGE_ROWS_MAX or size_bytes >= STREAM_MESSAGE_BYTES_MAX:
            yield portion
            portion, size_bytes = [], 0
    if portion:
        yield portion


def stored_to_pb(stored: Stored) -> pb.StoredAppend:
    """The message of a stored append."""
    return pb.StoredAppend(
        index=stored.index,
        position=stored.position,
        count=stored.count,
        append_id=stored.append_id,
        signature=stored.signature,
        form=stored.form,
        body=stored.body,
    )


def stored_of_pb(message: pb.StoredAppend) -> Stored:
    """The stored append of a message."""
    return Stored(
        message.index,
        message.position,
        message.count,
        message.append_id,
        message.signature,
        message.form,
        message.body,
    )


def batched_stored(appends: Iterable[Stored]) -> Iterator[list[pb.StoredAppend]]:
    """The stored appends in messages' portions."""
    portion: list[pb.StoredAppend] = []
    size_bytes = 0
    for stored in appends:
        portion.append(stored_to_pb(stored))
        size_bytes += len(stored.body)
        if len(portion) >= STREAM_MESSAGE_ROWS_MAX or size_bytes >= STREAM_MESSAGE_BYTES_MAX:
            yield portion
            portion, size_bytes = [], 0
    if portion:
        yield portion


def abort(context: grpc.ServicerContext, error: PolycError) -> NoReturn:
    """End the call with the error's code; what the caller needs to act travels in trailing metadata."""
    metadata: list[tuple[str, str | bytes]] = [(_FAMILY, family_of(error))]
    if error.hint is not None:
        metadata.append((_HINT, error.hint.encode()))
    if isinstance(error, ConflictError):
        metadata.append((_ACTUAL, str(error.actual)))
    if isinstance(error, CorruptError):
        metadata += [(_PLACE, error.place.encode()), (_KIND, error.kind)]
    context.set_trailing_metadata(metadata)
    context.abort(_CODES[error.code], error.message)
    raise AssertionError("abort raises")


def explain(error: grpc.RpcError) -> PolycError:
    """The error of ours that a failed call carries; anything that the server did not say is unavailability."""
    metadata = dict(error.trailing_metadata() or ())
    message, code = error.details() or "", _NAMES[error.code()]
    hint = metadata.get(_HINT)
    hint = hint.decode() if hint is not None else None
    match metadata.get(_FAMILY):
        case "corrupt":
            place = metadata.get(_PLACE, b"").decode()
            return CorruptError(
                message.removeprefix(f"{place}: "), place=place, kind=metadata.get(_KIND, "corrupt"), hint=hint
            )
        case "conflict" | "idempotency" | "refused" | "unavailable" as family:
            return error_of(family, message, code=code, hint=hint, actual=int(metadata.get(_ACTUAL, "0")))
        case _:
            if code == "deadline_exceeded":
                hint = "an append may still be sealed: repeat it under the same append id"
                return UnavailableError("the journal did not answer in time", code=code, hint=hint)
            if code == "resource_exhausted":
                return UnavailableError("the journal is overloaded", code=code, hint="try again later")
            return UnavailableError("the journal's process does not answer", hint="is `polyc up` running?")


def error_of(family: str, message: str, *, code: Code, hint: str | None, actual: int) -> PolycError:
    """The error that another process told; what is corrupt there is unavailable here."""
    match family:
        case "conflict":
            return ConflictError(message, actual=actual, hint=hint)
        case "idempotency":
            return IdempotencyConflictError(message, hint=hint)
        case "refused":
            return RefusedError(message, code=code, hint=hint)
        case _:
            return UnavailableError(message, code=code, hint=hint)


def family_of(error: PolycError) -> str:
    """The error's family, as callers are told it."""
    match error:
        case ConflictError():
            return "conflict"
        case IdempotencyConflictError():
            return "idempotency"
        case CorruptError():
            return "corrupt"
        case RefusedError():
            return "refused"
        case _:
            return "unavailable"
