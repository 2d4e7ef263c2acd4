"""Honest records of what the journal knows to be missing or repaired: `gap` and `recovery` events of Control.

They stand beside the `erased` events (journal/erasure.py) in `journal-notices`, and the projector shows them in the
fleet table `journal_notices`.
"""

import msgspec

from journal.erasure import NOTICES_PARTITION
from journal.port import Opened
from polyc.appending import Ack, Author, Draft
from polyc.ids import uuid8, uuid8_bytes
from polyc.vocabulary import BY_KIND


class Gap(msgspec.Struct, frozen=True, kw_only=True, tag="gap", tag_field="type"):
    """The body of a `gap` event: something is known to be missing."""

    id: str
    detail: str
    partition: str | None = None
    occurred_at: str | None = None


class Recovery(msgspec.Struct, frozen=True, kw_only=True, tag="recovery", tag_field="type"):
    """The body of a `recovery` event: what was done, and from which index on the log went on."""

    id: str
    detail: str
    from_index: int
    occurred_at: str | None = None


def record_gap(author: Author, *, detail: str, partition: str | None = None) -> Ack:
    """Say in Control's name that something is missing; saying it again changes nothing."""
    body = Gap(id=uuid8("gap", detail, partition or ""), detail=detail, partition=partition)
    return _record(author, "gap", msgspec.json.encode(body))


def record_recovery(author: Author, *, detail: str, from_index: int) -> Ack:
    """Say in Control's name that a torn tail was cut or a backup restored; saying it again changes nothing."""
    body = Recovery(id=uuid8("recovery", detail, str(from_index)), detail=detail, from_index=from_index)
    return _record(author, "recovery", msgspec.json.encode(body))


def record_torn_tail(author: Author, opened: Opened) -> Ack | None:
    """Say what opening the journal cut, when it cut something: whoever connects says it, the first one counts."""
    if not opened.torn_bytes:
        return None
    detail = f"{opened.torn_bytes} bytes of a commit that never ended were cut off the write-ahead log"
    return record_recovery(author, detail=detail, from_index=opened.size)


def _record(author: Author, kind: str, body: bytes) -> Ack:
    append_id = uuid8_bytes(kind, body.decode())
    return author.append(NOTICES_PARTITION, [Draft(BY_KIND[kind].code, body)], append_id=append_id)
