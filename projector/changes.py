"""From a partition's rows to what of them must be published: append, replace, or nothing but the new position.

row tables    equal content digest over the rows already published → append the rest, else replace
state tables  equal digest → keep, else replace
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from artifacts.index import APPEND, KEEP, REPLACE, IndexRow
from projector.content import ContentDigests
from projector.replay import Replayed

Parts = Mapping[str, list[tuple[Any, ...]] | pa.Table]


class Change(msgspec.Struct, frozen=True):
    """A partition's index row and the rows that go with it into one pack."""

    entry: IndexRow
    parts: Parts


def whole(replayed: Replayed, digests: ContentDigests) -> Change:
    """Everything, as a replace."""
    content = digests.of(replayed.rows, family="row")
    state = digests.of(replayed.rows, family="state")
    return _change(replayed, row_mode=REPLACE, state_mode=REPLACE, content=content, state=state, parts=replayed.rows)


def change(
    replayed: Replayed, digests: ContentDigests, *, published: IndexRow | None, counts: Mapping[str, int]
) -> Change:
    """What differs from what is published; `counts` are the rows of the row tables published so far."""
    if published is None or published.incarnation != replayed.incarnation.hex():
        return whole(replayed, digests)
    state = digests.of(replayed.rows, family="state")
    state_mode = KEEP if state == published.state else REPLACE
    before, content = digests.split(replayed.rows, family="row", published=counts)
    fits = all(len(replayed.rows.get(name, ())) >= rows for name, rows in counts.items())
    row_mode = APPEND if fits and before == published.content else REPLACE
    parts = {}
    for spec in digests.specs:
        rows = replayed.rows.get(spec.name, [])
        if spec.family == "row":
            parts[spec.name] = rows[counts.get(spec.name, 0) :] if row_mode == APPEND else rows
        elif state_mode == REPLACE:
            parts[spec.name] = rows
    first = published.to_position + 1 if row_mode == APPEND else 1
    return _change(
        replayed,
        row_mode=row_mode,
        state_mode=state_mode,
        content=content,
        state=state,
        parts=parts,
        first=first,
    )


def _change(
    replayed: Replayed,
    *,
    row_mode: str,
    state_mode: str,
    content: bytes,
    state: bytes,
    parts: Parts,
    first: int = 1,
) -> Change:
    parts = {name: part for name, part in parts.items() if len(part)}
    entry = IndexRow(
        partition=replayed.partition,
        cohort=replayed.cohort,
        row_mode=row_mode,
        state_mode=state_mode,
        incarnation=replayed.incarnation.hex(),
        from_position=first,
        to_position=replayed.through,
        head=replayed.leaf,
        content=content,
        state=state,
        erased=replayed.erased,
        counts={name: len(part) for name, part in parts.items()},
    )
    return Change(entry, parts)
