"""The search packs of a generation: written from its table packs, by `search.build`, bound in the same manifest.

What is published on top of searchable packs is searchable at once. A generation that has no search packs although it
holds text (the first one; a crash) gets them with a child of its own: tables never wait for an index of everything.
"""

from collections.abc import Collection, Sequence
from typing import Final

from artifacts.files import PackFiles
from artifacts.reader import Generation
from search.build import SearchBuild

TEXT_TABLES: Final = ("messages", "tool_calls")


class Searchable:
    """What the projector asks of search; without a build there are no search packs."""

    def __init__(self, build: SearchBuild | None, files: PackFiles) -> None:
        self._build = build
        self._files = files
        self._in_vain: tuple[str, ...] = ()  # the packs that turned out to hold nothing to be searched

    def anew(self, base: Sequence[str], deltas: Sequence[str] = ()) -> tuple[str, ...]:
        """The search packs of these table packs, from nothing."""
        if self._build is None:
            return ()
        return self._build.extend_packs(self._build.rebuild_packs(self._files, base), self._files, deltas)

    def extended(
        self, previous: tuple[str, ...], written: Sequence[str], *, erased: Collection[str] = ()
    ) -> tuple[str, ...]:
        """The search packs of a searchable generation and of the packs written on top of it."""
        if self._build is None or not previous:
            return previous
        return self._build.extend_packs(previous, self._files, written, erased=erased)

    def compacted(self, previous: tuple[str, ...]) -> tuple[str, ...]:
        """The same content as a rebuild would have made it."""
        return self._build.compact(previous) if self._build is not None and previous else previous

    def reads(self, packs: Sequence[str]) -> bool:
        """Whether the search packs are of the version that the build writes."""
        return self._build is None or self._build.reads(packs)

    def missing(self, current: Generation) -> bool:
        """Whether the generation holds text and no search packs."""
        if self._build is None or current.search_packs:
            return False
        packs = tuple(pack_id for pack_id, _ in current.layers.packs())
        if packs == self._in_vain:
            return False
        return any(name in self._files.description(pack_id).files for pack_id in packs for name in TEXT_TABLES)

    def make(self, current: Generation) -> tuple[str, ...]:
        """The search packs that the generation lacks."""
        found = self.anew([pack_id for pack_id, _ in current.layers.base.packs], current.manifest.body.deltas)
        if not found:
            self._in_vain = tuple(pack_id for pack_id, _ in current.layers.packs())
        return found
