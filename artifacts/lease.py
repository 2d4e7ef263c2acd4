"""Pins as leases: a reader says which packs it needs and until when; the collector respects it (C15).

A lease names its packs, so that they stay even when the generation's manifest is already gone. It expires by itself:
a crashed reader holds nothing for longer than the lease's life.
"""

from collections.abc import Iterable

import msgspec

from artifacts.layout import LEASES
from artifacts.store import Store
from polyc import canonical
from polyc.errors import CorruptError


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `leases/<id>.json`."""

    v: int = 1
    generation: int
    base: str
    packs: tuple[str, ...]
    search: tuple[str, ...] = ()
    expires_at_us: int


def lease_name(lease_id: str) -> str:
    """Where the lease lies."""
    return f"{LEASES}{lease_id}.json"


def write_lease(store: Store, lease_id: str, lease: Lease) -> None:
    """Make the lease known."""
    assert store.create(lease_name(lease_id), canonical.encode(msgspec.to_builtins(lease))), "lease ids are fresh"


def read_leases(store: Store) -> dict[str, Lease]:
    """All leases by object name; one that cannot be read counts as nobody's (its reader would have failed)."""
    found = {}
    for entry in store.list(LEASES):
        try:
            value = canonical.decode(store.read(entry.name), place=entry.name)
            found[entry.name] = msgspec.convert(value, Lease, strict=True)
        except (FileNotFoundError, CorruptError, msgspec.ValidationError):
            continue
    return found


def live(leases: Iterable[Lease], *, now_us: int) -> list[Lease]:
    """The leases that have not expired."""
    return [lease for lease in leases if lease.expires_at_us > now_us]
