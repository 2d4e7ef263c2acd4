"""Intent before, exactly one outcome after, in every way a query can end (F17, ruling 27)."""

import asyncio
import contextlib
import signal
import subprocess
import sys

import msgspec
import pytest

from polyc import grants
from polyc.errors import CorruptError, PolycError, RefusedError, UnavailableError
from polyc.grants import ByReference, scope_digest
from polyc.signing import load_signer
from query_plane import audit as audit_module
from query_plane.admitter_pool import AdmitterPool
from query_plane.answer import SchemaFrame, TrailerFrame
from query_plane.core import QueryFailedError
from query_plane.local import bearer_header
from query_plane.pool import WorkerPool
from tests.query_plane.cores import Journal, ask, core_of, drain, reading, run, until
from tests.query_plane.deployment import open_deployment

ENDINGS = [
    ("SELECT role FROM messages", {}, ("ok", None)),
    ("DELETE FROM messages", {}, ("refused", "invalid_argument")),
    ("SELECT * FROM signer_keys", {}, ("refused", "not_found")),
    ("SELEC", {}, ("refused", "invalid_argument")),
    ("", {}, ("refused", "invalid_argument")),
    ("SELECT '" + "x" * 40_000 + "'", {}, ("refused", "invalid_argument")),
    ("SELECT (" + "(" * 200 + "1", {}, ("refused", "invalid_argument")),
    ("SELECT nam FROM turns", {}, ("refused", "invalid_argument")),
    ("SELECT text::INT FROM messages", {}, ("refused", "invalid_argument")),
    ("SELECT count(*) FROM range(100000) a, range(100000) b, range(1000) c", {"deadline_s": 0.3}, ("failed", "deadline_exceeded")),
    ("SELECT length(repeat('x', 4000000000))", {"deadline_s": 30}, ("failed", "resource_exhausted")),
    ("SELECT CASE WHEN i = 9000 THEN error('x') ELSE i END FROM range(10000) t(i)", {}, ("refused", "invalid_argument")),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "options", "expected"), ENDINGS)
def test_each_way_to_end_leaves_one_intent_and_one_outcome(deployment, loop, sql, options, expected):
    with contextlib.suppress(PolycError):
        loop.run(ask(loop.core, deployment.grant("ada"), sql, **options))
    assert len(loop.journal.intents()) == 1
    assert loop.journal.outcomes() == [expected]


def test_a_bearer_that_is_none_leaves_no_trace_and_reads_no_body(deployment, loop):
    async def body():
        raise AssertionError("the body was read")

    for headers in ([], bearer_header("nonsense"), bearer_header(deployment.grant("ada")) * 2):
        with pytest.raises(RefusedError) as caught:
            loop.run(drain(loop.core.execute(headers, body)))
        assert caught.value.code == "unauthenticated"
    assert loop.journal.events == []


def test_without_its_intent_on_record_nothing_runs(deployment, loop, monkeypatch):
    async def no_worker(_self):
        raise AssertionError("a worker was taken")

    monkeypatch.setattr(WorkerPool, "acquire", no_worker)
    loop.journal.fails = {"query_intent": "before", "query_outcome": "before"}
    with pytest.raises(UnavailableError, match="does not run"):
        loop.run(ask(loop.core, deployment.grant("ada"), "SELECT 1"))
    assert loop.journal.events == []
    loop.journal.fails = {}
    loop.run(until(loop.journal.outcomes))


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_intent_that_failed_is_settled_when_the_journal_is_back(deployment, loop, monkeypatch, when):
    monkeypatch.setattr(audit_module, "RETRY_S", 0.01)
    loop.journal.fails = {"query_intent": when}
    with pytest.raises(UnavailableError):
        loop.run(ask(loop.core, deployment.grant("ada"), "SELECT 'text of the statement'"))
    loop.journal.fails = {}
    loop.run(until(loop.journal.outcomes))
    assert len(loop.journal.intents()) == 1
    assert loop.journal.outcomes() == [("failed", "unavailable")]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_outcome_that_failed_is_recorded_once_when_the_journal_is_back(deployment, loop, monkeypatch, when):
    monkeypatch.setattr(audit_module, "RETRY_S", 0.01)
    loop.journal.fails = {"query_outcome": when}
    answer = loop.run(ask(loop.core, deployment.grant("ada"), "SELECT 1"))
    assert isinstance(answer[-1], TrailerFrame), "the answer is whole and true: it is given"
    loop.journal.fails = {}
    loop.run(until(lambda: not loop.core._audit._owed))
    assert len(loop.journal.intents()) == 1
    assert loop.journal.outcomes() == [("ok", None)]


