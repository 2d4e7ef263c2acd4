r"""A JSONL file as records: what can be read, what cannot and why, and the torn end that is not written yet.

Lines are split at `\n` only: U+2028, U+2029 and NEL are characters of a text (A14). A last line without `\n` is a
record when it is a whole JSON object, else it is not written yet and is left alone until the file grows.
A line that cannot be read becomes a `Quarantined`, with its offset and a reason, never with its content; the end that
is not written yet is one of the reason `incomplete`.

Reading is strict first (msgspec); what strict JSON refuses but people's files contain (lone surrogates, NaN) is
read by the standard library and repaired: U+FFFD for a lone surrogate, null for NaN and the infinities; a byte order
mark before a record is no part of it. Of duplicate keys the last counts.
"""

import errno
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec

from polyc.limits import DOCUMENT_SIZE_BYTES_MAX, LINE_SIZE_BYTES_MAX
from sources.foreign_json import is_too_deep

T = TypeVar("T")

INCOMPLETE: Final = "incomplete"
_SKIP_SIZE_BYTES: Final = 1024 * 1024  # how much of an over-long line is held while its end is looked for


class Quarantined(msgspec.Struct, frozen=True, gc=False):
    """A piece of a file that could not be read: where it stands and why."""

    offset: int
    size_bytes: int
    reason: str
    sha256: str
    detail: str = ""  # of our own format: which member is wrong, and how; never its value


SetAside = Callable[[Quarantined], None]


def unreadable(error: OSError, *, size_bytes: int = 0) -> Quarantined:
    """A file that the system does not let us read, or that is gone."""
    code = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return Quarantined(0, size_bytes, f"unreadable:{code}", "")


class BadLineError(Exception):
    """The line is no record; `reason` is a code, never content."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def records(
    path: Path, decode: Callable[[bytes], T], *, set_aside: SetAside, start: int = 0
) -> Iterator[tuple[int, T]]:
    """Each line's offset and its value, from a line's offset on; one that `decode` refuses is set aside.

    A line whose value is None is passed over.
    """
    with open_lines(path) as stream:
        if start:
            stream.seek(start)
        offset = start
        while line := stream.readline(LINE_SIZE_BYTES_MAX + 1):
            size = len(line)
            if size > LINE_SIZE_BYTES_MAX:
                skipped = skip_long_line(stream, line, offset=offset)
                set_aside(skipped)
                offset += skipped.size_bytes
                continue
            if not line.isspace():
                try:
                    value = decode(line)
                except BadLineError as bad:
                    set_aside(set_line_aside(line, bad, offset=offset))
                else:
                    if value is not None:
                        yield offset, value
            offset += size


def whole_document(path: Path) -> bytes:
    """The bytes of a file that is one value, unpacked when it is gzip; BadLineError when they are too many."""
    with path.open("rb") as raw:
        is_packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        try:
            data = (gzip.GzipFile(fileobj=raw) if is_packed else raw).read(DOCUMENT_SIZE_BYTES_MAX + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise BadLineError("broken_archive") from None
    if len(data) > DOCUMENT_SIZE_BYTES_MAX:
        raise BadLineError("document_too_long")
    return data


def open_lines(path: Path) -> IO[bytes]:
    """The file's bytes; of a `.zst` file what was compressed."""
    if path.suffix != ".zst":
        return path.open("rb")
    import zstandard  # noqa: PLC0415 only archived rollouts are compressed

    raw = path.open("rb")
    return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw, closefd=True))


def set_line_aside(line: bytes, bad: BadLineError, *, offset: int) -> Quarantined:
    """What is told of a line that is no record."""
    is_whole = line.endswith(b"\n")
    digest = hashlib.sha256(line).hexdigest()
    return Quarantined(offset, len(line), bad.reason if is_whole else INCOMPLETE, digest, bad.detail)


def skip_long_line(stream: IO[bytes], begin: bytes, *, offset: int) -> Quarantined:
    """Read on to the line's end without keeping it."""
    digest = hashlib.sha256(begin)
    size = len(begin)
    whole = begin.endswith(b"\n")
    while not whole and (piece := stream.readline(_SKIP_SIZE_BYTES)):
        digest.update(piece)
        size += len(piece)
        whole = piece.endswith(b"\n")
    return Quarantined(offset, size, "line_too_long" if whole else INCOMPLETE, digest.hexdigest())


def contains(path: Path, needles: Sequence[bytes]) -> bool:
    """Whether any of the needles stands in the file; much faster than a look at each line."""
    overlap = max(map(len, needles))
    with open_lines(path) as stream:
        end = b""
        while chunk := stream.read(_SKIP_SIZE_BYTES):
            chunk = end + chunk
            if any(needle in chunk for needle in needles):
                return True
            end = chunk[-overlap:]
    return False


def object_decoder(kind: type[T]) -> Callable[[bytes], T]:
    """A decoder of lines into a Struct (or dict): BadLineError for all that is no JSON object.

    >>> object_decoder(dict)(b'{"a": NaN, "b": 1}')
    {'a': None, 'b': 1}
    >>> object_decoder(dict)(b"[1]")
    Traceback (most recent call last):
    ...
    sources.lines.BadLineError: not_an_object
    """
    strict = msgspec.json.Decoder(kind)

    def decode(line: bytes) -> T:
        if is_too_deep(line):
            raise BadLineError("nested_too_deep")
        try:
            return strict.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            value = _lenient(line)
        try:
            return msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            raise BadLineError("unexpected_shape") from None

    return decode


def _lenient(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8-sig"), parse_constant=lambda _name: None)
    except UnicodeDecodeError:
        raise BadLineError("not_utf8") from None
    except ValueError:
        raise BadLineError("nul_bytes" if b"\x00" in line else "not_json") from None
    if not isinstance(value, dict):
        raise BadLineError("not_an_object")
    repaired = _repair(value)
    assert isinstance(repaired, dict)
    return repaired


def _repair(value: Any) -> Any:
    """Lone surrogates become U+FFFD; infinities (1e999) become null."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, dict):
        return {whole_text(key): _repair(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_repair(item) for item in value]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return None
    return value


def whole_text(text: str) -> str:
    r"""The text with every lone surrogate replaced.

    >>> whole_text("a\ud83d")
    'a\ufffd'
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
