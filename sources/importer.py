"""What is new in the files, as appends (the package's docstring shows the loop and the laws).

Looking is light, planning is not: parsers are loaded when a file changed.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import structs

from sources import surveying
from sources.cursors import Cursors
from sources.following import Followed, Following
from sources.lines import Quarantined, unreadable
from sources.report import Report
from sources.stillness import Stillness
from sources.surveying import FoundFile, Survey

if TYPE_CHECKING:
    from sources.batches import Batch
    from sources.copies import Share
    from sources.keys import Keys
    from sources.planning import PlannedConversation
    from sources.provider import Telling

IMPORTS_PARTITION: Final = "imports"


class Past(Protocol):
    """What the journal holds of a conversation already."""

    def leaf(self, partition: str) -> bytes | None:
        """The leaf at the partition's head; None when the journal has no such partition."""

    def events(self, partition: str) -> Iterable[tuple[int, bytes | None]]:
        """Type and payload (None: erased) of the events of its current incarnation, in order."""


class NoPast:
    """An empty journal."""

    def leaf(self, _partition: str) -> bytes | None:
        """There is no such partition."""
        return None

    def events(self, _partition: str) -> Iterable[tuple[int, bytes | None]]:
        """There are none."""
        return ()


class Importer:
    """Plans the import of files; the loop around it appends."""

    def __init__(self, cursors: Cursors, *, past: Past | None = None, following: Following | None = None) -> None:
        """`following`: a watcher's memory of the files that are being written, kept from one importer to the next."""
        self.report = Report()
        self._cursors = cursors
        self._past = past or NoPast()
        self._bad: list[tuple[str, str, Quarantined]] = []
        self._failed: set[str] = set()
        self._plans: dict[str, PlannedConversation] = {}
        self._following = following
        self._going_on: dict[str, Followed] = {}
        self._told: list[tuple[FoundFile, list[PlannedConversation], Keys | None]] = []

    def survey(self, paths: Iterable[Path], *, now_us: int, final: bool = False) -> Survey:
        """Which files below the paths must be read; a file whose sizes and times are as before is not opened.

        From here to `finish` no other import of the same cursors can run: it waits, or is told so.
        """
        self._cursors.begin()
        found = surveying.survey(
            paths,
            self._cursors,
            now_us=now_us,
            final=final,
            name_unrecognised=self._name_unrecognised,
            name_unreadable=self._name_unreadable,
        )
        self.report.files += found.files
        return found

    @property
    def has_set_aside(self) -> bool:
        """Whether something could not be read that `quarantined` will tell."""
        return bool(self._bad)

    def _name_unreadable(self, path: str, error: OSError) -> None:
        self._bad.append(("", path, unreadable(error)))

    def _name_unrecognised(self, path: str) -> None:
        from sources.recognition import is_part  # noqa: PLC0415 loaded already: somebody tried to recognise the file

        if not is_part(Path(path)):
            self.report.unrecognised.append(path)

    def plan(self, survey: Survey) -> "Iterator[PlannedConversation]":
        """The conversations of the changed files, and of files whose copies changed owner by them."""
        from sources.copies import Share  # noqa: PLC0415 planning is heavy, and most runs find nothing to plan
        from sources.families import Families  # noqa: PLC0415 see above

        todo = {found.path: found for found in survey.changed}
        self._go_on(survey.changed)
        families = Families(self._cursors, self._going_on)
        shared = families.shares(todo, survey)
        for path, found in todo.items():
            self.report.files_read += 1
            is_empty = True
            told: list[PlannedConversation] = []
            for telling in self._tellings(found):
                is_empty = False
                planned = self._planned(telling, found, shared.get(path, Share()))
                if planned is not None:
                    told.append(planned)
                    yield planned
            if path in self._failed or any(planned.has_failed for planned in told):
                continue  # it counts as not read, and is tried again the next time
            if is_empty:
                self.report.empty.append(path)
            self._told.append((found, told, families.keys.get(path)))
            level = found.level if any(planned.untold for planned in told) else Stillness.FINAL
            self._cursors.read(path, signature=found.signature, told=level)

    def _go_on(self, changed: list[FoundFile]) -> None:
        """Find the files whose telling paused and can go on."""
        if self._following is None:
            return
        from sources.providers import BY_NAME  # noqa: PLC0415 see plan

        for found in changed:
            followed = self._following.take(found, BY_NAME[found.provider])
            if followed is not None:
                self._going_on[found.path] = followed

    def _tellings(self, found: FoundFile) -> "Iterator[Telling]":
        from sources.providers import BY_NAME  # noqa: PLC0415 see plan

        if found.path in self._going_on:
            yield self._going_on[found.path].telling
            return

        def set_aside(bad: Quarantined) -> None:
            self._bad.append((found.provider, found.path, bad))

        try:
            yield from BY_NAME[found.provider].tellings(Path(found.path), set_aside)
        except OSError as error:
            self._failed.add(found.path)
            set_aside(unreadable(error, size_bytes=found.size_bytes))
        except Exception as error:  # one reader's failure on one file must not end the import of all others
            self._failed.add(found.path)
            set_aside(Quarantined(0, found.size_bytes, f"reader_failed:{type(error).__name__}", ""))

    def _planned(self, telling: "Telling", found: FoundFile, share: "Share") -> "PlannedConversation | None":
        from sources.planning import PlannedConversation, is_longer, remembered  # noqa: PLC0415 see plan
        from sources.providers import BY_NAME  # noqa: PLC0415 see plan

        partition = telling.identity.partition
        earlier = self._plans.get(partition)  # another file of this look told it; what it told may not be durable yet
        known = self._cursors.progress(partition) if earlier is None else earlier.progress
        if known is not None and known.path != found.path and is_longer(Path(known.path), found):
            self.report.doubles.append(found.path)
            return None
        going_on = self._going_on.get(found.path)
        erased, recovered = earlier is not None and earlier.is_erased, False
        leaf = self._past.leaf(partition)
        # Lost, or older than the journal: an import was interrupted.
        if earlier is None and (known is None or known.leaf != leaf):
            events = None if leaf is None else self._past.events(partition)
            known, erased = remembered(partition, found.path, events)
            recovered = known is not None
        self.report.conversations += 1
        self.report.conversations_new += known is None and not erased

        def set_aside(bad: Quarantined) -> None:
            self._bad.append((found.provider, found.path, bad))

        self._plans[partition] = planned = PlannedConversation(
            telling,
            found,
            share=share,
            known=known,
            erased=erased,
            report=self.report,
            set_aside=set_aside,
            leaf=leaf,
            recovered=recovered,
            follow=self._following is not None and BY_NAME[found.provider].follows,
            going_on=going_on.told if going_on is not None else None,
        )
        return planned

    def settle(self, planned: "PlannedConversation", *, leaf: bytes | None = None) -> None:
        """Every batch of the conversation was acknowledged, and the partition's head is this leaf (None: as before)."""
        if planned.progress is not None:
            at = leaf or planned.leaf or b""
            self._cursors.advance(planned.partition, structs.replace(planned.progress, leaf=at))

    def quarantined(self) -> "Iterator[Batch]":
        """Pieces that could not be read and were not told before, one append each, for `imports`."""
        from sources.planning import quarantine  # noqa: PLC0415 see plan

        for provider, path, bad in self._bad:
            self.report.quarantined.append((path, bad))
            if self._cursors.is_told(path, bad.offset, bad.sha256):
                continue
            yield quarantine(provider, path, bad)
            self._cursors.tell(path, bad.offset, bad.sha256)
        self._bad.clear()

    def finish(self) -> None:
        """Keep the cursors, and let others import."""
        self._cursors.commit()
        if self._following is not None:
            for found, planned, keys in self._told:
                if len(planned) == 1:
                    self._following.keep(found, planned[0], keys)
