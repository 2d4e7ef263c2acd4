"""Reads generations: the newest one verified, what is in it, and the ways to its rows.

Order of evidence: manifest signature → list of base packs by its hash → pack descriptions by theirs → indexes and
files by the hashes in them. Whatever does not fit stops the reader with the place named; nothing is skipped.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from artifacts.admit import Admission, plan_admission
from artifacts.engine import Engine
from artifacts.files import PackFiles
from artifacts.fleet import FleetSource, plan_fleet
from artifacts.layers import BaseLayer, Layers, Piece
from artifacts.layout import TableSpec
from artifacts.manifest import Fault, Frontier, SignedManifest
from artifacts.newest import Newest, Pins, base_packs, unless_collected
from artifacts.store import Store
from polyc.clock import Clock
from polyc.errors import UnavailableError
from polyc.ids import IdSource
from polyc.keyring import KeyRing
from polyc.limits import ADMISSION_SIZE_BYTES_MAX


class Generation:
    """A verified generation: what is in it, and the ways to its rows."""

    def __init__(self, manifest: SignedManifest, layers: Layers, files: PackFiles, engine: Engine) -> None:
        self.manifest = manifest
        self.layers = layers
        self.files = files
        self._engine = engine

    @property
    def number(self) -> int:
        """The number; for the fleet only (ruling 33)."""
        return self.manifest.body.generation

    @property
    def generation_id(self) -> str:
        """The opaque name participants see."""
        return self.manifest.generation_id

    @property
    def frontier(self) -> Frontier:
        """Through which journal size it was built."""
        return self.manifest.body.frontier

    @property
    def created_at_us(self) -> int:
        """When it was published, by the projector's clock."""
        return self.manifest.body.created_at_us

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Partitions that were set aside."""
        return self.manifest.body.faults

    @property
    def search_packs(self) -> tuple[str, ...]:
        """The search packs bound in the same generation, oldest first."""
        return self.manifest.body.search

    def partitions(self) -> list[str]:
        """All partitions, sorted."""
        return self.layers.partitions()

    def has(self, partition: str) -> bool:
        """Whether the partition is known."""
        return self.layers.has(partition)

    def pieces(self, spec: TableSpec, partitions: Sequence[str]) -> list[Piece]:
        """Which packs hold which live rows of these partitions."""
        self.check(spec)
        return self.layers.pieces(spec.name, spec.family, partitions)

    def row_count(self, spec: TableSpec, partitions: Sequence[str] | None = None) -> int:
        """Live rows of a table, of these partitions or of all."""
        names = self.partitions() if partitions is None else partitions
        return sum(piece.rows for piece in self.pieces(spec, names))

    def admission(
        self, spec: TableSpec, *, partitions: Sequence[str], columns: Sequence[str] | None = None
    ) -> Admission:
        """What exactly would be admitted, before anything is read."""
        pieces = self.pieces(spec, partitions)
        dead = self.layers.dead(spec.family)
        return plan_admission(self.files, self._engine, spec, pieces=pieces, dead=dead, columns=columns)

    def admit(
        self,
        spec: TableSpec,
        *,
        partitions: Sequence[str],
        columns: Sequence[str] | None = None,
        budget_bytes: int = ADMISSION_SIZE_BYTES_MAX,
    ) -> pa.Table:
        """Exactly these partitions' live rows, counted; RefusedError when they exceed the budget."""
        return self.admission(spec, partitions=partitions, columns=columns).table(budget_bytes=budget_bytes)

    def fleet_sources(self, spec: TableSpec) -> FleetSource:
        """The files of all live rows, for a sealed engine that may see the fleet."""
        self.check(spec)
        return plan_fleet(self.files, self.layers, spec)

    def lookup(self, spec: TableSpec, *, column: str, value: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The fleet's live rows whose column equals the value: a question of ours, never a person's text."""
        assert column in spec.column_names, "the column is one of the table's"
        source = self.fleet_sources(spec)
        chosen = ", ".join(f'"{name}"' for name in columns or spec.column_names)
        statement = f'SELECT {chosen} FROM ({source.view_sql()}) WHERE "{column}" = $value'
        registered = {source.dead_name: source.dead} if source.dead_name else {}
        return self._engine.table(statement, parameters={"value": value}, registered=registered)

    def check(self, spec: TableSpec) -> None:
        """The table has the shape this generation was made with."""
        if self.manifest.body.tables.get(spec.name) != spec.digest():
            raise UnavailableError(
                f"artifacts were made with another shape of {spec.name}",
                code="failed_precondition",
                hint="polyc project --rebuild",
            )


class PinnedGeneration:
    """A generation whose packs stay until `expires_at_us`, and longer while the pin is held."""

    def __init__(self, generation: Generation, expires_at_us: int) -> None:
        self.generation = generation
        self.expires_at_us = expires_at_us


class Reader:
    """Follows the newest generation of a store; one per process, not shared between threads."""

    def __init__(
        self,
        store: Store,
        *,
        keys: Callable[[], KeyRing],
        clock: Clock,
        ids: IdSource,
        origin: str | None = None,
        cache: Path | None = None,
    ) -> None:
        self._store = store
        self._newest = Newest(store, keys=keys, origin=origin)
        self._pins = Pins(store, clock=clock, ids=ids)
        self._files = PackFiles(store, cache=cache)
        self._engine = Engine()
        self._base: tuple[str, BaseLayer] = ("", BaseLayer(()))
        self._open: Generation | None = None

    @property
    def files(self) -> PackFiles:
        """The packs as files, also those that no generation names yet."""
        return self._files

    def known_number(self) -> int | None:
        """The number of the newest generation this reader has met."""
        return self._newest.known_number()

    def manifest(self) -> SignedManifest:
        """The newest manifest, verified, without any look at what it names."""
        return self._newest.latest()

    def latest(self) -> Generation:
        """The newest generation, verified; never one older than this reader has seen."""
        return unless_collected(lambda: self._generation(self._newest.latest()))

    def at(self, number: int) -> Generation:
        """An older generation, verified, while its packs are there."""
        return self._load(self._newest.at(number))

    @contextmanager
    def pin(self) -> Iterator[PinnedGeneration]:
        """Hold the newest generation's packs by a lease; one lease serves many queries."""
        pin = self._pins.hold(self._newest)
        yield PinnedGeneration(self._generation(pin.manifest), pin.expires_at_us)

    def release(self) -> None:
        """Give back the lease and the engine; a process that dies instead is waited for until the lease runs out."""
        self._pins.release()
        self._engine.close()

    def _generation(self, manifest: SignedManifest) -> Generation:
        if self._open is None or self._open.manifest.sha256 != manifest.sha256:
            self._open = self._load(manifest)
            held = self._pins.held
            pinned = set() if held is None else set(held.packs)
            self._files.forget({pack_id for pack_id, _ in self._open.layers.packs()} | pinned)
        return self._open

    def _load(self, manifest: SignedManifest) -> Generation:
        base_id = manifest.body.base
        if self._base[0] != base_id:
            packs = base_packs(self._store, base_id)
            self._base = (base_id, BaseLayer([(pack_id, self._files.index(pack_id)) for pack_id in packs]))
        deltas = [(pack_id, self._files.index(pack_id)) for pack_id in manifest.body.deltas]
        return Generation(manifest, Layers(self._base[1], deltas), self._files, self._engine)
