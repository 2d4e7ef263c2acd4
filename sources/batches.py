"""From segments to appends: batches, their derived append ids, and the digest of what was appended."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final, Self

import msgspec

from polyc.appending import Draft
from polyc.ids import uuid8_bytes
from polyc.limits import EVENTS_PER_IMPORT_APPEND_MAX, IMPORT_APPEND_SIZE_BYTES_MAX

_LENGTHS: Final = 6  # two bytes of type, four of size before each payload in the digest


class Batch(msgspec.Struct, frozen=True):
    """One append. `opens`: an incarnation begins with it; `new_incarnation`: and there was one before."""

    drafts: tuple[Draft, ...]
    append_id: bytes
    opens: bool = False
    new_incarnation: bool = False


class Chain:
    """The digest of all events of an incarnation so far, and their number."""

    def __init__(self, count: int = 0, digest: "hashlib._Hash | None" = None) -> None:
        self.count = count
        self._digest = digest or hashlib.sha256()

    def add(self, drafts: Iterable[Draft]) -> None:
        """Some more events."""
        parts: list[bytes] = []
        for draft in drafts:
            parts.append((draft.event_type << 32 | len(draft.payload)).to_bytes(_LENGTHS, "big"))
            parts.append(draft.payload)
        self._digest.update(b"".join(parts))
        self.count += len(parts) // 2

    def digest(self) -> bytes:
        """32 bytes."""
        return self._digest.digest()

    def copy(self) -> Self:
        """Another one that goes on from here."""
        return type(self)(self.count, self._digest.copy())


def batches(
    partition: str, segments: Iterable[tuple[Draft, ...]], chain: Chain, *, place: int, ordinal: int, replaces: bool
) -> Iterator[Batch]:
    """Appends of at most 64 events and 8 MiB, each as full as it can be: a signature costs as much as ten events.

    `place` is how many events of the incarnation stand before them. The append id derives from the incarnation, the
    place and everything told by then (`chain`, which whoever makes the segments advances): the same files give the
    same ids.
    """
    waiting: list[Draft] = []
    size_bytes = 0

    def batch() -> Batch:
        span = f"{ordinal}:{place}:{len(waiting)}"
        append_id = uuid8_bytes(partition, "append", span, chain.digest().hex())
        return Batch(tuple(waiting), append_id, opens=place == 0, new_incarnation=replaces and place == 0)

    for drafts in segments:
        for draft in drafts:
            size = len(draft.payload)
            if waiting and (
                len(waiting) == EVENTS_PER_IMPORT_APPEND_MAX or size_bytes + size > IMPORT_APPEND_SIZE_BYTES_MAX
            ):
                yield batch()
                place += len(waiting)
                waiting, size_bytes = [], 0
            waiting.append(draft)
            size_bytes += size
    if waiting:
        yield batch()