def test_an_outcome_that_could_never_be_delivered_is_recorded_by_the_next_start(deployment):
    journal = Journal(deployment.journal)
    journal.fails = {"query_outcome": "before"}

    async def first():
        async with core_of(deployment, journal) as core:
            await ask(core, deployment.grant("ada"), "SELECT 1")

    async def second():
        async with core_of(deployment, journal):
            pass

    run(first())
    assert journal.outcomes() == []
    run(second())  # the journal is still away: the edge starts all the same
    assert journal.outcomes() == []
    journal.fails = {}
    for _ in range(2):
        run(second())
        assert journal.outcomes() == [("ok", None)]


@pytest.mark.parametrize("kept", [{"intent": {"query_id": 7}}, {"intent": {}}, {"outcome": {"status": "fine"}}])
def test_an_edge_does_not_start_over_a_promise_it_cannot_read_and_says_which(deployment, kept):
    """What can be read beside it is recorded by the start that follows once the file was moved away, and not before."""
    journal = Journal(deployment.journal)
    journal.fails = {"query_outcome": "before"}

    async def started(sql=None):
        async with core_of(deployment, journal) as core:
            if sql is not None:
                await ask(core, deployment.grant("ada"), sql)

    run(started("SELECT 1"))
    journal.fails = {}
    bad = deployment.root.path / "edge" / "open" / "0000.jsonl"
    line = {"open": "q", "partition": "query-audit-x"} | kept
    lines = [line] if "intent" in kept else [line, {"owe": "q"} | kept]
    bad.write_bytes(b"".join(msgspec.json.encode(item) + b"\n" for item in lines))
    try:
        with pytest.raises(CorruptError) as caught:
            run(started())
    finally:
        bad.unlink()
    assert caught.value.place == "edge/open/0000.jsonl:1"
    assert "polyc fsck" in str(caught.value.hint)
    assert journal.outcomes() == []
    run(started())
    assert journal.outcomes() == [("ok", None)]


KILLED_IN_MID_STREAM = """
import asyncio, os, signal, sys
from pathlib import Path
from query_plane.local import bearer_header
from tests.query_plane.cores import Journal, core_of, reading
from tests.query_plane.deployment import make_deployment

async def die():
    deployment = make_deployment(Path(sys.argv[1]))
    async with core_of(deployment, Journal(deployment.journal)) as core:
        stream = core.execute(bearer_header(deployment.grant("ada")), reading("SELECT * FROM range(10000000000)"))
        await anext(stream)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(die())
"""


def test_a_killed_edge_leaves_an_intent_that_the_next_start_closes_as_unknown(tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED_IN_MID_STREAM, str(tmp_path / "root")], check=False)
    assert killed.returncode == -signal.SIGKILL
    deployment = open_deployment(tmp_path / "root")
    journal = Journal(deployment.journal)

    async def next_start():
        async with core_of(deployment, journal):
            pass

    for _ in range(2):
        run(next_start())
        assert journal.outcomes() == [("unknown", None)]
    deployment.journal.close()


ENDLESS = "SELECT * FROM range(10000000000)"
SLOW = "SELECT count(*) FROM range(100000) a, range(100000) b, range(1000) c"


def endless(loop, token):
    return loop.core.execute(bearer_header(token), reading(ENDLESS, row_limit=1_000_000))


def test_a_caller_that_leaves_cancels_the_query_and_frees_its_slot(deployment, loop):
    token = deployment.grant("ada")

    async def leave():
        stream = endless(loop, token)
        assert isinstance(await anext(stream), SchemaFrame)
        await stream.aclose()

    for _ in range(10):
        loop.run(leave())
    assert loop.core.held == 0
    assert loop.journal.outcomes() == [("cancelled", "canceled")] * 10


def test_a_cancelled_task_still_records_its_outcome(deployment, loop):
    async def go():
        task = asyncio.create_task(ask(loop.core, deployment.grant("ada"), SLOW))
        await until(loop.journal.intents)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    loop.run(go())
    assert loop.core.held == 0
    assert loop.journal.outcomes() == [("cancelled", "canceled")]


