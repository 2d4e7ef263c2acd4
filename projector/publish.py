"""Publishes generations: what moved is replayed once, written as one delta pack, and named by a signed manifest.

Order: packs durable, then the manifest. Who loses the race for a number looks again and plans again. Nothing here
gives rows a meaning, and nothing here deletes.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from artifacts.layers import Layers
from artifacts.layout import LayoutParameters, pack_name, schema_digests
from artifacts.manifest import Fault, Manifest, SignedManifest
from artifacts.reader import Generation, Reader
from artifacts.schema import WRITER
from artifacts.store import Store
from facts.trust import Trust
from journal.port import JournalReader, PartitionHead
from polyc.clock import Clock
from polyc.errors import UnavailableError
from polyc.ids import IdSource
from polyc.signing import SignerSource
from projector.commit import LostRaceError, commit, following, store_failures, write_base
from projector.compaction import Compactor
from projector.frontier import Cut, covered_by, take_cut
from projector.livefolds import LiveFolds
from projector.meaning import Meaning, meaning_of_facts, trust_digest
from projector.packing import Written, write_pack
from projector.rebuild import Progress, write_bases
from projector.replay import check_going
from projector.searchable import Searchable
from projector.tick import Tick, is_slow, select
from projector.workers import Workers
from search.build import SearchBuild

Outcome = TypeVar("Outcome")
RACES_MAX: Final = 16  # each lost race is another projector's progress; more means two services on one store


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What a publication did; `behind` partitions were left to the next one, `slow` of them to a slow tick."""

    generation: int
    frontier_size: int
    partitions: int
    rows: int
    faults: int
    behind: int
    slow: int


