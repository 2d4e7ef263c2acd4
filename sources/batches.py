"""From segments to appends: batches, their derived append ids, and the digest of what was appended."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from polyc.appending import Draft
from polyc.ids import uuid8_bytes
from polyc.limits import EVENTS_PER_IMPORT_APPEND_MAX

_LENGTHS: Final = 6  # two bytes of type, four of size before each payload in the digest


class Batch(msgspec.Struct, frozen=True):
    """One append. `opens`: an incarnation begins with it; `new_incarnation`: and there was one before."""

    drafts: tuple[Draft, ...]
    append_id: bytes
    opens: bool = False
    new_incarnation: bool = False


class Chain:
    """The digest of all events of an incarnation so far, and their number."""

    def __init__(self) -> None:
        self.count = 0
        self._digest = hashlib.sha256()

    def add(self, event_type: int, payload: bytes) -> None:
        """One more event."""
        self._digest.update(event_type.to_bytes(2, "big") + len(payload).to_bytes(_LENGTHS - 2, "big"))
        self._digest.update(payload)
        self.count += 1

    def digest(self) -> bytes:
        """32 bytes."""
        return self._digest.digest()


def batches(
    partition: str, segments: Iterable[tuple[Draft, ...]], chain: Chain, *, new_incarnation: bool
) -> Iterator[Batch]:
    """Appends of at most 64 events; none reaches over a segment's end, so a longer file's begin with the same."""
    for drafts in segments:
        for begin in range(0, len(drafts), EVENTS_PER_IMPORT_APPEND_MAX):
            part = drafts[begin : begin + EVENTS_PER_IMPORT_APPEND_MAX]
            opens = chain.count == 0
            for draft in part:
                chain.add(draft.event_type, draft.payload)
            append_id = uuid8_bytes(partition, "append", chain.digest().hex())
            yield Batch(part, append_id, opens=opens, new_incarnation=opens and new_incarnation)
