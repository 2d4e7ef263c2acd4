"""The admitter: a process that may be killed, a scope of any size, and walls that every thread of an answer is behind."""

import asyncio
import os
import signal
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from polyc.errors import CorruptError, UnavailableError
from query_plane.admission_wire import Admit
from query_plane.admitter_pool import AdmitterProcess
from query_plane.local import bearer_header
from query_plane.pool import Worker, WorkerPool
from query_plane.scanning import Doors, Scanned
from query_plane.seal import Sandbox
from tests.query_plane.cores import Journal, ask, core_of, reading, run, until
from tests.query_plane.deployment import Deployment

MINE = "SELECT role, text FROM messages ORDER BY position"


def body(frames) -> bytes:
    return b"".join(frame.body for frame in frames[1:-1])


# --- A killed, stopped or forgotten admitter ---------------------------------------------------------------------------


def test_a_killed_admitter_is_one_failed_query_and_a_new_admitter(deployment, loop, monkeypatch):
    token, real, killed = deployment.grant("ada"), AdmitterProcess.ask, []

    async def killed_at_work(self, question):
        if not killed:
            killed.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)
        return await real(self, question)

    before = body(loop.run(ask(loop.core, token, MINE)))
    loop.journal.events.clear()
    monkeypatch.setattr(AdmitterProcess, "ask", killed_at_work)
    with pytest.raises(UnavailableError) as caught:
        loop.run(ask(loop.core, token, MINE))
    assert caught.value.code == "unavailable"
    assert body(loop.run(ask(loop.core, token, MINE))) == before
    assert loop.journal.outcomes() == [("failed", "unavailable"), ("ok", None)]


def test_an_admitter_that_died_idle_is_replaced_and_nobody_notices(deployment, loop):
    token = deployment.grant("ada")
    loop.run(ask(loop.core, token, MINE))
    idle = loop.core._admitter._idle[-1]
    os.kill(idle.pid, signal.SIGKILL)
    loop.run(until(lambda: not idle.is_alive))
    loop.journal.events.clear()
    loop.run(ask(loop.core, token, MINE))
    assert loop.journal.outcomes() == [("ok", None)]


def test_an_admission_lives_no_longer_than_its_query(deployment, loop):
    token = deployment.grant("ada")
    loop.run(ask(loop.core, token, MINE))
    loop.run(until(lambda: not loop.core._admitter._tasks))  # none is on its way that would not be stopped
    for admitter in loop.core._admitter._idle:
        os.kill(admitter.pid, signal.SIGSTOP)
    loop.journal.events.clear()
    with pytest.raises(UnavailableError) as caught:
        loop.run(ask(loop.core, token, MINE, deadline_s=0.3))
    assert caught.value.code == "deadline_exceeded"
    for admitter in loop.core._admitter._idle:
        os.kill(admitter.pid, signal.SIGCONT)
    loop.run(ask(loop.core, token, MINE))
    assert loop.journal.outcomes() == [("failed", "deadline_exceeded"), ("ok", None)]


def test_who_leaves_in_mid_admission_leaves_no_descriptor_and_kills_nobody(deployment, loop):
    token = deployment.grant("ada")
    admitters = loop.core._admitter
    loop.run(until(lambda: not admitters._tasks))
    loop.run(admitters.start())
    idle = list(admitters._idle)
    for one in idle:
        os.kill(one.pid, signal.SIGSTOP)
    loop.journal.events.clear()

    async def leave():
        task = asyncio.create_task(ask(loop.core, token, MINE))
        await until(lambda: len(admitters._idle) < len(idle))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    loop.run(leave())
    assert loop.journal.outcomes() == [("cancelled", "canceled")]
    for one in idle:
        os.kill(one.pid, signal.SIGCONT)
    loop.run(until(lambda: len(admitters._idle) == len(idle)))
    assert {one.pid for one in admitters._idle} == {one.pid for one in idle}, "the same ones, alive"
    assert not [name for name in memory_files() if "rows" in name]


def memory_files() -> list[str]:
    names = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            names.append(str(link.readlink()))
        except OSError:
            continue  # the listing's own
    return names


# --- A scope that is too large to hand over at once -------------------------------------------------------------------

SCANNED = (
    MINE,
    "SELECT count(*) FROM messages",
    "SELECT count(*) FROM messages a, messages b, turns",
    "SELECT a.text, b.text FROM messages a JOIN messages b USING (turn_id) ORDER BY ALL",
    "SELECT text FROM messages ORDER BY ALL LIMIT 1",
    "SELECT * FROM messages ORDER BY position",
    "SELECT name FROM actions",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r, (SELECT count(*) n FROM turns) WHERE i < n) FROM r",
)


