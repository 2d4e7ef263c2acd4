"""One partition, read once, verified while it is read, folded: records in, rows out.

A record that cannot be read or folded is a fault of its partition: the rows are those of the records before it, the
fault is named, and no other partition is touched.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import msgspec

from artifacts.manifest import Fault
from facts.trust import Trust
from journal.port import JournalReader, PartitionHead
from polyc.entry import Record
from polyc.errors import CorruptError, UnavailableError
from projector.content import Rows
from projector.livefolds import ERASED, LiveFold, LiveFolds
from projector.meaning import Meaning

if TYPE_CHECKING:
    from facts.fold import Fold

COHORT_FIRST: Final = date(2020, 1, 1)  # ruling 26: earlier times are not believed
NO_LEAF: Final = bytes(32)  # the head of a partition that was set aside: nothing is claimed about it
NOT_A_FAULT: Final = (UnavailableError, OSError, MemoryError)  # the journal is away, not the partition poisoned
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Occurred(msgspec.Struct, gc=False):
    """Read of a first event: when it says it happened (cohort, ruling 26)."""

    occurred_at: str | None = None


class _Erasure(msgspec.Struct, gc=False):
    """Read of an `erased` event: whose content went."""

    partition: str


_occurred: Final = msgspec.json.Decoder(_Occurred)
_erasure: Final = msgspec.json.Decoder(_Erasure)


class StoppedError(UnavailableError):
    """We were asked to stop; what was written so far is named by nobody."""


def check_going(stopping: Callable[[], bool]) -> None:
    """Raise StoppedError once we are asked to stop."""
    if stopping():
        raise StoppedError("the projector was asked to stop")


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's rows as of its position `through`; 0 when not even the first record could be folded.

    `erasures` names the partitions that records at or after the index `since` say content was erased of.
    """

    partition: str
    incarnation: bytes
    through: int
    leaf: bytes
    cohort: str
    erased: int
    rows: Rows
    fault: Fault | None = None
    erasures: frozenset[str] = frozenset()


def replay(
    reader: JournalReader,
    head: PartitionHead,
    *,
    meaning: Meaning,
    trust: Trust,
    since: int = 0,
    live: LiveFolds | None = None,
) -> Replayed:
    """Read the head's incarnation through the head's last index and fold it; from a live fold, only what is new."""
    known = None if live is None else live.take(head)
    if known is not None:
        replayed = _continue(reader, head, known)
        if replayed is None:
            known = None
        elif live is not None:
            live.keep(head.partition, _live(known, replayed))
            return replayed
    return _from_start(reader, head, meaning=meaning, trust=trust, since=since, live=live)


def replay_together(
    reader: JournalReader, heads: Sequence[PartitionHead], *, meaning: Meaning, trust: Trust
) -> list[Replayed]:
    """What `replay` says of each, from its start: each step is taken for all of them before the next one.

    One conversation after the other costs a quarter more: reading, folding and hashing a few dozen events each push the
    others' code and data out of the processor's caches. Whatever is odd of one is left to its own replay to name.
    """
    read = [_read(reader, head) for head in heads]
    folded = [_folded(head, batches, meaning, trust) for head, batches in zip(heads, read, strict=True)]
    rows = [_rows(fold) for fold in folded]
    return [
        replay(reader, head, meaning=meaning, trust=trust) if found is None else _whole(head, batches, found)
        for head, batches, found in zip(heads, read, rows, strict=True)
    ]


def _read(reader: JournalReader, head: PartitionHead) -> list[list[Record]]:
    """All records; none when one of them cannot be read."""
    try:
        return list(_batches(reader, head))
    except NOT_A_FAULT:
        raise
    except Exception:  # the replay of this partition alone finds the fault again, and its place
        return []


def _folded(head: PartitionHead, batches: list[list[Record]], meaning: Meaning, trust: Trust) -> "Fold | None":
    """The fold of all records; None when it does not take them all."""
    try:
        fold = meaning.open_fold(head.partition, trust)
        for records in batches:
            fold.apply_all(records)
    except NOT_A_FAULT:
        raise
    except Exception:  # as above
        return None
    return fold if fold.position == head.position else None


def _rows(fold: "Fold | None") -> Rows | None:
    try:
        return None if fold is None else fold.rows()
    except NOT_A_FAULT:
        raise
    except Exception:  # as above
        return None


def _whole(head: PartitionHead, batches: list[list[Record]], rows: Rows) -> Replayed:
    """A partition in which nothing is odd."""
    first = batches[0][0]
    erased, erasures = 0, set[str]()
    for records in batches:
        erased += _erased(records)
        erasures.update(_erasures(records, 0))
    return Replayed(
        partition=head.partition, incarnation=head.incarnation, through=head.position, leaf=head.leaf,
        cohort=cohort_of(first.recorded_at_us, first.payload), erased=erased, rows=rows, erasures=frozenset(erasures),
    )  # fmt: skip


