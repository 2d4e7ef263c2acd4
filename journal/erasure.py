"""Erasing content (ruling 9): payload and salt go, header, chain and root stay, and the fact is itself an event.

The `erased` event is the command: Control appends it to `journal-notices`, and the journal overwrites what it names
in the same transaction (SQLite's secure_delete zeroes the bytes), then checkpoints and truncates the WAL so that no
older copy stays in it. What backups, exports and derived files hold is theirs to sweep; the answer names them. With
`encryption = per-conversation` erasing a whole conversation destroys its key, which reaches every copy.
"""

from typing import Final

import msgspec

from journal.door import Inspected
from journal.port import JournalReader
from polyc.appending import Ack, Author, Draft
from polyc.errors import CorruptError, RefusedError
from polyc.ids import uuid8
from polyc.keyring import KeyRing
from polyc.vocabulary import BY_KIND

NOTICES_PARTITION: Final = "journal-notices"
INCARNATION_SIZE_BYTES: Final = 16
ERASED: Final = BY_KIND["erased"].code


class Erased(msgspec.Struct, frozen=True, kw_only=True, tag="erased", tag_field="type"):
    """The body of an `erased` event: one event, or (position None) all of an incarnation so far."""

    id: str
    partition: str
    incarnation: str
    position: int | None = None
    reason: str = ""
    occurred_at: str | None = None


def erasures_of(append: Inspected) -> list[Erased]:
    """What an append to the notices orders to be erased; RefusedError for a malformed order."""
    try:
        orders = [
            msgspec.json.decode(item.payload, type=Erased)
            for item, code in zip(append.signed.entries, append.event_types, strict=True)
            if code == ERASED
        ]
        if all(len(bytes.fromhex(order.incarnation)) == INCARNATION_SIZE_BYTES for order in orders):
            return orders
    except (msgspec.DecodeError, ValueError):
        pass
    raise RefusedError("not an erased event")


def erase(
    author: Author,
    *,
    partition: str,
    incarnation: bytes,
    position: int | None = None,
    reason: str = "",
    occurred_at: str | None = None,
) -> Ack:
    """Order the erasure of one event, or (position None) of an incarnation's content, in Control's name."""
    order = Erased(
        id=uuid8("erased", partition, incarnation.hex(), str(position)),
        partition=partition,
        incarnation=incarnation.hex(),
        position=position,
        reason=reason,
        occurred_at=occurred_at,
    )
    return author.append(NOTICES_PARTITION, [Draft(ERASED, msgspec.json.encode(order))])


def announced(
    reader: JournalReader, keys: KeyRing, *, through_index: int | None = None
) -> dict[tuple[str, bytes, int | None], int]:
    """What Control's `erased` events name: (partition, incarnation, position or None for all so far).

    With the index of the last event that names it: what was said later is not erased by it.
    """
    found: dict[tuple[str, bytes, int | None], int] = {}
    for record in reader.read(NOTICES_PARTITION, through_index=through_index):
        if record.event_type != ERASED or keys.role_at(record.key_id, record.index) != "control":
            continue
        if record.payload is None:
            raise CorruptError("an erased event was erased", place=f"{NOTICES_PARTITION}@{record.position}")
        event = msgspec.json.decode(record.payload, type=Erased)
        found[event.partition, bytes.fromhex(event.incarnation), event.position] = record.index
    return found
