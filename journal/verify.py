"""`polyc verify`: distrust everything the file says, recompute it, and name the first lie with its place.

Levels: V1 recomputes each digest, leaf, chain, tile and root and the latest checkpoint's signature; V1h adds the
authors' signatures on what turns, money, access and keys hang on; V2 every author's and every checkpoint's.
Nothing here can see that the end of the log was cut off together with its checkpoints: only a pin or a cosignature
from outside can, so the report says which range something outside vouches for (ruling 11).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Final, Literal

from journal import opening
from journal.database import Readers, row, rows
from journal.erasure import announced
from journal.findings import FAULTS_MAX, Fault, Level, Pin, Report
from journal.keyevents import KeyEvents
from journal.partition_check import Incarnation, Outcome, Task, check_incarnations
from journal.reading import SqliteReader
from journal.tree_check import NotesTask, TreeOutcome, TreeTask, check_notes, check_tree
from polyc import note
from polyc.dataroot import DataRoot, Policy
from polyc.errors import CorruptError, PolycError
from polyc.ids import check_partition
from polyc.keyring import KEYS_PARTITION, KeyRing

PARALLEL_FROM_ENTRIES: Final = 50_000  # below, starting processes costs more than it saves
ENTRIES_PER_TASK: Final = 20_000
NOTES_PER_TASK: Final = 1_000

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

    1. The WAL is whole. 2. The keys are the root's. 3. Each incarnation. 4. The tree, checkpoints, pins.
    5. Every entry belongs to an incarnation and is sealed, every erasure was announced by Control.
    """
    root_public_key = bytes.fromhex(policy.root_key)
    faults: list[Fault] = []
    # 1.
    try:
        opening.check_wal(path)
        reader = SqliteReader(path, origin=policy.origin, root_public_key=root_public_key)
    except CorruptError as fault:
        return _stopped(policy, level, fault)
    with reader:
        # 2.
        keys = KeyEvents(root_public_key)
        try:
            keys = KeyEvents.load(reader, root_public_key=root_public_key)
        except CorruptError as fault:
            faults.append(_fault(fault))
        try:
            size, incarnations, end = _extent(path)
        except PolycError as error:
            return _stopped(policy, level, CorruptError(error.message, place=path.name, kind="database"))
        # 3. and 4., side by side
        tree_task = _tree_task(path, policy, size=size, keys=keys, witnesses=witnesses, pins=pins)
        tasks = list(_tasks(path, policy, level, size=size, keys=keys, incarnations=incarnations))
        notes = _notes_tasks(tree_task) if level == "V2" else []
        outcome, tree = _run(tasks, tree_task, notes, size=size, processes=processes, progress=progress)
        faults += outcome.faults
        faults += tree.faults
        # 5.
        if end > size:
            detail = f"entries up to {end} that no checkpoint covers"
            faults.append(Fault(kind="unsealed", place=f"index {size}", detail=detail))
        if outcome.entries != size and not faults:
            detail = f"{outcome.entries} entries in partitions, {size} under the checkpoint"
            faults.append(Fault(kind="count", place=f"checkpoint {size}", detail=detail))
        faults += _unannounced(reader, outcome.erased, keys.ring, size=size)
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
    tasks: list[Task],
    tree_task: TreeTask,
    notes: list[NotesTask],
    *,
    size: int,
    processes: int | None,
    progress: Callable[[int, int], None] | None,
) -> tuple[Outcome, TreeOutcome]:
    """What the tasks found, added up in their order; `progress` hears of each when it is done."""
    total, tree = Outcome(), TreeOutcome()
    for outcome in _outcomes([tree_task, *tasks, *notes], size=size, processes=processes):
        if isinstance(outcome, Outcome):
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
    return total, tree


def _outcomes(
    tasks: list[Task | TreeTask | NotesTask], *, size: int, processes: int | None
) -> Iterator[Outcome | TreeOutcome]:
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


def _check(task: Task | TreeTask | NotesTask) -> Outcome | TreeOutcome:
    match task:
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
        entries += incarnation.position
        if entries >= ENTRIES_PER_TASK:
            yield replace(task, incarnations=tuple(portion))
            portion, entries = [], 0
    if portion:
        yield replace(task, incarnations=tuple(portion))


def _extent(path: Path) -> tuple[int, list[Incarnation], int]:
    """The latest checkpoint's size, every incarnation, and where the entries end: all of one moment."""
    ends = "SELECT (SELECT max(size) FROM checkpoint), (SELECT idx + n FROM append ORDER BY idx DESC LIMIT 1)"
    query = "SELECT pid, name, incarnation, next - 1, leaf, last_idx FROM part ORDER BY pid"
    readers = Readers(path)
    try:
        with readers.borrow() as connection, connection:
            size, end = row(connection, ends)
            incarnations = [
                Incarnation(
                    pid=pid, partition=name, incarnation=incarnation, position=position, leaf=leaf, last_index=last
                )
                for pid, name, incarnation, position, leaf, last in rows(connection, query)
            ]
        return size or 0, incarnations, end or 0
    finally:
        readers.close()


def _unannounced(
    reader: SqliteReader, erased: list[tuple[str, bytes, int]], keys: KeyRing, *, size: int
) -> Iterator[Fault]:
    """Payloads that are gone without an `erased` event of Control."""
    if not erased:
        return
    known = announced(reader, keys, through_index=size - 1)
    for partition, incarnation, position in erased:
        if (partition, incarnation, position) not in known and (partition, incarnation, None) not in known:
            place = f"{check_partition(partition)}/{incarnation.hex()}@{position}"
            yield Fault(kind="erasure", place=place, detail="the payload is gone and no erased event says so")


def _fault(error: CorruptError) -> Fault:
    return Fault(kind=error.kind, place=error.place or KEYS_PARTITION, detail=error.message)


def _stopped(policy: Policy, level: Level, error: CorruptError) -> Report:
    """Nothing could be looked at."""
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
        faults=(_fault(error),),
    )
