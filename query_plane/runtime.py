"""Puts a core together out of a data root: trust, artifacts, audit, workers.

What it opens it only reads, but for its own folder `edge/`; the journal is a port that the caller hands in, and the
core only ever appends audit events to it.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from artifacts.newest import Newest, Pins
from artifacts.reader import Reader
from artifacts.store import DirectoryStore
from polyc.appending import Author, JournalPort
from polyc.clock import Clock
from polyc.dataroot import DataRoot
from polyc.ids import IdSource
from polyc.limits import ADMISSION_SIZE_BYTES_MAX, QUERIES_PER_SUBJECT_MAX, QUERY_QUEUE_MAX
from polyc.published import EdgeTrust
from polyc.signing import KeyFile
from query_plane.admission import Admission, Admitter
from query_plane.admitter_pool import AdmitterPool
from query_plane.audit import AuditLog
from query_plane.core import QueryCore
from query_plane.ledger import Ledger, edge_id
from query_plane.pool import WorkerPool
from query_plane.seal import Sandbox
from query_plane.slots import Slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator may choose."""

    sandbox: Sandbox = "auto"
    running_max: int = 0  # 0: two a core, and two more; long statements yield to short ones
    spares: int = 2
    fleet_threads: int = 0  # 0: one a core
    admitters: int = 0  # 0: one a core
    admission_size_bytes_max: int = ADMISSION_SIZE_BYTES_MAX  # of a scope's rows at once; more are scanned
    flight_port: int | None = None  # the Flight SQL door, for ADBC and JDBC tools; None: closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The core and what other cores of the same edge (search) share with it."""

    core: QueryCore
    trust: EdgeTrust
    admitter: Admission
    audit: AuditLog
    slots: Slots


@asynccontextmanager
async def open_core(
    root: DataRoot,
    *,
    journal: JournalPort,
    clock: Clock,
    ids: IdSource,
    settings: Settings,
    pool: WorkerPool,
) -> AsyncIterator[Opened]:
    """A core that lives for the block; what earlier processes left open in the audit is closed first."""
    cores = os.cpu_count() or 1
    trust = EdgeTrust(root.published, root.policy(), clock=clock)
    audit = _open_audit(root, journal=journal, clock=clock, ids=ids)
    admitter: Admission
    if pool.is_for_one_question:
        admitter = Admitter(_open_reader(root, clock=clock, ids=ids))
    else:
        admitter = _open_admitters(root, clock=clock, ids=ids, settings=settings, pool=pool)
    limits = Slots(
        running_max=settings.running_max or 2 * cores + 2,
        waiting_max=QUERY_QUEUE_MAX,
        per_subject_max=QUERIES_PER_SUBJECT_MAX,
    )
    core = QueryCore(
        trust=trust,
        admitter=admitter,
        pool=pool,
        audit=audit,
        slots=limits,
        clock=clock,
        fleet_threads=settings.fleet_threads or cores,
    )
    try:
        await audit.recover()
        yield Opened(core=core, trust=trust, admitter=admitter, audit=audit, slots=limits)
    finally:
        await core.close()


def _open_audit(root: DataRoot, *, journal: JournalPort, clock: Clock, ids: IdSource) -> AuditLog:
    folder = root.path / "edge"
    name = edge_id(folder, ids=ids)
    author = Author(journal, KeyFile(root.keys / "query.pem"), clock=clock, ids=ids)
    return AuditLog(author, Ledger(folder, ids=ids), edge_id=name, clock=clock, ids=ids)


def _open_admitters(
    root: DataRoot, *, clock: Clock, ids: IdSource, settings: Settings, pool: WorkerPool
) -> AdmitterPool:
    policy = root.policy()
    trust = EdgeTrust(root.published, policy, clock=clock)  # its own: generations are pinned in another thread
    store = DirectoryStore(root.artifacts)
    return AdmitterPool(
        pool,
        root=root.path,
        newest=Newest(store, keys=lambda: trust.bundle().keys, origin=policy.origin),
        pins=Pins(store, clock=clock, ids=ids),
        count=settings.admitters or os.cpu_count() or 1,
        eager_size_bytes_max=settings.admission_size_bytes_max,
    )


def _open_reader(root: DataRoot, *, clock: Clock, ids: IdSource) -> Reader:
    policy = root.policy()
    trust = EdgeTrust(root.published, policy, clock=clock)  # its own: the reader lives in another thread
    return Reader(
        DirectoryStore(root.artifacts), keys=lambda: trust.bundle().keys, clock=clock, ids=ids, origin=policy.origin
    )
