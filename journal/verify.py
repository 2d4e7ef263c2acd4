"""`polyc verify`: distrust everything the file says, recompute it, and name the first lie with its place.

Levels: V1 recomputes each digest, leaf, chain, tile and root and the latest checkpoint's signature; V1h adds the
authors' signatures on what turns, money, access and keys hang on; V2 every author's and every checkpoint's.
Nothing here can see that the end of the log was cut off together with its checkpoints: only a pin or a cosignature
from outside can, so the report says which range something outside vouches for (ruling 11).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Final, Literal

from journal import opening
from journal.body import COLUMNS, Stored
from journal.database import Readers, row, rows
from journal.erasure import announced
from journal.file_check import PagesTask, check_pages, check_types
from journal.findings import FAULTS_MAX, Fault, Level, Pin, Report
from journal.keyevents import KeyEvents
from journal.partition_check import Incarnation, Outcome, Task, check_incarnations
from journal.port import PartitionHead
from journal.reading import SqliteReader
from journal.records import place_of
from journal.tree_check import NotesTask, TreeOutcome, TreeTask, check_notes, check_tree
from polyc import entry, note
from polyc.dataroot import DataRoot, Policy
from polyc.errors import CorruptError, PolycError
from polyc.keyring import KEYS_PARTITION, KeyRing

PARALLEL_FROM_ENTRIES: Final = 50_000  # below, starting processes costs more than it saves
ENTRIES_PER_TASK: Final = 20_000
NOTES_PER_TASK: Final = 1_000

_AnyTask = PagesTask | TreeTask | Task | NotesTask
_AnyOutcome = list[Fault] | TreeOutcome | Outcome

__all__ = ["Fault", "Level", "Pin", "Report", "verify"]


def verify(
    root: DataRoot,
    *,
    level: Level = "V1",
    policy: Policy | None = None,
    pins: Sequence[Pin] = (),
    witnesses: Sequence[note.Verifier] = (),
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Verify the journal of a data root as it stands now; a writer may go on meanwhile.

    `policy` is the trust anchor (the data root's own copy when none is given); `progress` hears (done, total) entries.
    """
    policy = policy or root.policy()
    return verify_file(
        root.journal_file,
        policy=policy,
        level=level,
        pins=pins,
        witnesses=witnesses,
        processes=processes,
        progress=progress,
    )


