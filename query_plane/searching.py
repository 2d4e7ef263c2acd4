"""The path of a search: one request, under one grant, over a pinned generation, on record before and after.

The same steps, the same refusals and the same audit as a statement's (`core.QueryCore.execute`); what runs is no text
of a person but a search over the rows that the grant admits. It has no way to the journal but the audit's.
"""

import asyncio
import dataclasses
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Final

from artifacts.reader import Reader
from artifacts.store import DirectoryStore
from polyc.appending import Author, JournalPort
from polyc.clock import Clock, SystemClock
from polyc.dataroot import DataRoot
from polyc.errors import PolycError, RefusedError
from polyc.grants import Grant, Realm, bearer_of
from polyc.ids import IdSource
from polyc.limits import BODY_SIZE_BYTES_MAX, QUERIES_PER_SUBJECT_MAX, QUERY_QUEUE_MAX
from polyc.published import EdgeTrust
from polyc.signing import KeyFile
from query_plane import plain
from query_plane.admission import Admission, Admitter, Snapshot
from query_plane.asgi import Receive, Scope, Send, headers_of, send_whole
from query_plane.audit import AuditLog, Outcome, Recording
from query_plane.core import Headers, QueryFailedError
from query_plane.ledger import Ledger, edge_id
from query_plane.local import bearer_header
from query_plane.slots import Slots
from search.query.answer import Freshness, SearchAnswer
from search.query.cursor import peek_generation
from search.query.engine import GenerationRef, SearchEngine
from search.query.scope import Access
from search.query.switch import SemanticSwitch
from search.query.wire import Asked, decode_body, format_time

SEARCH: Final = "/polychrome.search.v1.SearchService/Search"
_GENERATIONS_MAX: Final = 64  # cursors live as long as their generation is among the last so many, and pinned
_POLL_S: Final = 0.02
_ACCESSES_MAX: Final = 32  # that are remembered, as many as the engine remembers scopes


class SearchCore:
    """Searches for the Query edge; shares trust, admission, audit and slots with its statements."""

    def __init__(
        self,
        *,
        trust: EdgeTrust,
        admitter: Admission,
        audit: AuditLog,
        slots: Slots,
        clock: Clock,
        engine: SearchEngine,
    ) -> None:
        self._trust = trust
        self._admitter = admitter
        self._audit = audit
        self._slots = slots
        self._clock = clock
        self._engine = engine
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="search")
        self._seen: OrderedDict[str, GenerationRef] = OrderedDict()
        self._concluding: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def answering(self, headers: Headers, read: Callable[[], Awaitable[bytes]]) -> AsyncIterator[SearchAnswer]:
        """The answer to one request, for the block that sends it.

        1. Authorization: exactly one bearer, before the body is read.  2. Grant, generation, scope; the body.
        3. A slot.  4. A generation as fresh as asked, or the cursor's.  5. Intent, durable; without it nothing runs;
        what was refused before is recorded, too.  6. The search, in the thread that recorded it.  7. Outcome, exactly
        one, whatever happened, once the block has sent the answer: the ledger holds the open intent, durably, until
        the outcome is on record.
        """
        bearer = bearer_of(headers)  # 1
        grant = dataclasses.replace(self._trust.grant_of(bearer), surface="search")  # 2
        snapshot = await self._admitter.snapshot(grant)
        body = await read()
        started_s = self._clock.monotonic_s()
        asked, refusal = _decoded(body, now_us=self._clock.now_us())
        size = None if snapshot.partitions is None else len(snapshot.partitions)
        said = asked.text if asked is not None else body.decode("utf-8", "replace")
        recording = self._audit.recording(grant, said, scope_size=size, as_of=snapshot.as_of)
        outcome = Outcome(status="cancelled", error_code="canceled")
        try:
            try:
                if asked is None:
                    raise refusal
                async with self._slots.hold(grant.subject):  # 3
                    answer = await self._answer(grant, snapshot, asked, recording)  # 4, 5, 6
            except RefusedError as error:
                outcome = Outcome(status="refused", error_code=error.code)
                await recording.intend()
                raise
            except PolycError as error:
                outcome = Outcome(status="failed", error_code=error.code)
                raise
            except Exception as error:
                outcome = Outcome(status="failed", error_code="internal")
                raise QueryFailedError(recording.query_id) from error
            yield answer
            outcome = Outcome(status="ok", row_count=len(answer.results), truncated=answer.window.more_available)
        finally:
            outcome.as_of = snapshot.as_of  # 7
            outcome.elapsed_ms = int(1000 * (self._clock.monotonic_s() - started_s))
            concluding = asyncio.get_running_loop().create_task(recording.conclude(outcome))
            self._concluding.add(concluding)
            concluding.add_done_callback(self._concluding.discard)

    async def close(self) -> None:
        """Wait for searches in flight, and for their outcomes."""
        await asyncio.to_thread(self._threads.shutdown)
        while self._concluding:
            await asyncio.gather(*self._concluding, return_exceptions=True)

    async def _answer(self, grant: Grant, snapshot: Snapshot, asked: Asked, recording: Recording) -> SearchAnswer:
        snapshot, freshness = await self._fresh(grant, snapshot, asked, recording)
        generation = self._remember(snapshot)
        if asked.request.cursor is not None:
            wanted = peek_generation(asked.request.cursor)
            generation = self._seen.get(wanted, generation)  # another one: the engine refuses by name
        access = access_of(grant.realm, snapshot.partitions)

        def search() -> SearchAnswer:
            return self._engine.search(
                asked.request, access=access, generation=generation, freshness=freshness, verbose=asked.verbose
            )

        return await recording.work(self._threads, search)

    async def _fresh(
        self, grant: Grant, snapshot: Snapshot, asked: Asked, recording: Recording
    ) -> tuple[Snapshot, Freshness]:
        """The newest generation; when asked to wait, one that covers what was committed when the query began.

        What was committed then is what the log had before the intent, so that is recorded first.
        """
        outcome = "indexed"
        if asked.refresh == "wait" and asked.request.cursor is None:
            committed = (await recording.intend()).index
            until = self._clock.monotonic_s() + asked.timeout_ms / 1000
            while snapshot.as_of < committed and self._clock.monotonic_s() < until:
                await asyncio.sleep(_POLL_S)
                snapshot = await self._admitter.snapshot(grant)
            outcome = "waited" if snapshot.as_of >= committed else "timed_out"
        published = format_time(snapshot.generation.created_at_us)
        return snapshot, Freshness(requested=asked.refresh, outcome=outcome, published_at=published)

    def _remember(self, snapshot: Snapshot) -> GenerationRef:
        found = snapshot.generation
        if found.generation_id not in self._seen:
            self._seen[found.generation_id] = GenerationRef(
                generation_id=found.generation_id,
                packs=tuple(found.search_packs),
                as_of=snapshot.as_of,
                created_at_us=found.created_at_us,
            )
            while len(self._seen) > _GENERATIONS_MAX:
                self._seen.popitem(last=False)
            self._engine.keep({pack for each in self._seen.values() for pack in each.packs})
        return self._seen[found.generation_id]


