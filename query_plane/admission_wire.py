"""What the edge and an admitter say to each other; frames as in `query_plane.wire`.

    edge      Open →            Partitions →                Admit →                          Done →
    admitter        … Opened                … Found | Failed       … Handed + descriptors | Failed   … Opened

An admitter is trusted with all rows and given no text of a person's. `Handed.doors` tells that it serves scans until
`Done`; it answers nothing else meanwhile.
"""

from typing import Final, Literal

import msgspec

from polyc.errors import Code, CorruptError, PolycError, RefusedError, UnavailableError
from query_plane.trusted import Pinned
from query_plane.wire import LENGTH, Source


class Open(msgspec.Struct, frozen=True, kw_only=True, tag="open"):
    """Read this data root's artifacts."""

    root: str
    eager_size_bytes_max: int


class Partitions(msgspec.Struct, frozen=True, kw_only=True, tag="partitions"):
    """Which partitions a grant by reference means."""

    generation: Pinned
    persona_id: str
    index: int
    digest: str
    count: int


class Admit(msgspec.Struct, frozen=True, kw_only=True, tag="admit"):
    """The rows of these relations (None = all columns), of these partitions (None = the whole fleet)."""

    generation: Pinned
    partitions: tuple[str, ...] | None
    relations: dict[str, list[str] | None]


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """The statement is over: serve no more scans of it."""


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag="opened"):
    """Ready for the next question."""


class Found(msgspec.Struct, frozen=True, kw_only=True, tag="found"):
    """The partitions, sorted."""

    partitions: tuple[str, ...]


class Handed(msgspec.Struct, frozen=True, kw_only=True, tag="handed"):
    """The sources of the statement; their descriptors ride with this."""

    sources: list[Source]
    paths: list[str]
    doors: bool


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """One of our errors, by family; of others nothing but that there was one."""

    family: Literal["refused", "unavailable", "corrupt"]
    code: Code
    message: str
    hint: str | None
    place: str = ""
    kind: str = ""


ToAdmitter = Open | Partitions | Admit | Done
FromAdmitter = Opened | Found | Handed | Failed

_encode: Final = msgspec.msgpack.Encoder().encode
decode_question: Final = msgspec.msgpack.Decoder(ToAdmitter).decode
decode_answer: Final = msgspec.msgpack.Decoder(FromAdmitter).decode


def framed(message: ToAdmitter | FromAdmitter) -> bytes:
    """The message's bytes with its length before them."""
    body = _encode(message)
    return LENGTH.pack(len(body)) + body


def failed(error: PolycError) -> Failed:
    """The wire form of an error."""
    if isinstance(error, CorruptError):
        text = error.message.removeprefix(f"{error.place}: ")
        return Failed(
            family="corrupt", code=error.code, message=text, hint=error.hint, place=error.place, kind=error.kind
        )
    family: Literal["refused", "unavailable"] = "refused" if isinstance(error, RefusedError) else "unavailable"
    return Failed(family=family, code=error.code, message=error.message, hint=error.hint)


def error_of(said: Failed) -> PolycError:
    """The error of a wire form."""
    match said.family:
        case "corrupt":
            return CorruptError(said.message, place=said.place, kind=said.kind, hint=said.hint)
        case "refused":
            return RefusedError(said.message, code=said.code, hint=said.hint)
        case "unavailable":
            return UnavailableError(said.message, code=said.code, hint=said.hint)
