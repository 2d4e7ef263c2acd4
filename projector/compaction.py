"""Compaction: fewer packs, the same rows (artifacts.md, "Layout").

Small deltas merge by size class, eight to one. When the deltas hold more than an eighth of the base (and more than a
pack's worth), they go into the base packs of their cohorts; cohorts that did not move keep their packs. What results
is what a rebuild writes, byte for byte.

It works beside a running projector: whatever that publishes meanwhile stays on top of what was merged.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from artifacts.layers import BaseLayer, Layers
from artifacts.layout import LayoutParameters, TableSpec
from artifacts.reader import Generation, Reader
from artifacts.store import Store
from polyc.clock import Clock
from polyc.errors import UnavailableError
from polyc.signing import SignerSource
from projector.changes import Change
from projector.commit import LostRaceError, commit, following, store_failures, write_base
from projector.merging import PackSlices, merge
from projector.packing import base_groups, write_pack
from projector.searchable import Searchable

SearchMerge = Callable[[tuple[str, ...]], tuple[str, ...]]

BASE_SHARE: Final = 8  # deltas above an eighth of the base are worth rewriting it
REBASES_MAX: Final = 64  # each lost race is a publication of the projector beside us; the merge itself is kept


class Compactor:
    """Merges packs of one store.

    `check` is called between partitions; what it raises ends the merge, and nothing names what was written of it.
    """

    def __init__(
        self,
        store: Store,
        artifacts: Reader,
        *,
        signer: SignerSource,
        clock: Clock,
        specs: Sequence[TableSpec],
        layout: LayoutParameters,
        searchable: Searchable,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._artifacts = artifacts
        self._signer = signer
        self._clock = clock
        self._specs = specs
        self._layout = layout
        self._searchable = searchable
        self._check = check

    def maintain(self) -> bool:
        """Do the one merge that is due, if any; whether there was one."""
        with store_failures(self._store, known=self._artifacts.known_number):
            return self._maintain()

    def compact(self) -> bool:
        """Merge every delta into the base packs of its cohort; whether there was anything to merge."""
        with store_failures(self._store, known=self._artifacts.known_number):
            return self._compact()

    def _maintain(self) -> bool:
        current = self._artifacts.latest()
        sizes = [current.files.description(pack_id).events for pack_id in current.manifest.body.deltas]
        base_events = sum(current.files.description(pack_id).events for pack_id, _ in current.layers.base.packs)
        if sum(sizes) > max(self._layout.delta_events, base_events // BASE_SHARE):
            return self._compact()
        first = due_run(sizes, fan_in=self._layout.delta_fan_in)
        if first is None:
            return False
        run = current.layers.deltas[first:]
        layers, slices = Layers(BaseLayer(()), run), PackSlices(current.files, self._specs)
        changes = self._checked(merge(layers, slices, layers.partitions(), self._specs))
        written = write_pack(self._store, changes, specs=self._specs, layout=self._layout, kind="delta")
        assert written is not None, "a run of packs has partitions"
        self._replace(tuple(pack_id for pack_id, _ in run), (written.pack_id,), base=lambda body_base: body_base)
        return True

    def _compact(self) -> bool:
        current = self._artifacts.latest()
        if not current.layers.deltas:
            return False
        base_id = write_base(self._store, self.base_of(current, current.layers))
        search = self._compacted_search(current.manifest.body.search)
        self._replace(current.manifest.body.deltas, (), base=lambda _: base_id, search=search)
        return True

    def make_searchable(self) -> bool:
        """Give the newest generation the search packs it lacks, with a child of its own; whether it lacked them."""
        with store_failures(self._store, known=self._artifacts.known_number):
            current = self._artifacts.latest()
            if not self._searchable.missing(current):
                return False
            search = self._searchable.make(current)
            return bool(search) and self._bind(search, current)

    def _bind(self, search: tuple[str, ...], made_of: Generation) -> bool:
        """Bind search packs to what is the newest generation now, and the deltas published meanwhile with them."""
        known = made_of.manifest.body
        for _ in range(REBASES_MAX):
            current = self._artifacts.latest()
            body = current.manifest.body
            if body.search or body.base != known.base or body.deltas[: len(known.deltas)] != known.deltas:
                return True  # other packs than these were made of: look again
            newer = body.deltas[len(known.deltas) :]
            child = following(current.manifest, search=self._searchable.extended(search, newer))
            try:
                commit(self._store, child, signer=self._signer, clock=self._clock)
            except LostRaceError:
                continue
            return True
        raise UnavailableError("another projector keeps publishing into this store")

    def base_of(self, current: Generation, layers: Layers) -> list[str]:
        """Write the base packs that say what these layers say; returns the list in its order."""
        newest = {name: row for name in layers.partitions() if (row := layers.newest(name)) is not None}
        cohorts = {name: row.cohort for name, row in newest.items()}
        events = {name: row.to_position for name, row in newest.items()}
        moved = {name for _, index in layers.deltas for name in index.row_of}
        unmoved = {tuple(index.partitions): pack_id for pack_id, index in layers.base.packs}
        slices = PackSlices(current.files, self._specs)
        packs = []
        for names in base_groups(cohorts, events, layout=self._layout):
            pack_id = unmoved.get(tuple(names))
            if pack_id is None or moved.intersection(names):
                changes = self._checked(merge(layers, slices, names, self._specs))
                written = write_pack(self._store, changes, specs=self._specs, layout=self._layout, kind="base")
                assert written is not None, "a group has partitions"
                pack_id = written.pack_id
            packs.append(pack_id)
            slices.drop(keep=[delta_id for delta_id, _ in layers.deltas])
        return packs

    def _checked(self, changes: Iterable[Change]) -> Iterator[Change]:
        for change in changes:
            self._check()
            yield change

    def _compacted_search(self, previous: tuple[str, ...]) -> SearchMerge:
        """Search packs as a rebuild would make them; those published meanwhile stay on top."""
        merged = self._searchable.compacted(previous)
        return lambda current: (*merged, *current[len(previous) :]) if current[: len(previous)] == previous else current

    def _replace(
        self,
        run: tuple[str, ...],
        merged: tuple[str, ...],
        *,
        base: Callable[[str], str],
        search: SearchMerge = lambda current: current,
    ) -> None:
        """Name the merged packs instead of the run, in whatever generation is the newest now."""
        for _ in range(REBASES_MAX):
            current = self._artifacts.latest()
            deltas = current.manifest.body.deltas
            start = next((i for i in range(len(deltas)) if deltas[i : i + len(run)] == run), None)
            if start is None:
                raise LostRaceError("somebody else merged these packs")
            deltas = (*deltas[:start], *merged, *deltas[start + len(run) :])
            was = current.manifest.body
            body = following(current.manifest, base=base(was.base), deltas=deltas, search=search(was.search))
            try:
                commit(self._store, body, signer=self._signer, clock=self._clock)
            except LostRaceError:
                continue
            return
        raise UnavailableError("another projector keeps publishing into this store")


def due_run(sizes: Sequence[int], *, fan_in: int) -> int | None:
    """Where the newest run of at least `fan_in` deltas of one size class or below begins; None when none is due.

    >>> due_run([1000, 3, 2, 3, 1, 2, 3, 2, 5], fan_in=8), due_run([3, 2, 1], fan_in=8)
    (1, None)
    """
    largest = max(sizes, default=0)
    bound = fan_in
    while True:
        run = len(sizes)
        while run > 0 and sizes[run - 1] <= bound:
            run -= 1
        if len(sizes) - run >= fan_in:
            return run
        if bound >= largest:
            return None
        bound *= fan_in