def _continue(reader: JournalReader, head: PartitionHead, known: LiveFold) -> Replayed | None:
    """The new records alone; None when they erase, or hold a fault: then the whole partition is looked at."""
    try:
        for records in _batches(reader, head, from_position=known.position + 1):
            if any(record.payload is None or record.event_type == ERASED for record in records):
                return None
            known.fold.apply_all(records)
        through, rows = known.fold.position, known.fold.rows()
    except NOT_A_FAULT:
        raise
    except Exception:  # the full replay finds the fault again, and its place
        return None
    if through != head.position:
        return None
    return Replayed(
        partition=head.partition, incarnation=head.incarnation, through=through, leaf=head.leaf,
        cohort=known.cohort, erased=known.erased, rows=rows,
    )  # fmt: skip


def _live(known: LiveFold, replayed: Replayed) -> LiveFold:
    return msgspec.structs.replace(known, position=replayed.through)


def _from_start(
    reader: JournalReader, head: PartitionHead, *, meaning: Meaning, trust: Trust, since: int, live: LiveFolds | None
) -> Replayed:
    erased, erasures, fault, cohort = 0, set[str](), None, ""
    fold: Fold | None = None
    try:
        fold = meaning.open_fold(head.partition, trust)
        for records in _batches(reader, head):
            cohort = cohort or cohort_of(records[0].recorded_at_us, records[0].payload)
            fold.apply_all(records)
            erased += _erased(records)
            erasures.update(_erasures(records, since))
        rows: Rows = fold.rows()
    except CorruptError as error:
        fault = Fault(head.partition, head.incarnation.hex(), error.kind, error.place)
    except NOT_A_FAULT:
        raise
    except Exception as error:  # a fold's own bug poisons one partition, never the archive
        place = f"{head.partition}/{1 if fold is None else fold.position + 1}"
        fault = Fault(head.partition, head.incarnation.hex(), type(error).__name__, place)
    through = 0 if fold is None else fold.position
    if fault is None and through != head.position:
        fault = Fault(head.partition, head.incarnation.hex(), "gap", f"{head.partition}/{through + 1}")
    if fault is not None:
        through, rows = _before_fault(reader, head, through, meaning=meaning, trust=trust)
    elif live is not None and fold is not None:
        live.keep(
            head.partition,
            LiveFold(fold=fold, incarnation=head.incarnation, position=through, cohort=cohort, erased=erased),
        )
    return Replayed(
        partition=head.partition, incarnation=head.incarnation, through=through,
        leaf=head.leaf if fault is None else NO_LEAF, cohort=cohort, erased=erased, rows=rows, fault=fault,
        erasures=frozenset(erasures),
    )  # fmt: skip


def _before_fault(
    reader: JournalReader, head: PartitionHead, through: int, *, meaning: Meaning, trust: Trust
) -> tuple[int, Rows]:
    """The rows of the records before the fault, from a fresh fold (the poisoned one may be half way); 0 for none."""
    fold = meaning.open_fold(head.partition, trust)
    try:
        fold.apply_all(islice(chain.from_iterable(_batches(reader, head)), through))
        return through, fold.rows()
    except NOT_A_FAULT:
        raise
    except Exception:  # what cannot be folded twice keeps what was published of it
        return 0, {}


def _erased(records: list[Record]) -> int:
    """How many of the records have lost their content."""
    return sum([record.payload is None for record in records])


def _erasures(records: list[Record], since: int) -> set[str]:
    """The partitions that records at or after the index say content was erased of."""
    if ERASED not in {record.event_type for record in records}:  # nearly always
        return set()
    return {
        _erasure.decode(record.payload).partition
        for record in records
        if record.event_type == ERASED and record.index >= since and record.payload is not None
    }


def _batches(reader: JournalReader, head: PartitionHead, *, from_position: int = 1) -> Iterator[list[Record]]:
    return reader.read_batches(
        head.partition, from_position=from_position, incarnation=head.incarnation, through_index=head.last_index
    )


def first_cohort(reader: JournalReader, head: PartitionHead) -> str:
    """The cohort of a partition, to plan by: from its first record, which nobody has verified yet; "" for none."""
    try:
        return cohort_of(*reader.opening(head))
    except CorruptError:
        return ""


def cohort_of(recorded_at_us: int, payload: bytes | None) -> str:
    """The ISO week the partition began in: what its first event says, when that is believable, else recorded_at.

    "Now" is the record's own recorded_at, so that the cohort is a function of the journal alone.
    """
    recorded = _EPOCH + timedelta(microseconds=recorded_at_us)
    began = _occurred_at(payload) or recorded
    if began.date() < COHORT_FIRST or began > recorded:
        began = recorded
    year, week, _ = began.isocalendar()
    return f"{year:04d}-W{week:02d}"


def _occurred_at(payload: bytes | None) -> datetime | None:
    try:
        text = None if payload is None else _occurred.decode(payload).occurred_at
        stated = None if text is None else datetime.fromisoformat(text)
        return None if stated is None or stated.tzinfo is None else stated.astimezone(UTC)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, OverflowError):
        return None
