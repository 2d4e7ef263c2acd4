"""A search pack: what one tick (or a merge of ticks) made searchable; written once, named by the hash of its list.

    search/<id>/pack.json        canonical JSON: versions, engine, every file with sha256 and size; id = sha256[:32]
                partitions.json  one entry a partition, sorted; the place in the list is the partition's ordinal
                names.json       roles, tools and paths; ordinals from 1, 0 is none
                main.*           lexical index of messages, summaries and calls (absent when there are none)
                outputs.*        lexical index of full tool results, in an index of its own (the same)
                *.rows           the chunks of an index (search.rows)

Rows lie sorted by partition, then in the order they were said, in one segment: row numbers are document numbers, a
partition is a contiguous range. Packs form a list, oldest first: an `append` entry adds to what older packs hold of
the partition, a `replace` entry makes it dead. A pack's id stands in a signed manifest, so every byte is bound to it.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from polyc import canonical
from polyc.errors import CorruptError, UnavailableError
from search.analyzer import ANALYZER
from search.chunk import CHUNKER, REDACTION, Kind, SessionMeta

PACK_FILE: Final = "pack.json"
PARTITIONS_FILE: Final = "partitions.json"
NAMES_FILE: Final = "names.json"
IndexName = Literal["main", "outputs"]
INDEX_NAMES: Final[tuple[IndexName, ...]] = ("main", "outputs")
SCHEMA: Final = "search/2"
FOLDER: Final = "search/"


def index_of(kind: Kind) -> IndexName:
    """The index that holds the chunks of a kind."""
    return "outputs" if kind == "output" else "main"


class FileEntry(msgspec.Struct, frozen=True):
    """A file of a pack."""

    sha256: str
    bytes: int


class PackDescription(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`pack.json`."""

    v: int
    schema: str
    analyzer: str
    chunker: str
    redaction: str
    engine: str
    chunks: dict[str, int]  # by index name
    files: dict[str, FileEntry]


class Counts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a partition has in one index: chunks, and the tokens of the two text fields."""

    chunks: int = 0
    body_tokens: int = 0
    stem_tokens: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """The sum."""
        return Counts(
            self.chunks + other.chunks, self.body_tokens + other.body_tokens, self.stem_tokens + other.stem_tokens
        )


class PartitionEntry(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A partition in a pack; `meta` None when the tick did not touch its session row."""

    partition: str
    mode: Literal["append", "replace"]
    incarnation: str
    to_position: int
    main: Counts
    outputs: Counts
    meta: SessionMeta | None

    def counts(self, index: str) -> Counts:
        """What it has in an index."""
        return self.main if index == "main" else self.outputs


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The pack's dictionaries; the ordinal of a name is its place from 1."""

    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


def describe(*, engine: str, chunks: dict[str, int], files: dict[str, FileEntry]) -> bytes:
    """The bytes of `pack.json`."""
    description = PackDescription(
        v=1,
        schema=SCHEMA,
        analyzer=ANALYZER,
        chunker=CHUNKER,
        redaction=REDACTION,
        engine=engine,
        chunks=chunks,
        files=files,
    )
    return canonical.encode(msgspec.to_builtins(description))


def pack_id(description: bytes) -> str:
    """The pack's name."""
    return hashlib.sha256(description).hexdigest()[:32]


def pack_name(identity: str, file: str = "") -> str:
    """The name of a pack in the store, or of a file in it."""
    return f"{FOLDER}{identity}/{file}" if file else f"{FOLDER}{identity}"


class OtherVersionError(UnavailableError):
    """A pack that another version wrote, by its own rules for words and rows: the projector makes it anew."""

    def __init__(self) -> None:
        super().__init__("the search packs are of another version", hint="polyc project makes them anew")


def verify_description(content: bytes, *, identity: str, any_analyzer: bool = False) -> PackDescription:
    """The description of exactly this pack; CorruptError when it is not.

    OtherVersionError for one that this program does not search; for who reads its texts alone `any_analyzer` will do.
    """
    place = pack_name(identity, PACK_FILE)
    if pack_id(content) != identity:
        raise CorruptError("search pack is not the one that was named", place=place, kind="digest")
    try:
        description = msgspec.convert(canonical.decode(content, place=place), PackDescription, strict=True)
    except msgspec.ValidationError as error:
        raise CorruptError("search pack's list cannot be read", place=place, kind="pack") from error
    if (description.v, description.schema) != (1, SCHEMA) or not (any_analyzer or description.analyzer == ANALYZER):
        raise OtherVersionError
    return description


def verify_file(content: bytes | memoryview, entry: FileEntry, *, place: str) -> None:
    """The file has the bytes its pack was named for; CorruptError otherwise."""
    if len(content) != entry.bytes or hashlib.sha256(content).hexdigest() != entry.sha256:
        raise CorruptError("search file does not have the bytes of its pack", place=place, kind="digest")


def encode_partitions(entries: Sequence[PartitionEntry]) -> bytes:
    """The bytes of `partitions.json`."""
    return msgspec.json.encode(entries)


def decode_partitions(content: bytes) -> list[PartitionEntry]:
    """The entries of a verified file."""
    return _partitions.decode(content)


def decode_names(content: bytes) -> Names:
    """The dictionaries of a verified file."""
    return _names.decode(content)


_partitions = msgspec.json.Decoder(list[PartitionEntry])
_names = msgspec.json.Decoder(Names)