class Projector:
    """One journal, one store; any number of projectors may try at once, one of them wins each number."""

    def __init__(
        self,
        reader: JournalReader,
        store: Store,
        *,
        signer: SignerSource,
        clock: Clock,
        ids: IdSource,
        meaning: Meaning | None = None,
        layout: LayoutParameters | None = None,
        cache: Path | None = None,
        search: bool = True,
        workers: Workers | None = None,
    ) -> None:
        """Watch this journal and store.

        `cache` is where packs of a store without local paths are copied to be merged; `search` packs are written with
        the tables unless told otherwise; `workers` share the work when everything is replayed.
        """
        self.journal = reader
        self.store = store
        self.meaning = meaning or meaning_of_facts()
        self.layout = layout or LayoutParameters()
        self._signer = signer
        self.clock = clock
        self._ids = ids
        self._cache = cache
        self.artifacts = self.new_reader()
        self._with_search = search
        self._workers = workers
        self._searchable = Searchable(self._new_search(), self.artifacts.files)
        self._stopping: Callable[[], bool] = lambda: False
        self._live = LiveFolds()
        self._tables = schema_digests(self.meaning.tables)

    def run_once(
        self,
        progress: Progress | None = None,
        *,
        budget_events: int | None = None,
        slow: bool = True,
        make_searchable: bool = True,
    ) -> Published | None:
        """Publish what the journal holds beyond the newest generation; None when that is nothing.

        With a budget, what does not fit into it is left behind, by name, for the next run; without `slow`, so are
        audit and credentials. Search packs that a generation lacks altogether (the first one) are made too, unless
        that is left to `Compactor.make_searchable`.
        """
        published = self._until_won(lambda: self._advance(progress, budget_events, slow=slow))
        if make_searchable and self._current() is not None:
            self._until_won(self.compactor().make_searchable)
        return published

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Ask this between partitions: once it says yes, what is being written is left unnamed."""
        self._stopping = stopping

    def rebuild(self, progress: Progress | None = None) -> Published | None:
        """Replay everything into base packs and switch to them in one step; None for an empty journal.

        Of the newest generation only the manifest is looked at: damaged packs do not stand in the way.
        """
        return self._until_won(lambda: self._rebuild(self._manifest(), progress))

    def compact(self) -> bool:
        """Merge every delta into the base packs of its cohort: what a rebuild would write, byte for byte."""
        return self._current() is not None and self.compactor().compact()

    def maintain(self) -> bool:
        """Do the one merge of packs that is due, if any; whether there was one."""
        return self._current() is not None and self.compactor().maintain()

    def compactor(self, artifacts: Reader | None = None) -> Compactor:
        """A compactor of this store; with a reader of its own it may work in another thread."""
        return Compactor(
            self.store,
            artifacts or self.artifacts,
            signer=self._signer,
            clock=self.clock,
            specs=self.meaning.tables,
            layout=self.layout,
            searchable=self._searchable if artifacts is None else Searchable(self._new_search(), artifacts.files),
            check=self._check,
        )

    def covered(self) -> int:
        """The frontier of the newest generation; 0 when there is none."""
        current = self._current()
        return 0 if current is None else current.frontier.size

    def new_reader(self) -> Reader:
        """A reader of this store: ours, or one for another thread."""
        return Reader(
            self.store,
            keys=self.journal.keyring,
            clock=self.clock,
            ids=self._ids,
            origin=self.journal.origin,
            cache=self._cache,
        )

    def _new_search(self) -> SearchBuild | None:
        if not self._with_search:
            return None
        return SearchBuild(self.store, check=self._check)

    def _check(self) -> None:
        check_going(self._stopping)

    def _until_won(self, attempt: Callable[[], Outcome]) -> Outcome:
        for _ in range(RACES_MAX):
            try:
                with store_failures(self.store, known=self.artifacts.known_number):
                    return attempt()
            except UnavailableError as error:
                self._live.clear()  # they went on from what was not published
                if not isinstance(error, LostRaceError):
                    raise
        raise UnavailableError("another projector keeps publishing into this store", hint="stop one of the two")

    def _current(self) -> Generation | None:
        try:
            return self.artifacts.latest()
        except UnavailableError:
            return None

    def _manifest(self) -> SignedManifest | None:
        try:
            return self.artifacts.manifest()
        except UnavailableError:
            return None

    def _advance(self, progress: Progress | None, budget_events: int | None, *, slow: bool) -> Published | None:
        """One publication.

        1. refuse an older journal, 2. rebuild when rows could differ, 3. choose, 4. fold and write, 5. let what was
        erased leave every pack, 6. commit
        """
        current = self._current()
        if current is None:
            return self._rebuild(None, progress)
        body = current.manifest.body
        cut = take_cut(self.journal, since=body.frontier.size, waiting=body.behind)  # 1
        if cut is not None and not slow and all(is_slow(head.partition) for head in cut.heads):
            return None  # every query comes by here: what could ask for a rebuild, a key event, is not among these
        if self._must_rebuild(current):  # 2
            return self._rebuild(current.manifest, progress)
        if cut is None:
            return None
        selection = select(  # 3
            cut, waiting=body.behind, since=body.frontier.size, budget_events=budget_events, slow=slow
        )
        if not selection.heads:
            return None
        self._live.moved(cut.heads)
        tick = self._tick(current)
        written = self._write(tick, selection.heads, progress)  # 4
        deltas = [*body.deltas, *(pack.pack_id for pack in written)]
        base = body.base
        if tick.erased:  # 5
            written += self._write_erased(tick, selection.heads)
            base = self._purge(current, written)
            deltas = []
        moved = {head.partition for head in selection.heads} | tick.erased
        kept = [fault for fault in current.faults if fault.partition not in moved]
        child = following(
            current.manifest,
            frontier=cut.frontier,
            trust=trust_digest(self._trust(), size=cut.frontier.size),
            base=base,
            deltas=tuple(deltas),
            faults=_sorted([*kept, *tick.faults]),
            behind=selection.behind,
            search=self._searchable.extended(body.search, [p.pack_id for p in written], erased=tick.erased),
        )
        published = self._commit(child, written)  # 6
        if tick.erased:  # what was only a step to the purged base is named by nobody, and may hold what goes next
            for pack in written:
                self.store.delete(pack_name(pack.pack_id))
        return published

    def _tick(self, current: Generation) -> Tick:
        since = covered_by(current.manifest.body)
        return Tick(
            self.journal,
            current,
            meaning=self.meaning,
            trust=self._trust(),
            live=self._live,
            since=since,
            stopping=self._stopping,
        )

    def _write(self, tick: Tick, heads: tuple[PartitionHead, ...], progress: Progress | None) -> list[Written]:
        total = sum(head.position for head in heads)
        changes = tick.changes(heads)
        if progress is not None:
            progress(0, total)
        written = write_pack(self.store, changes, specs=self.meaning.tables, layout=self.layout, kind="delta")
        if progress is not None:
            progress(total, total)
        return [] if written is None else [written]

    def _write_erased(self, tick: Tick, done: tuple[PartitionHead, ...]) -> list[Written]:
        """Fold the partitions again that an `erased` event elsewhere names, without any fold from before."""
        self._live.clear()
        names = tick.erased - {head.partition for head in done}
        heads = tuple(head for head in self.journal.partitions() if head.partition in names)
        return self._write(tick, heads, None)

    def _purge(self, current: Generation, written: Sequence[Written]) -> str:
        """Base packs without anything superseded: the erased content is in no pack of the next generation."""
        news = [(pack.pack_id, current.files.index(pack.pack_id)) for pack in written]
        layers = Layers(current.layers.base, [*current.layers.deltas, *news])
        return write_base(self.store, self.compactor().base_of(current, layers))

    def _rebuild(self, current: SignedManifest | None, progress: Progress | None) -> Published | None:
        since = 0 if current is None else current.body.frontier.size
        cut = take_cut(self.journal, since=since, everything=True)
        if cut is None:
            return None
        self._live.clear()
        faults: list[Fault] = []
        written = write_bases(
            self.journal, self.store, cut.heads, meaning=self.meaning, layout=self.layout, faults=faults,
            progress=progress, workers=self._workers, stopping=self._stopping,
        )  # fmt: skip
        ids = [pack.pack_id for pack in written]
        child = self._root(cut) if current is None else following(current, frontier=cut.frontier)
        child = msgspec.structs.replace(
            child,
            trust=trust_digest(self._trust(), size=cut.frontier.size),
            fold_version=self.meaning.fold_version,
            tables=self._tables,
            layout=self.layout,
            writer=WRITER,
            base=write_base(self.store, ids),
            deltas=(),
            faults=_sorted(faults),
            behind=(),
            search=() if current is None else self._searchable.anew(ids),
        )
        return self._commit(child, written)

    def _root(self, cut: Cut) -> Manifest:
        """The body of a first generation, before anything is in it."""
        return Manifest(
            v=1, origin=self.journal.origin, generation=1, parent="", created_at_us=0, frontier=cut.frontier,
            fold_version="", trust="", tables={}, layout=self.layout, writer=WRITER, base="", deltas=(), faults=(),
        )  # fmt: skip

    def _must_rebuild(self, current: Generation) -> bool:
        """Whether rows of this generation, or its search packs, might differ from what a replay would give now."""
        body = current.manifest.body
        return (
            body.fold_version != self.meaning.fold_version
            or body.tables != self._tables
            or body.layout != self.layout
            or body.writer != WRITER
            or body.trust != trust_digest(self._trust(), size=body.frontier.size)
            or not self._searchable.reads(body.search)
        )

    def _trust(self) -> Trust:
        return self.meaning.trust_of(self.journal.keyring())

    def _commit(self, child: Manifest, written: Sequence[Written]) -> Published:
        body = commit(self.store, child, signer=self._signer, clock=self.clock)
        return Published(
            generation=body.generation,
            frontier_size=body.frontier.size,
            partitions=sum(pack.partitions for pack in written),
            rows=sum(pack.rows for pack in written),
            faults=len(body.faults),
            behind=len(body.behind),
            slow=sum(is_slow(item.partition) for item in body.behind),
        )


def _sorted(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(faults, key=lambda fault: fault.partition))
