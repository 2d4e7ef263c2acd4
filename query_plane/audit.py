"""Intent before, outcome after: the query audit (query-plane.md, steps 3 and 10; ruling 27).

Rules: no query runs before its intent is durable in the journal; every intent gets exactly one outcome, in the
intent's own partition. Append ids are derived from the query's id, so that trying again, even after a crash, records
an outcome once: the journal answers a second one with a conflict, and that is an answer, too.

The audit holds the hash of the statement and at most 8 KiB of its text; never a row, never a bearer.
"""

import asyncio
import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeVar

import msgspec

from facts.audit import query_intent, query_outcome
from polyc.appending import Author
from polyc.clock import Clock
from polyc.errors import IdempotencyConflictError, PolycError, UnavailableError
from polyc.grants import Grant, Surface
from polyc.ids import IdSource, uuid7, uuid8, uuid8_bytes
from polyc.limits import STATEMENT_AUDIT_BYTES_MAX
from query_plane.ledger import Ledger, Owed, unreadable

T = TypeVar("T")

Status = Literal["ok", "refused", "failed", "cancelled", "unknown"]

RETRY_S: Final = 1.0  # between tries to deliver what is owed while the journal is away

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Outcome(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How a query ended."""

    status: Status
    error_code: str | None = None
    row_count: int = 0
    byte_count: int = 0
    truncated: bool | None = None
    elapsed_ms: int = 0
    as_of: int | None = None
    finished_at_us: int = 0


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded before a query runs, but for its text; `partition` is where its outcome belongs, too."""

    query_id: str
    partition: str
    credential_id: str
    subject: str
    realm: str
    surface: Surface
    statement_sha256: str
    scope_size: int | None
    as_of: int | None
    at_us: int
    index: int = 0  # the global log index of the intent, once it is recorded


class AuditLog:
    """Records intents and outcomes, one at a time; owns the ledger of this process."""

    def __init__(self, author: Author, ledger: Ledger, *, edge_id: str, clock: Clock, ids: IdSource) -> None:
        self._author = author
        self._ledger = ledger
        self._edge_id = edge_id
        self._clock = clock
        self._ids = ids
        self.thread: Final = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._lock = threading.Lock()  # the author and the ledger are for one thread at a time
        self._owed: dict[str, Owed] = {}
        self._delivering: asyncio.Task[None] | None = None
        self._recovering: asyncio.Task[None] | None = None

    async def intend(self, grant: Grant, sql: str, *, scope_size: int | None, as_of: int | None) -> Intent:
        """Record the intent; UnavailableError when that cannot be done, and then nothing may run."""
        intent = self._intent_of(grant, sql, scope_size=scope_size, as_of=as_of)
        try:
            return await self._in_thread(self._intend, intent, sql)
        except (PolycError, OSError) as error:
            await self.owe_intent(intent)
            raise _unrecorded() from error

    def recording(self, grant: Grant, text: str, *, scope_size: int | None, as_of: int | None) -> "Recording":
        """An intent for one who has a thread of his own; nothing is recorded yet."""
        return Recording(self, self._intent_of(grant, text, scope_size=scope_size, as_of=as_of), text)

    def intend_here(self, intent: Intent, text: str) -> Intent:
        """Record the intent in the caller's thread; its failure is the caller's to tell (`owe_intent`)."""
        with self._lock:
            return self._intend(intent, text)

    async def owe_intent(self, intent: Intent) -> None:
        """Keep an intent that may be on record or not, and that nothing ran for."""
        failed = Outcome(status="failed", error_code="unavailable", finished_at_us=self._clock.now_us())
        await self._owe(intent, failed, is_recorded=False)

    async def conclude(self, intent: Intent, outcome: Outcome) -> bool:
        """Record the outcome; False when the journal is away: then it is owed, durably, and tried again."""
        outcome.finished_at_us = self._clock.now_us()
        try:
            await self._in_thread(self._conclude, intent.query_id, intent.partition, outcome)
        except (PolycError, OSError):
            await self._owe(intent, outcome, is_recorded=True)
            return False
        return True

    async def recover(self) -> None:
        """Close what processes that are gone left open: as they knew it, else as `unknown`.

        The journal may come up after the edge: then this goes on in the background until it is done. CorruptError,
        before anything of it is recorded, where what was left cannot be read.
        """
        await self._in_thread(self._check)
        if not await self._try_recovery():
            self._recovering = asyncio.get_running_loop().create_task(self._recover_later())

    async def close(self) -> None:
        """Deliver what is owed, once more; leave the rest in the ledger."""
        for task in (self._delivering, self._recovering):
            if task is not None:
                task.cancel()
        await self._in_thread(self._finish)
        self.thread.shutdown(wait=True)

    async def _in_thread(self, call: Callable[..., T], *arguments: object) -> T:
        def alone() -> T:
            with self._lock:
                return call(*arguments)

        return await asyncio.get_running_loop().run_in_executor(self.thread, alone)

    def _intent_of(self, grant: Grant, sql: str, *, scope_size: int | None, as_of: int | None) -> Intent:
        now_us = self._clock.now_us()
        return Intent(
            query_id=uuid7(self._clock, self._ids),
            partition=f"query-audit-{self._edge_id}-{_time(now_us):%Y%m%d}",
            credential_id=grant.credential_id,
            subject=grant.subject,
            realm=grant.realm,
            surface=grant.surface,
            statement_sha256=hashlib.sha256(sql.encode("utf-8", "replace")).hexdigest(),
            scope_size=scope_size,
            as_of=as_of,
            at_us=now_us,
        )

    def _intend(self, intent: Intent, sql: str) -> Intent:
        self._ledger.open(intent.query_id, partition=intent.partition, intent=msgspec.to_builtins(intent))
        index = self._append_intent(intent, sql)
        self._ledger.sure(intent.query_id)
        return msgspec.structs.replace(intent, index=index)

    def _append_intent(self, intent: Intent, sql: str) -> int:
        text = sql.encode("utf-8", "replace")[:STATEMENT_AUDIT_BYTES_MAX].decode("utf-8", "ignore")
        draft = query_intent(
            event_id=uuid8("query-intent-event", intent.query_id),
            occurred_at=_time(intent.at_us),
            query_id=intent.query_id,
            credential_id=intent.credential_id,
            subject=intent.subject,
            realm=intent.realm,
            surface=intent.surface,
            statement=text,
            statement_sha256=intent.statement_sha256,
            scope_size=intent.scope_size,
            as_of=intent.as_of,
        )
        append_id = uuid8_bytes("query-intent", intent.query_id)
        return self._author.append(intent.partition, [draft], append_id=append_id).first_index

    def _conclude(self, query_id: str, partition: str, outcome: Outcome) -> None:
        draft = query_outcome(
            event_id=uuid8("query-outcome-event", query_id),
            occurred_at=_time(outcome.finished_at_us or self._clock.now_us()),
            query_id=query_id,
            status=outcome.status,
            error_code=outcome.error_code,
            row_count=outcome.row_count,
            byte_count=outcome.byte_count,
            truncated=outcome.truncated,
            elapsed_ms=outcome.elapsed_ms,
            as_of=outcome.as_of,
        )
        with suppress(IdempotencyConflictError):  # an earlier try was recorded: its answer stands
            self._author.append(partition, [draft], append_id=uuid8_bytes("query-outcome", query_id))
        self._ledger.close(query_id)

    async def _owe(self, intent: Intent, outcome: Outcome, *, is_recorded: bool) -> None:
        """Keep an outcome for later, durably where the disk allows it, and start delivering."""
        known = msgspec.to_builtins(outcome)
        unsure = None if is_recorded else msgspec.to_builtins(intent)
        owed = Owed(query_id=intent.query_id, partition=intent.partition, intent=unsure, outcome=known)
        self._owed[intent.query_id] = owed
        with suppress(OSError):
            await self._in_thread(lambda: self._ledger.owe(intent.query_id, outcome=known))
        if self._delivering is None or self._delivering.done():
            self._delivering = asyncio.get_running_loop().create_task(self._deliver())

    def _settle(self, owed: Owed) -> None:
        """Record what is owed.

        An intent that may not be there is appended again, without its text: when it is there, the journal says so by
        refusing other bytes under its append id.
        """
        intent, outcome = _promised(owed)
        if intent is not None:
            with suppress(IdempotencyConflictError):
                self._append_intent(intent, "")
        self._conclude(owed.query_id, owed.partition, outcome)

    def _settle_all(self) -> None:
        for query_id, owed in list(self._owed.items()):
            self._settle(owed)
            del self._owed[query_id]

    async def _deliver(self) -> None:
        while self._owed:
            await asyncio.sleep(RETRY_S)
            with suppress(PolycError, OSError):
                await self._in_thread(self._settle_all)

    async def _try_recovery(self) -> bool:
        try:
            await self._in_thread(self._recover)
        except (PolycError, OSError):
            return False
        return True

    async def _recover_later(self) -> None:
        while True:
            await asyncio.sleep(RETRY_S)
            if await self._try_recovery():
                return

    def _check(self) -> None:
        for _, owed in self._ledger.abandoned():
            for item in owed:
                _promised(item)

    def _recover(self) -> None:
        for path, owed in self._ledger.abandoned():
            for item in owed:
                self._settle(item)
            path.unlink(missing_ok=True)

    def _finish(self) -> None:
        with suppress(PolycError, OSError):  # the ledger keeps it for the next start
            self._settle_all()
        self._ledger.release()


class Recording:
    """The record of one query that runs in a thread: its intent before, its outcome after, whatever happens."""

    def __init__(self, audit: AuditLog, intent: Intent, text: str) -> None:
        self._audit = audit
        self._intent = intent
        self._text = text
        self._recorded: Intent | None = None
        self._is_in_doubt = False  # it was tried, and failed
        self._working: asyncio.Future[Any] | None = None

    @property
    def query_id(self) -> str:
        """The query's name."""
        return self._intent.query_id

    async def intend(self) -> Intent:
        """The intent, on record; UnavailableError when that cannot be done."""
        if self._recorded is None:
            await self.work(self._audit.thread, lambda: None)
        assert self._recorded is not None, "else it was raised"
        return self._recorded

    async def work(self, threads: Executor, work: Callable[[], T]) -> T:
        """What the work gives, begun once the intent is on record; UnavailableError, and no work, when it cannot be.

        One after the other in one thread: handing over between two takes as long as half of a small search.
        """

        def recorded_first() -> T:
            if self._recorded is None:
                self._recorded = self._intend()
            return work()

        self._working = asyncio.get_running_loop().run_in_executor(threads, recorded_first)
        return await asyncio.shield(self._working)  # whoever leaves: what was begun is waited for, and concluded

    async def conclude(self, outcome: Outcome) -> None:
        """Record the outcome when what was begun has ended; owe what is in doubt; nothing was begun: nothing."""
        if self._working is not None:
            await asyncio.wait({self._working})
            self._working.exception()  # it was raised to whoever waited
        if self._recorded is not None:
            await self._audit.conclude(self._recorded, outcome)
        elif self._is_in_doubt:
            await self._audit.owe_intent(self._intent)

    def _intend(self) -> Intent:
        try:
            return self._audit.intend_here(self._intent, self._text)
        except (PolycError, OSError) as error:
            self._is_in_doubt = True
            raise _unrecorded() from error


def _unrecorded() -> UnavailableError:
    return UnavailableError("the query cannot be recorded, so it does not run", hint="is the journal running? polyc up")


def _promised(owed: Owed) -> tuple[Intent | None, Outcome]:
    """The intent, where the journal may not have it, and the outcome that a process which is gone still owes."""
    try:
        intent = None if owed.intent is None else msgspec.convert(owed.intent, Intent)
        return intent, msgspec.convert(owed.outcome or {"status": "unknown"}, Outcome)
    except msgspec.ValidationError:
        raise unreadable(owed.place) from None


def _time(at_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at_us)