def verify_file(
    path: Path,
    *,
    policy: Policy,
    level: Level = "V1",
    pins: Sequence[Pin] = (),
    witnesses: Sequence[note.Verifier] = (),
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Verify a journal file against a policy.

    1. WAL, schema and types are sound. 2. The keys are the root's. 3. Each incarnation. 4. The tree, checkpoints,
    pins, SQLite's pages. 5. Every entry belongs to an incarnation and is sealed, every erasure was announced by
    Control before it stood here.
    """
    root_public_key = bytes.fromhex(policy.root_key)
    faults: list[Fault] = []
    # 1.
    try:
        opening.check_stands(path)
        opening.check_wal(path)
        reader = SqliteReader(path, origin=policy.origin, root_public_key=root_public_key)
    except CorruptError as fault:
        return _stopped(policy, level, [_fault(fault)])
    with reader:
        if ill_typed := check_types(path):
            return _stopped(policy, level, ill_typed)
        # 2.
        keys = KeyEvents(root_public_key)
        try:
            keys = KeyEvents.load(reader, root_public_key=root_public_key)
        except CorruptError as fault:
            faults.append(_fault(fault))
        try:
            size, incarnations, end = _extent(path)
        except PolycError as error:
            return _stopped(policy, level, [Fault(kind="database", place=path.name, detail=error.message)])
        # 3. and 4., side by side
        tree_task = _tree_task(path, policy, size=size, keys=keys, witnesses=witnesses, pins=pins)
        tasks = list(_tasks(path, policy, level, size=size, keys=keys, incarnations=incarnations))
        notes = _notes_tasks(tree_task) if level == "V2" else []
        outcome, tree, damages = _run(
            [PagesTask(path=str(path)), tree_task, *tasks, *notes], size=size, processes=processes, progress=progress
        )
        faults += _misplaced_ends(size, end)
        faults += outcome.faults
        faults += tree.faults
        # 5.
        if outcome.entries != size:
            faults += _unowned(path, size=size)
        if outcome.entries != size and not faults:
            detail = f"{outcome.entries} entries in partitions, {size} under the checkpoint"
            faults.append(Fault(kind="count", place=f"checkpoint {size}", detail=detail))
        faults += _unannounced(reader, outcome.erased, keys.ring, size=size)
        faults += damages
    return Report(
        origin=policy.origin,
        level=level,
        entries=size,
        partitions=len(incarnations),
        erased=len(outcome.erased),
        signatures=outcome.signatures + tree.signatures,
        checkpoints=tree.checkpoints,
        root=tree.root,
        anchored_size=tree.anchored_size,
        anchors=tuple(tree.anchors),
        faults=tuple(dict.fromkeys(faults))[:FAULTS_MAX],  # an append that cannot be read is missed by many
    )


def _run(
    tasks: list[_AnyTask],
    *,
    size: int,
    processes: int | None,
    progress: Callable[[int, int], None] | None,
) -> tuple[Outcome, TreeOutcome, list[Fault]]:
    """What the tasks found, added up in their order; `progress` hears of each when it is done."""
    total, tree = Outcome(), TreeOutcome()
    damages: list[Fault] = []
    for outcome in _outcomes(tasks, size=size, processes=processes):
        if isinstance(outcome, list):
            damages += outcome
        elif isinstance(outcome, Outcome):
            total.entries += outcome.entries
            total.signatures += outcome.signatures
            total.erased += outcome.erased
            total.faults += outcome.faults
            if progress is not None:
                progress(min(total.entries, size), size)
        else:
            tree.root = tree.root or outcome.root
            tree.checkpoints += outcome.checkpoints
            tree.signatures += outcome.signatures
            tree.anchored_size = max(tree.anchored_size, outcome.anchored_size)
            tree.anchors += outcome.anchors
            tree.faults += outcome.faults
    return total, tree, damages


def _outcomes(tasks: list[_AnyTask], *, size: int, processes: int | None) -> Iterator[_AnyOutcome]:
    count = processes or (1 if size < PARALLEL_FROM_ENTRIES else os.cpu_count() or 1)
    if count == 1:
        yield from map(_check, tasks)
        return
    with ProcessPoolExecutor(count, mp_context=get_context(_start_method())) as pool:
        yield from pool.map(_check, tasks)


def _start_method() -> Literal["fork", "spawn"]:
    """Forked processes start at once, but only a process with a single thread may fork; a spawned one takes 0.3 s."""
    try:
        return "fork" if len(list(Path("/proc/self/task").iterdir())) == 1 else "spawn"
    except FileNotFoundError:
        return "spawn"


def _check(task: _AnyTask) -> _AnyOutcome:
    match task:
        case PagesTask():
            return check_pages(task)
        case Task():
            return check_incarnations(task)
        case TreeTask():
            return check_tree(task)
        case NotesTask():
            return check_notes(task)


def _tree_task(
    path: Path,
    policy: Policy,
    *,
    size: int,
    keys: KeyEvents,
    witnesses: Sequence[note.Verifier],
    pins: Sequence[Pin],
) -> TreeTask:
    return TreeTask(
        path=str(path),
        origin=policy.origin,
        size=size,
        root_public_key=bytes.fromhex(policy.root_key),
        first_log_key=bytes.fromhex(policy.log_key),
        key_events=keys.payloads,
        witnesses=tuple(witnesses),
        pins=tuple(pins),
    )


def _notes_tasks(tree: TreeTask) -> list[NotesTask]:
    readers = Readers(Path(tree.path))
    try:
        with readers.borrow() as connection:
            query = "SELECT size FROM checkpoint WHERE size < ? ORDER BY size"
            sizes = [size for (size,) in rows(connection, query, (tree.size,))]
    finally:
        readers.close()
    borders = [*sizes[::NOTES_PER_TASK], tree.size]
    return [NotesTask(tree=tree, from_size=low, to_size=high) for low, high in pairwise(borders)]


def _tasks(
    path: Path, policy: Policy, level: Level, *, size: int, keys: KeyEvents, incarnations: list[Incarnation]
) -> Iterator[Task]:
    task = Task(
        path=str(path),
        origin=policy.origin,
        size=size,
        level=level,
        root_public_key=bytes.fromhex(policy.root_key),
        key_events=keys.payloads,
        incarnations=(),
    )
    portion: list[Incarnation] = []
    entries = 0
    for incarnation in incarnations:
        portion.append(incarnation)
        entries += incarnation.head.position
        if entries >= ENTRIES_PER_TASK:
            yield replace(task, incarnations=tuple(portion))
            portion, entries = [], 0
    if portion:
        yield replace(task, incarnations=tuple(portion))


def _extent(path: Path) -> tuple[int, list[Incarnation], int]:
    """The latest checkpoint's size, every incarnation, and where the entries end: all of one moment."""
    ends = "SELECT (SELECT max(size) FROM checkpoint), (SELECT idx + n FROM append ORDER BY idx DESC LIMIT 1)"
    query = (
        "SELECT pid, opener, current, (SELECT max(first_idx) FROM part p WHERE p.name = part.name) = first_idx,"
        " name, incarnation, next - 1, leaf, first_idx, last_idx FROM part ORDER BY pid"
    )
    readers = Readers(path)
    try:
        with readers.borrow() as connection, connection:
            size, end = row(connection, ends)
            incarnations = [
                Incarnation(
                    pid=pid, head=PartitionHead(*head), opener=opener, is_current=current, is_newest=bool(newest)
                )
                for pid, opener, current, newest, *head in rows(connection, query)
            ]
        return size or 0, incarnations, end or 0
    finally:
        readers.close()


def _misplaced_ends(size: int, end: int) -> Iterator[Fault]:
    """A log that has not even begun, or goes on behind its latest checkpoint."""
    if size == 0:
        yield Fault(kind="rollback", place="checkpoint 0", detail="no entry: a log begins with its keys")
    if end > size:
        detail = f"entries up to {end} that no checkpoint covers"
        yield Fault(kind="unsealed", place=f"index {size}", detail=detail)


def _unowned(path: Path, *, size: int) -> Iterator[Fault]:
    """Appends of no incarnation the file knows, and where the log's indexes break off: the first of each."""
    orphans = f"SELECT {COLUMNS} FROM append WHERE pid NOT IN (SELECT pid FROM part) ORDER BY idx LIMIT 1"
    breaks = (
        "SELECT idx + n FROM append a WHERE idx + n < ? AND NOT EXISTS"
        " (SELECT 1 FROM append b WHERE b.idx = a.idx + a.n) ORDER BY idx LIMIT 1"
    )
    readers = Readers(path)
    try:
        with readers.borrow() as connection:
            found = [Stored(*columns) for columns in rows(connection, orphans)]
            ends = [index for (index,) in rows(connection, breaks, (size,))]
    finally:
        readers.close()
    for stored in found:
        place = f"index {stored.index}"
        with suppress(CorruptError):
            header = entry.decode_header(stored.headers(place)[0], place=place)
            place = place_of(header.partition, header.incarnation, header.position)
        yield _fault(CorruptError("the append is of no partition that the file knows", place=place, kind="head"))
    for index in ends:
        yield _fault(CorruptError("entry is missing", place=f"index {index}", kind="gap"))


def _unannounced(
    reader: SqliteReader, erased: list[tuple[str, bytes, int, int]], keys: KeyRing, *, size: int
) -> Iterator[Fault]:
    """Payloads that are gone without an `erased` event of Control that stands behind them in the log."""
    if not erased:
        return
    known = announced(reader, keys, through_index=size - 1)
    for partition, incarnation, position, index in erased:
        orders = (known.get((partition, incarnation, each), -1) for each in (position, None))
        if max(orders) < index:
            place = place_of(partition, incarnation, position)
            yield Fault(kind="erasure", place=place, detail="the payload is gone and no erased event says so")


def _fault(error: CorruptError) -> Fault:
    return Fault(kind=error.kind, place=error.place or KEYS_PARTITION, detail=error.message)


def _stopped(policy: Policy, level: Level, faults: list[Fault]) -> Report:
    """Nothing more could be looked at."""
    return Report(
        origin=policy.origin,
        level=level,
        entries=0,
        partitions=0,
        erased=0,
        signatures=0,
        checkpoints=0,
        root="",
        anchored_size=0,
        anchors=(),
        faults=tuple(faults),
    )