def test_a_scope_that_is_scanned_answers_as_one_that_is_handed_over(deployment, loop):
    journal, token = Journal(deployment.journal), deployment.grant("ada")

    async def scanned():
        async with core_of(deployment, journal, admission_size_bytes_max=-1, admitters=1) as core:
            return [body(await ask(core, token, sql)) for sql in SCANNED]

    assert run(scanned()) == [body(loop.run(ask(loop.core, token, sql))) for sql in SCANNED]
    assert journal.outcomes() == [("ok", None)] * len(SCANNED)


def test_an_admitter_that_is_killed_before_a_scan_fails_its_query_and_no_other(deployment, monkeypatch):
    journal, token, real, real_ask = (
        Journal(deployment.journal),
        deployment.grant("ada"),
        Worker.run,
        AdmitterProcess.ask,
    )
    admitting: list[int] = []  # not the idle one: that is one only when it has let go of the statement before

    async def go():
        async with core_of(deployment, journal, admission_size_bytes_max=-1, admitters=1) as core:
            await ask(core, token, "SELECT 1 FROM turns")
            with monkeypatch.context() as patch:
                patch.setattr(AdmitterProcess, "ask", noted)
                patch.setattr(Worker, "run", lambda *job: after(real(*job)))
                with pytest.raises(UnavailableError) as caught:
                    await ask(core, token, MINE)
            return caught.value, await ask(core, token, MINE)

    async def noted(admitter, question):
        if isinstance(question, Admit):
            admitting.append(admitter.pid)
        return await real_ask(admitter, question)

    async def after(stream):
        os.kill(admitting[-1], signal.SIGKILL)
        async for answer in stream:
            yield answer

    error, frames = run(go())
    assert (error.code, frames[-1].trailer.row_count) == ("unavailable", 2)
    assert journal.outcomes() == [("ok", None), ("failed", "unavailable"), ("ok", None)]


class Table:
    """A source of known batches that may lie about its end."""

    def __init__(self, batches, *, breaks: bool = False) -> None:
        self.schema = batches[0].schema
        self._batches, self._breaks = batches, breaks

    def batches(self):
        yield from self._batches
        if self._breaks:
            raise CorruptError("admitted rows are not the ones the index counts", place="t", kind="admission")


@contextmanager
def scanning(table: Table):
    doors = Doors()
    with closing(Scanned(doors.open(table), table.schema)) as scanned:
        yield scanned
    doors.close()


def rows_of(scanned: Scanned) -> pa.Table:
    return pa.RecordBatchReader.from_stream(scanned).read_all()


def test_a_scan_gives_all_rows_and_may_be_repeated():
    batches = [pa.RecordBatch.from_pydict({"i": list(range(start, start + 1000))}) for start in (0, 1000)]
    with scanning(Table(batches)) as scanned:
        for _ in range(2):
            assert rows_of(scanned).column("i").to_pylist() == list(range(2000))
        assert not scanned.is_broken


def test_a_scan_that_the_index_does_not_confirm_is_no_scan():
    with scanning(Table([pa.RecordBatch.from_pydict({"i": [1, 2]})], breaks=True)) as scanned:
        with pytest.raises(pa.ArrowInvalid, match="ended early"):
            rows_of(scanned)
        assert scanned.is_broken


def test_a_scan_that_stops_early_leaves_the_door_open_for_the_next():
    with scanning(Table([pa.RecordBatch.from_pydict({"t": ["x" * 1000] * 10_000})] * 20)) as scanned:
        reader = pa.RecordBatchReader.from_stream(scanned)
        reader.read_next_batch()
        del reader
        assert rows_of(scanned).num_rows == 200_000


# --- Walls -------------------------------------------------------------------------------------------------------------


async def filters_of_a_running_answer(deployment: Deployment, sandbox: Sandbox) -> list[str]:
    """The seccomp mode of each thread of the worker that answers a statement of the fleet with two threads."""
    workers, acquire = [], WorkerPool.acquire

    async def remembering(pool):
        workers.append(await acquire(pool))
        return workers[-1]

    token = deployment.grant("root-admin", admin=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerPool, "acquire", remembering)
        async with core_of(deployment, Journal(deployment.journal), sandbox=sandbox, fleet_threads=2) as core:
            sql = "SELECT m.text FROM messages m, range(10000000000)"
            stream = core.execute(bearer_header(token), reading(sql, row_limit=1_000_000))
            await anext(stream)
            await anext(stream)
            tasks = await asyncio.to_thread(statuses, workers[0].pid)
            await stream.aclose()
    return tasks


def statuses(pid: int) -> list[str]:
    texts = [(task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return [line.split()[1] for text in texts for line in text.splitlines() if line.startswith("Seccomp:")]


def test_every_thread_of_an_answer_is_behind_the_walls(deployment):
    modes = run(filters_of_a_running_answer(deployment, "require"))
    assert len(modes) >= 2, "the engine has threads"
    assert set(modes) == {"2"}, "a filter on each of them"


def test_a_thread_without_walls_would_be_seen(deployment):
    assert set(run(filters_of_a_running_answer(deployment, "off"))) == {"0"}
