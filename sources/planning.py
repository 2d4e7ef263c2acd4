"""What a changed file adds to the journal: a conversation's telling, compared with what was appended of it."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from facts import codec
from facts.events import ImportQuarantined
from polyc.appending import Draft
from polyc.ids import uuid8, uuid8_bytes
from polyc.vocabulary import BY_CODE
from sources.batches import Batch, Chain, batches
from sources.conversation import PAUSE
from sources.copies import Share
from sources.cursors import Progress
from sources.growing import Growing
from sources.lines import INCOMPLETE, BadLineError, Quarantined, unreadable
from sources.provider import Context, Counts, Telling
from sources.redaction import Redactor
from sources.report import Report
from sources.stillness import Stillness
from sources.surveying import FoundFile

QUARANTINED_PER_FILE_MAX: Final = 1000  # a binary file taken for a history fills no journal
_ORDINALS_MAX: Final = 10_000  # rewrites of one conversation that are looked for when the cursors were lost


class PlannedConversation:
    """A conversation of a changed file: its appends are made while they are asked for."""

    def __init__(
        self,
        telling: Telling,
        found: FoundFile,
        *,
        share: Share,
        known: Progress | None,
        erased: bool,
        report: Report,
        set_aside: Callable[[Quarantined], None],
        leaf: bytes | None = None,
        recovered: bool = False,
        follow: bool = False,
        going_on: "Told | None" = None,
    ) -> None:
        self.identity = telling.identity
        self.partition: str = telling.identity.partition
        self.provider = found.provider
        self.path = found.path
        self.leaf = leaf
        self.is_recovered = recovered  # what is known of it came from the journal, not from the cursors
        self.telling = telling
        self._found = found
        self._share = share
        self._known = known
        self.is_erased = erased
        self._report = report
        self._set_aside = set_aside
        self.progress: Progress | None = known
        self.untold = False  # known when its batches were asked for, like the next one
        self.has_failed = False
        self._follow = follow
        self._going_on = going_on
        self.told: Told | None = None

    def batches(self) -> Iterator[Batch]:
        """What to append, in order; nothing when the journal has it all."""
        if self.is_erased:
            return  # what was erased must not come back, and what is left cannot be compared
        known = self._known
        if self._going_on is not None:
            rest = self._going_on.resume(known or Progress(self.path, 0, 0, Chain().digest()))
            if rest is not None:
                yield from self._append(self._going_on, rest, place=known.count if known else 0)
                return
        if known is not None:
            for level in dict.fromkeys((self._found.level, Stillness.GROWING, Stillness.STILL, Stillness.FINAL)):
                telling = self._told(ordinal=known.ordinal, level=level)
                rest = telling.beyond(known)
                if rest is not None:
                    yield from self._append(telling, rest, place=known.count)
                    return
                if telling.has_failed:  # half a telling must not take the place of a whole one
                    self.has_failed = True
                    self._note(telling)
                    return
        telling = self._told(ordinal=0 if known is None else known.ordinal + 1, level=self._found.level)
        yield from self._append(telling, telling.segments(), place=0)

    def _told(self, *, ordinal: int, level: Stillness) -> "Told":
        follows = self._follow and level is Stillness.GROWING
        growing = Growing(Path(self.path)) if follows else None
        return Told(self.telling, share=self._share, ordinal=ordinal, level=level, growing=growing)

    def _append(self, telling: "Told", segments: Iterator[tuple[Draft, ...]], *, place: int) -> Iterator[Batch]:
        report = self._report
        appends = batches(
            self.partition,
            segments,
            telling.chain,
            place=place,
            ordinal=telling.ordinal,
            replaces=self._known is not None,
        )
        for batch in appends:
            report.events += len(batch.drafts)
            report.incarnations_new += batch.new_incarnation
            yield batch
        if telling.chain.count:
            self.progress = Progress(
                self.path, telling.ordinal, telling.chain.count, telling.chain.digest(), self._share.digest
            )
        self.untold = telling.counts.untold
        self.has_failed = telling.has_failed
        self.told = telling
        self._note(telling)

    def _note(self, telling: "Told") -> None:
        """Add the telling to the report."""
        report = self._report
        report.turns += telling.turns
        report.unfinished += telling.unfinished
        report.records += telling.counts.records
        report.copies += telling.counts.copies
        report.repeats += telling.counts.repeats
        report.skipped.update(telling.counts.skipped)
        report.unknown.update(telling.counts.unknown)
        report.redacted.update(telling.redactor.struck)
        for bad in telling.bad:
            if bad.reason == INCOMPLETE:
                report.incomplete.append((self.path, bad))
            else:
                self._set_aside(bad)


class Told:
    """One telling of a conversation, from the beginning; one that follows its file pauses and goes on."""

    def __init__(
        self, telling: Telling, *, share: Share, ordinal: int, level: Stillness, growing: Growing | None = None
    ) -> None:
        self.ordinal = ordinal
        self.growing = growing
        self.redactor = Redactor()
        self.counts = Counts()
        self.has_failed = False
        self._begin(Chain())
        self._context = Context(
            redactor=self.redactor,
            ordinal=ordinal,
            level=level,
            foreign=share.foreign,
            owners=share.owners,
            counts=self.counts,
            set_aside=self._set_aside,
            growing=growing,
        )
        self._segments = telling.segments(self._context)

    def _begin(self, chain: Chain) -> None:
        self.chain = chain
        self._firm: Chain | None = None  # of what stays told however the file goes on
        self.bad: list[Quarantined] = []
        self.turns = self.unfinished = 0
        self.redactor.struck.clear()
        self.counts.clear()

    def segments(self) -> Iterator[tuple[Draft, ...]]:
        """The drafts of each segment; the chain has them when they are given."""
        return self._after((), self._drawn())

    def beyond(self, known: Progress) -> Iterator[tuple[Draft, ...]] | None:
        """What comes after the events that are known; None when the events do not begin with those."""
        segments = self._drawn()
        rest: tuple[Draft, ...] = ()
        while self.chain.count < known.count:
            drafts = next(segments, None)
            if drafts is None:
                return None
            places = known.count - self.chain.count
            self.chain.add(drafts[:places])
            rest = drafts[places:]
        if self.chain.digest() != known.digest:
            return None
        self.turns = self.unfinished = 0
        return self._after(rest, segments)

    def resume(self, known: Progress) -> Iterator[tuple[Draft, ...]] | None:
        """Go on where the file had ended; as `beyond`."""
        assert self._firm is not None, "a telling goes on that paused"
        self._begin(self._firm)
        return self.beyond(known)

    @property
    def has_paused(self) -> bool:
        """Whether it can go on."""
        return self._firm is not None and not self.has_failed

    def _after(self, first: tuple[Draft, ...], segments: Iterator[tuple[Draft, ...]]) -> Iterator[tuple[Draft, ...]]:
        for drafts in itertools.chain((first,) if first else (), segments):
            self.chain.add(drafts)
            yield drafts

    def _drawn(self) -> Iterator[tuple[Draft, ...]]:
        while True:
            try:
                segment = next(self._segments, None)
            except OSError as error:
                self._fail(unreadable(error))
                return
            except BadLineError as bad:  # of a file that is one value
                self._fail(Quarantined(0, 0, bad.reason, ""))
                return
            except Exception as error:  # one reader's failure on one file must not end the import of all others
                self._fail(Quarantined(0, 0, f"reader_failed:{type(error).__name__}", ""))
                return
            if segment is None:
                return
            if self._firm is None and (segment.provisional or segment is PAUSE):
                self._firm = self.chain.copy()
            if segment is PAUSE:
                return
            self.turns += segment.turn == "closed"
            self.unfinished += segment.turn == "open"
            yield segment.drafts

    def _fail(self, bad: Quarantined) -> None:
        self.bad.append(bad)
        self.has_failed = True

    def _set_aside(self, bad: Quarantined) -> None:
        if len(self.bad) < QUARANTINED_PER_FILE_MAX:
            self.bad.append(bad)


def is_longer(other: Path, found: FoundFile) -> bool:
    """Whether the other file holds the conversation as well, and more of it."""
    try:
        size = other.stat().st_size
    except OSError:
        return False
    return (size, found.path) >= (found.size_bytes, str(other))


def remembered(
    partition: str, path: str, records: Iterable[tuple[int, bytes | None]] | None
) -> tuple[Progress | None, bool]:
    """The progress as the journal itself remembers it, and whether something of it was erased."""
    if records is None:
        return None, False
    chain, ordinal = Chain(), 0
    for event_type, payload in records:
        row = BY_CODE.get(event_type)
        if row is None or "importer" not in row.roles:
            continue  # participation: Control's, in the same partition
        if payload is None:
            return None, True
        if chain.count == 0:
            ordinal = _ordinal(partition, payload)
        chain.add((Draft(event_type, payload),))
    return (Progress(path, ordinal, chain.count, chain.digest()), False) if chain.count else (None, False)


class _Identified(msgspec.Struct):
    id: str


def _ordinal(partition: str, opened: bytes) -> int:
    """Which incarnation an opening event began: its id was derived from the number."""
    ident = msgspec.json.decode(opened, type=_Identified).id
    return next((n for n in range(_ORDINALS_MAX) if uuid8(partition, "opened", str(n)) == ident), 0)


def quarantine(provider: str, path: str, bad: Quarantined) -> Batch:
    """The append that tells of a piece that could not be read; never its content."""
    key = (provider, path, str(bad.offset), bad.reason, bad.sha256)
    event = ImportQuarantined(
        id=uuid8("quarantined", *key),
        provider=provider,
        path=path,
        offset=bad.offset,
        size_bytes=bad.size_bytes,
        reason=bad.reason,
        sha256=bad.sha256 or None,
    )
    draft = codec.encode(event)
    payload = Redactor().clean([draft.payload])[0]
    return Batch((Draft(draft.event_type, payload),), uuid8_bytes("quarantined-append", *key))
