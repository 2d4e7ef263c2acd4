"""Writes changes as packs: delta packs of a tick, base packs of a cohort (artifacts.md, "Layout").

A cohort (the ISO week a conversation began in) is split by the first k bits of SHA-256(partition), k for each pack
the smallest such that it covers at most 262 144 events: a function of the journal and the layout parameters alone.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from artifacts.layout import LayoutParameters, TableSpec, pack_name
from artifacts.pack import Kind, PackWriter
from artifacts.store import Store
from projector.changes import Change

HASH_BITS_MAX: Final = 64  # bounds the recursion; a conversation above the bound alone gets a pack of its own


class Written(NamedTuple):
    """A pack that is durable in the store."""

    pack_id: str
    partitions: int
    rows: int


def write_pack(
    store: Store, changes: Iterable[Change], *, specs: Sequence[TableSpec], layout: LayoutParameters, kind: Kind
) -> Written | None:
    """One pack of these changes, sorted by partition; durable when it returns. None when there are no changes."""
    with store.stage() as folder:
        writer = PackWriter(folder, specs, layout=layout)
        for item in changes:
            writer.add(item.entry, item.parts)
        pack_id, _ = writer.finish(kind)
        if writer.partitions == 0:
            return None
        store.publish(folder, pack_name(pack_id))
    return Written(pack_id, writer.partitions, writer.rows)


def base_groups(
    cohorts: Mapping[str, str], events: Mapping[str, int], *, layout: LayoutParameters
) -> list[tuple[str, list[str]]]:
    """The partitions of every base pack, as (cohort, sorted names), in the order of the base list."""
    by_cohort: dict[str, list[str]] = {}
    for name in sorted(cohorts):
        by_cohort.setdefault(cohorts[name], []).append(name)
    return [
        (cohort, group)
        for cohort, names in sorted(by_cohort.items())
        for group in _split(names, events, pack_events=layout.pack_events)
    ]


def _split(names: list[str], events: Mapping[str, int], *, pack_events: int, bits: int = 0) -> Iterator[list[str]]:
    """Halve by the next bit until a pack is small enough, or holds one conversation."""
    if len(names) <= 1 or bits == HASH_BITS_MAX or sum(events[name] for name in names) <= pack_events:
        if names:
            yield names
        return
    zeros = [name for name in names if not _hash_bit(name, bits)]
    ones = [name for name in names if _hash_bit(name, bits)]
    yield from _split(zeros, events, pack_events=pack_events, bits=bits + 1)
    yield from _split(ones, events, pack_events=pack_events, bits=bits + 1)


def _hash_bit(name: str, bit: int) -> int:
    return hashlib.sha256(name.encode()).digest()[bit // 8] >> (7 - bit % 8) & 1