@lru_cache(maxsize=_ACCESSES_MAX)
def access_of(realm: Realm, partitions: tuple[str, ...] | None) -> Access:
    """The access of a grant: made once, because it has a name to work out and a thousand conversations to put in it."""
    return Access(realm=realm, partitions=None if partitions is None else frozenset(partitions))


def engine_of(root: DataRoot, *, clock: Clock | None = None) -> SearchEngine:
    """An engine over a deployment's artifacts; cursors are sealed with a secret that only this edge can derive."""
    clock = clock or SystemClock()
    key = root.keys / "query.pem"
    secret = hashlib.sha256(b"polychrome/search/cursor-secret/v1\n" + key.read_bytes()).digest()
    store = DirectoryStore(root.artifacts)
    trust = EdgeTrust(root.published, root.policy(), clock=clock)  # its own: searches run in other threads
    switch = SemanticSwitch(root, store, lambda: trust.bundle().keys)
    return SearchEngine(store, cursor_secret=secret, semantic=switch.index)


@asynccontextmanager
async def open_search(
    root: DataRoot, *, journal: JournalPort, clock: Clock, ids: IdSource
) -> AsyncIterator[SearchCore]:
    """A search core of its own, for a process that runs no statements."""
    policy = root.policy()
    trust, reader_trust = (EdgeTrust(root.published, policy, clock=clock) for _ in range(2))
    folder = root.path / "edge"
    name = edge_id(folder, ids=ids)
    author = Author(journal, KeyFile(root.keys / "query.pem"), clock=clock, ids=ids)
    audit = AuditLog(author, Ledger(folder, ids=ids), edge_id=name, clock=clock, ids=ids)
    keys = lambda: reader_trust.bundle().keys  # noqa: E731 a reader asks for the ring when it meets a manifest
    reader = Reader(DirectoryStore(root.artifacts), keys=keys, clock=clock, ids=ids, origin=policy.origin)
    admitter = Admitter(reader)
    core = SearchCore(
        trust=trust,
        admitter=admitter,
        audit=audit,
        slots=Slots(running_max=2, waiting_max=QUERY_QUEUE_MAX, per_subject_max=QUERIES_PER_SUBJECT_MAX),
        clock=clock,
        engine=engine_of(root, clock=clock),
    )
    try:
        yield core
    finally:
        await core.close()
        await admitter.close()
        await audit.close()


def search_local(
    root: DataRoot, token: str, body: bytes, *, port: JournalPort, clock: Clock, ids: IdSource
) -> SearchAnswer:
    """One search in this process, under the token's grant; the audit goes through the port."""

    async def read() -> bytes:
        return body

    async def run() -> SearchAnswer:
        async with (
            open_search(root, journal=port, clock=clock, ids=ids) as core,
            core.answering(bearer_header(token), read) as answer,
        ):
            return answer

    return asyncio.run(run())


async def plain_search(core: SearchCore, scope: Scope, receive: Receive, send: Send) -> None:
    """The door: JSON in, JSON out; errors as everywhere."""
    headers = headers_of(scope)

    async def read() -> bytes:
        return await plain.read_body(headers, receive)

    try:
        async with core.answering(scope["headers"], read) as answer:
            await send_whole(send, 200, answer.to_json())
    except PolycError as error:
        await plain.send_error(error, send)


def _decoded(body: bytes, *, now_us: int) -> tuple[Asked | None, RefusedError]:
    """The request, or the refusal that is raised once the intent is on record."""
    try:
        if len(body) > BODY_SIZE_BYTES_MAX:
            raise RefusedError("the body is too large", code="resource_exhausted")
        return decode_body(body, now_us=now_us), RefusedError("unused")
    except RefusedError as error:
        return None, error