def test_a_worker_that_is_killed_fails_its_query_with_a_code(deployment, loop, monkeypatch):
    workers = []
    acquire = WorkerPool.acquire

    async def remembering(self):
        workers.append(await acquire(self))
        return workers[-1]

    monkeypatch.setattr(WorkerPool, "acquire", remembering)

    async def go():
        stream = endless(loop, deployment.grant("ada"))
        await anext(stream)
        workers[0].kill()
        await drain(stream)

    with pytest.raises(UnavailableError) as caught:
        loop.run(go())
    assert caught.value.code == "resource_exhausted"
    assert loop.journal.outcomes() == [("failed", "resource_exhausted")]


def test_a_grant_that_is_revoked_stops_its_running_answer(deployment, loop, monkeypatch):
    monkeypatch.setattr("query_plane.core._REVOCATION_CHECK_S", 0.0)
    deployment.control.ensure_persona("carol")
    deployment.control.join("conv-a", "carol")
    deployment.project()

    async def go():
        stream = endless(loop, deployment.grant("carol"))
        await anext(stream)
        deployment.control.leave("conv-a", "carol")
        await drain(stream)

    with pytest.raises(RefusedError) as caught:
        loop.run(go())
    assert caught.value.code == "unauthenticated"
    assert loop.journal.outcomes() == [("refused", "unauthenticated")]


def test_an_exception_that_is_not_ours_leaves_as_internal_with_the_querys_id(deployment, loop, monkeypatch):
    async def broken(*_arguments, **_named):
        raise ValueError("a text that must not leave: hello from ada")

    monkeypatch.setattr(AdmitterPool, "admit", broken)
    with pytest.raises(QueryFailedError) as caught:
        loop.run(ask(loop.core, deployment.grant("ada"), "SELECT 1"))
    query_id = loop.journal.intents()[0]["query_id"]
    assert (caught.value.code, caught.value.hint) == ("internal", f"its id is {query_id}")
    assert "hello" not in caught.value.message
    assert loop.journal.outcomes() == [("failed", "internal")]


def test_the_audit_keeps_the_hash_and_the_first_kibibytes_and_never_a_cell(deployment, loop):
    loop.run(ask(loop.core, deployment.grant("ada"), "SELECT '" + "y" * 20_000 + "'"))
    with pytest.raises(RefusedError):
        loop.run(ask(loop.core, deployment.grant("ada"), "SELECT text::INT FROM messages"))
    assert len(loop.journal.intents()[0]["statement"]) == 8 * 1024
    assert len(loop.journal.intents()[0]["statement_sha256"]) == 64
    assert "hello from ada" not in str(loop.journal.events)


def test_metrics_and_spans_carry_no_content(deployment, loop):
    marked = "zz_marked_value"
    with contextlib.suppress(PolycError):
        loop.run(ask(loop.core, deployment.grant("ada"), f"SELECT '{marked}'::INT"))
    text = loop.core.metrics.text(running=0).decode()
    assert 'status="refused",code="invalid_argument",realm="participant"' in text
    assert marked not in text
    assert "ada" not in text


def test_a_grant_by_reference_follows_the_participation_of_its_generation(deployment, loop):
    signer = load_signer(deployment.root.keys / "grant.pem")

    def token(partitions, index):
        now_s = deployment.clock.now_us() // 1_000_000
        scope = ByReference(persona_id="ada", index=index, digest=scope_digest(partitions), count=len(partitions))
        grant = grants.Grant(
            credential_id=deployment.id(),
            subject="ada",
            realm="participant",
            scope=scope,
            issued_at_s=now_s,
            expires_at_s=now_s + 60,
        )
        return grants.mint(grant, signer=signer)

    deployment.grant("ada")  # a fresh list of revocations
    frames = loop.run(ask(loop.core, token(["conv-a"], 1), "SELECT DISTINCT partition FROM messages"))
    assert frames[1].body == b'[["conv-a"]]'
    with pytest.raises(RefusedError) as caught:
        loop.run(ask(loop.core, token(["conv-a", "conv-b"], 1), "SELECT 1"))
    assert caught.value.code == "failed_precondition"
    with pytest.raises(UnavailableError):
        loop.run(ask(loop.core, token(["conv-a"], 10**9), "SELECT 1"))
