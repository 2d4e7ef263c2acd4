"""A consistent cut of the journal: which partitions moved, and the size the cut covers.

`changed_since` is one snapshot, and the log's last entry belongs to a partition that moved: so the cut's size is the
highest last index plus one. The note is a checkpoint that covers the cut; nearly always exactly it.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Final

import msgspec

from artifacts.manifest import Behind, Frontier, Manifest
from journal.port import JournalReader, PartitionHead
from polyc.errors import CorruptError

CUT_ATTEMPTS: Final = 4  # under constant appends the checkpoint runs ahead of the snapshot; then a later note covers it


class Cut(msgspec.Struct, frozen=True):
    """The partitions that moved since some index, by name, and the frontier that includes their moves."""

    heads: tuple[PartitionHead, ...]
    frontier: Frontier


def take_cut(
    reader: JournalReader, *, since: int, waiting: Sequence[Behind] = (), everything: bool = False
) -> Cut | None:
    """What moved at or after the index `since`, and who waits from before; None when there is nothing of it.

    CorruptError when the journal is shorter than `since`, the frontier of what was published.
    """
    size = reader.size()
    if size < since:
        raise CorruptError(
            f"the journal has {size} entries, its artifacts were built through {since}",
            place="journal",
            kind="rollback",
            hint="an older journal was restored under newer artifacts: polyc verify",
        )
    waits = {item.partition for item in waiting}
    including = 0 if everything else min([since, *(item.since for item in waiting)])
    if size == including:
        return None
    cut = None
    for _ in range(CUT_ATTEMPTS):
        heads = reader.changed_since(including)
        if not heads:
            return None
        size = max(head.last_index for head in heads) + 1
        note = reader.checkpoint()
        note_size, root = _note_fields(note)
        if note_size < size:
            raise CorruptError("checkpoint does not cover the entries it sealed", place="journal", kind="checkpoint")
        moved = [head for head in heads if everything or head.last_index >= since or head.partition in waits]
        cut = Cut(tuple(sorted(moved, key=lambda head: head.partition)), Frontier(max(size, since), root, note))
        if note_size == size:
            break
    return cut if cut is not None and cut.heads else None


def covered_by(body: Manifest) -> int:
    """Through which index everything was read: the frontier, or less when partitions are behind."""
    return min([body.frontier.size, *(item.since for item in body.behind)])


def _note_fields(note: str) -> tuple[int, str]:
    """Size and root (hex) of a checkpoint note (C2SP tlog-checkpoint): origin, size, base64 root, …."""
    lines = note.split("\n")
    try:
        return int(lines[1]), base64.b64decode(lines[2], validate=True).hex()
    except (IndexError, ValueError, binascii.Error):
        raise CorruptError("checkpoint note cannot be read", place="journal", kind="checkpoint") from None
