"""A search's record: its intent before anything is read, its outcome once the answer has left, exactly one each."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from polyc.errors import RefusedError, UnavailableError
from query_plane import audit as audit_module
from query_plane.core import QueryFailedError
from query_plane.local import bearer_header
from query_plane.searching import SearchCore, open_search
from query_plane.slots import Slots
from search.query.engine import SearchEngine
from tests.query_plane.cores import Journal, core_of, run, until
from tests.query_plane.deployment import make_deployment

ASKED = b'{"query": "hello"}'


def reading(body: bytes):
    async def read() -> bytes:
        return body

    return read


@asynccontextmanager
async def searching(deployment, journal: Journal):
    async with open_search(deployment.root, journal=journal, clock=deployment.clock, ids=deployment.ids) as core:
        yield core


def search(deployment, journal: Journal, body: bytes = ASKED, *, token: str | None = None):
    async def go():
        async with (
            searching(deployment, journal) as core,
            core.answering(bearer_header(token or deployment.grant("ada")), reading(body)) as answer,
        ):
            return answer

    return run(go())


@pytest.fixture
def journal(deployment) -> Journal:
    return Journal(deployment.journal)


def test_the_outcome_follows_the_answer_and_the_intent_comes_before_it(deployment, journal):
    async def go():
        headers = bearer_header(deployment.grant("ada"))
        async with searching(deployment, journal) as core, core.answering(headers, reading(ASKED)) as answer:
            assert answer.results
            assert len(journal.intents()) == 1
            await asyncio.sleep(0)
            assert journal.outcomes() == []
        assert journal.outcomes() == [("ok", None)]

    run(go())


@pytest.mark.parametrize("when", ["before", "after"])
def test_without_its_intent_on_record_no_search_runs(deployment, journal, monkeypatch, when):
    def no_search(*_arguments, **_named):
        raise AssertionError("the engine was asked")

    monkeypatch.setattr(SearchEngine, "search", no_search)
    journal.fails = {"query_intent": when, "query_outcome": "before"}
    with pytest.raises(UnavailableError, match="does not run"):
        search(deployment, journal)
    journal.fails = {}
    with pytest.raises(QueryFailedError):  # with its intent on record it would have run
        search(deployment, journal)

    async def started():
        async with core_of(deployment, journal):
            pass

    assert ("failed", "unavailable") not in journal.outcomes()
    run(started())  # what a search still owes is recorded by the edge's next start: here, and not in another test
    assert ("failed", "unavailable") in journal.outcomes()


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        (b'{"query": "hello", "unknown": 1}', ("refused", "invalid_argument")),
        (b'{"query": "hello", "limit": 0}', ("refused", "out_of_range")),
        (b"\xff", ("refused", "invalid_argument")),
    ],
)
def test_a_refused_search_is_on_record_as_refused(deployment, journal, body, ending):
    with pytest.raises(RefusedError):
        search(deployment, journal, body)
    assert len(journal.intents()) == 1
    assert journal.outcomes() == [ending]


def test_an_answer_that_nobody_took_is_cancelled(deployment, journal):
    class GoneError(Exception):
        """The caller hung up."""

    async def go():
        async with searching(deployment, journal) as core:
            with pytest.raises(GoneError):
                async with core.answering(bearer_header(deployment.grant("ada")), reading(ASKED)):
                    raise GoneError

    run(go())
    assert journal.outcomes() == [("cancelled", "canceled")]


def test_a_bearer_that_is_none_leaves_no_trace(deployment, journal):
    with pytest.raises(RefusedError) as refused:
        search(deployment, journal, token="x.y.z")
    assert refused.value.code == "unauthenticated"
    assert journal.events == []


def test_a_search_sees_what_was_published_before_it_began(tmp_path):
    """The edge looks at what is published for every question, whatever it remembers."""
    deployment = make_deployment(tmp_path / "root")  # its own: another conversation would be counted by others' tests
    journal = Journal(deployment.journal)

    async def go():
        async with core_of(deployment, journal) as core:
            admitter, grant = core._admitter, core.authenticate(bearer_header(deployment.grant(admin=True)))
            first = await admitter.snapshot(grant)
            assert await admitter.snapshot(grant) == first
            deployment.turn("conv-new", "t1", ["hello again", "hello to you"])
            deployment.project()
            second = await admitter.snapshot(grant)
            assert second.generation.number > first.generation.number
            assert await admitter.snapshot(grant) == second

    run(go())
    deployment.journal.close()


def test_a_core_waits_for_its_outcomes(deployment, journal):
    async def go():
        async with searching(deployment, journal) as core:
            assert isinstance(core, SearchCore)
            for _ in range(3):
                async with core.answering(bearer_header(deployment.grant("ada")), reading(ASKED)):
                    pass

    run(go())
    assert len(journal.intents()) == len(journal.outcomes()) == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_intent_that_failed_is_settled_when_the_journal_is_back(deployment, journal, monkeypatch, when):
    monkeypatch.setattr(audit_module, "RETRY_S", 0.01)

    async def go():
        async with searching(deployment, journal) as core:
            journal.fails = {"query_intent": when}
            with pytest.raises(UnavailableError):
                async with core.answering(bearer_header(deployment.grant("ada")), reading(ASKED)):
                    pass
            await until(lambda: core._audit._owed)
            assert journal.outcomes() == []
            journal.fails = {}
            await until(journal.outcomes)

    run(go())
    assert len(journal.intents()) == 1
    assert journal.outcomes() == [("failed", "unavailable")]


def test_a_search_that_gets_no_slot_is_on_record_as_refused(deployment, journal):
    async def go():
        headers = bearer_header(deployment.grant("ada"))
        async with searching(deployment, journal) as core:
            core._slots = Slots(running_max=1, waiting_max=0, per_subject_max=1)
            async with core._slots.hold("ada"):
                with pytest.raises(RefusedError) as refused:
                    async with core.answering(headers, reading(ASKED)):
                        pass
            assert refused.value.code == "resource_exhausted"
            async with core.answering(headers, reading(ASKED)) as answer:
                assert answer.results

    run(go())
    assert len(journal.intents()) == 2
    assert journal.outcomes() == [("refused", "resource_exhausted"), ("ok", None)]


def test_one_who_leaves_while_it_runs_is_on_record_once_it_has_ended(deployment, journal, monkeypatch):
    """The thread cannot be stopped: its intent may come to be on record after its caller has gone."""
    began, goes_on = threading.Event(), threading.Event()
    search = SearchEngine.search

    def slow(*arguments, **named):
        began.set()
        goes_on.wait(30)
        return search(*arguments, **named)

    monkeypatch.setattr(SearchEngine, "search", slow)

    async def ask(core):
        async with core.answering(bearer_header(deployment.grant("ada")), reading(ASKED)):
            pass

    async def go():
        async with searching(deployment, journal) as core:
            asking = asyncio.create_task(ask(core))
            await until(began.is_set)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert journal.outcomes() == []
            goes_on.set()

    run(go())
    assert len(journal.intents()) == 1
    assert journal.outcomes() == [("cancelled", "canceled")]


def test_who_waits_for_freshness_waits_for_what_was_before_its_own_intent(deployment, journal):
    body = b'{"query": "hello", "freshness": {"mode": "wait", "timeout_ms": 0}}'
    assert search(deployment, journal, body).freshness.outcome == "timed_out"
    assert len(journal.intents()) == len(journal.outcomes()) == 1
