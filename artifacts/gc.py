"""The collector: removes what no generation in use names, and nothing a reader may still hold (C15).

    1. keep the newest generations and every one a live lease names; note what the others name
    2. remove the manifests of the others
    3. look at the leases again: a reader that pinned in between keeps its packs (it looked at the manifest after it
       wrote its lease: had 2 been first, it would have moved on)
    4. remove packs and base lists that nobody names: those of removed manifests at once, unknown ones (a crashed
       publication's, or one that is running) only after an hour
    5. remove expired leases and what crashes left half made

A pack disappears whole (renamed out of sight first); a crash anywhere leaves only what the next run removes.
"""

from collections.abc import Callable, Iterable

import msgspec

from artifacts.layout import BASES, GENERATIONS, PACKS, SEARCH, base_name, generation_number
from artifacts.lease import Lease, live, read_leases
from artifacts.manifest import Manifest
from artifacts.newest import Newest, base_packs
from artifacts.store import DirectoryStore, Entry, Store
from polyc.clock import Clock
from polyc.errors import CorruptError
from polyc.keyring import KeyRing
from polyc.limits import GENERATIONS_KEPT_MIN, ORPHAN_AGE_S_MIN


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What was (or, on a dry run, would be) removed, and how many packs stay."""

    deleted: tuple[str, ...]
    kept: int
    freed_bytes: int
    leases: int


def collect(
    store: Store,
    *,
    keys: Callable[[], KeyRing],
    clock: Clock,
    dry_run: bool = False,
    keep_generations: int = GENERATIONS_KEPT_MIN,
) -> Collected:
    """Run the five steps; a manifest that does not verify stops the collector before anything is removed."""
    now_us = clock.now_us()
    newest = Newest(store, keys=keys)
    names = {n: e.name for e in store.list(GENERATIONS) if (n := generation_number(e.name)) is not None}
    bodies = {number: newest.at(number).body for number in names}
    leases = live(read_leases(store).values(), now_us=now_us)
    kept_numbers = {*sorted(bodies)[-max(1, keep_generations) :], *(lease.generation for lease in leases)}  # 1
    dropped = [number for number in sorted(bodies) if number not in kept_numbers]
    gone = _Named.of(store, [bodies[number] for number in dropped], ())
    deleted = [names[number] for number in dropped]
    if not dry_run:
        for name in deleted:  # 2
            store.delete(name)
        leases = live(read_leases(store).values(), now_us=now_us)  # 3
    kept = _Named.of(store, [body for number, body in bodies.items() if number not in dropped], leases)
    victims, freed = _victims(store, kept, gone, before_us=now_us - ORPHAN_AGE_S_MIN * 1_000_000)  # 4
    if not dry_run:
        for name in victims:
            store.delete(name)
        _sweep(store, now_us=now_us)  # 5
    return Collected(deleted=(*deleted, *victims), kept=len(kept.folders), freed_bytes=freed, leases=len(leases))


class _Named:
    """What manifests and leases name: pack folders and base lists."""

    def __init__(self) -> None:
        self.folders: set[str] = set()
        self.bases: set[str] = set()

    @classmethod
    def of(cls, store: Store, bodies: Iterable[Manifest], leases: Iterable[Lease]) -> "_Named":
        named = cls()
        for body in bodies:
            try:
                named._add((*base_packs(store, body.base), *body.deltas), body.search, body.base)
            except CorruptError as error:
                if error.kind != "missing":
                    raise
                named._add(body.deltas, body.search, body.base)
        for lease in leases:
            named._add(lease.packs, lease.search, lease.base)
        return named

    def _add(self, packs: Iterable[str], search: Iterable[str], base: str) -> None:
        self.folders.update(f"{PACKS}{pack_id}" for pack_id in packs)
        self.folders.update(f"{SEARCH}{pack_id}" for pack_id in search)
        if base:
            self.bases.add(base_name(base))


def _victims(store: Store, kept: _Named, gone: _Named, *, before_us: int) -> tuple[list[str], int]:
    folders: dict[str, list[Entry]] = {}
    for prefix in (PACKS, SEARCH):
        for entry in store.list(prefix):
            folders.setdefault("/".join(entry.name.split("/")[:2]), []).append(entry)
    victims, freed = [], 0
    for name, entries in folders.items():
        old = max(entry.modified_us for entry in entries) < before_us
        if name not in kept.folders and (name in gone.folders or old):
            victims.append(name)
            freed += sum(entry.size_bytes for entry in entries)
    for entry in store.list(BASES):
        if entry.name not in kept.bases and (entry.name in gone.bases or entry.modified_us < before_us):
            victims.append(entry.name)
            freed += entry.size_bytes
    return victims, freed


def _sweep(store: Store, *, now_us: int) -> None:
    for name, lease in read_leases(store).items():
        if lease.expires_at_us <= now_us:
            store.delete(name)
    if isinstance(store, DirectoryStore):
        store.sweep(older_than_us=now_us - ORPHAN_AGE_S_MIN * 1_000_000)
