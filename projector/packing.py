"""Writes changes as packs: delta packs of a tick, base packs of a cohort (artifacts.md, "Layout"; ADR 0017).

A cohort is the ISO week a conversation began in. Weeks are halved out of spans that begin at multiples of their own
length (2, 4, 8, … weeks): the longest span of at most 65 536 events is one pack. A week with more is a pack by itself;
of more than 262 144 events it is split by the first k bits of SHA-256(partition), k for each pack the smallest that
suffices. What pack a conversation is in depends on its span alone, a function of the journal and the layout parameters.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple

from artifacts.layout import LayoutParameters, TableSpec, pack_name
from artifacts.pack import Kind, PackWriter
from artifacts.store import Store
from projector.changes import Change

CALENDAR_WEEKS: Final = 2**19  # every week that a date can lie in: the span that all others are halved out of
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


def base_groups(cohorts: Mapping[str, str], events: Mapping[str, int], *, layout: LayoutParameters) -> list[list[str]]:
    """The partitions of every base pack, sorted by name, in the order of the base list."""
    by_week: dict[int, list[str]] = {}
    for name in sorted(cohorts):
        by_week.setdefault(week_of(cohorts[name]), []).append(name)
    weeks = {week: (sum(events[name] for name in names), names) for week, names in by_week.items()}
    spans = _spans(weeks, first=0, count=CALENDAR_WEEKS, span_events=layout.span_events)
    return [group for names in spans for group in _split(names, events, pack_events=layout.pack_events)]


def week_of(cohort: str) -> int:
    """The number of a cohort's week; 0 for what has no cohort, since nothing of it could be read.

    >>> week_of("2021-W01") - week_of("2020-W53"), week_of("")
    (1, 0)
    """
    if not cohort:
        return 0
    year, _, week = cohort.partition("-W")
    return date.fromisocalendar(int(year), int(week), 1).toordinal() // 7


def _spans(
    weeks: Mapping[int, tuple[int, list[str]]], *, first: int, count: int, span_events: int
) -> Iterator[list[str]]:
    """Halve the span of `count` weeks from `first` until it is small enough, or one week."""
    if not weeks:
        return
    if count == 1 or sum(size for size, _ in weeks.values()) <= span_events:
        yield sorted(name for _, names in weeks.values() for name in names)
        return
    half = count // 2
    for begin in (first, first + half):
        part = {week: held for week, held in weeks.items() if begin <= week < begin + half}
        yield from _spans(part, first=begin, count=half, span_events=span_events)


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
