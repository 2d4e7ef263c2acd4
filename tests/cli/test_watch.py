"""`polyc watch` in one process: it begins when the first history appears, and a journal that was away loses nothing."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from polyc.appending import Ack, SignedAppend
from polyc.cli.deployment import Deployment, Journal, opened
from polyc.cli.import_loop import ImportLoop
from polyc.cli.watching import watch
from polyc.dataroot import DataRoot
from polyc.errors import UnavailableError
from polyc.ids import PersonaId
from sources import Cursors
from sources.conversation import Identity
from tests.sources.histories import ClaudeFile

SESSION = "aaaaaaaa-0000-4000-8000-00000000000d"
PARTITION = Identity("claude-code", SESSION).partition
LOOKS_MAX = 400  # of 50 ms


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with opened(DataRoot(tmp_path / "root"), create=True) as deployment:
        yield deployment


def written(folder: Path, *, turns: int) -> Path:
    f = ClaudeFile(SESSION)
    for number in range(turns):
        f.say(f"{number}?")
        f.answer(f"m{number}", "Yes.")
    return f.write(folder)


@contextmanager
def watched(deployment: Deployment, place: Path) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(
        target=watch, args=(deployment, [place]), kwargs={"persona": PersonaId("ada"), "stop": stop}
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()


def events_of(deployment: Deployment, *, at_least: int) -> int:
    pause = threading.Event()
    for _ in range(LOOKS_MAX):
        head = deployment.journal.head(PARTITION)
        if head is not None and head.position >= at_least:
            return head.position
        pause.wait(0.05)
    pytest.fail("nothing was imported")


def test_a_watch_that_began_before_any_history_imports_the_first_one(deployment: Deployment, tmp_path: Path) -> None:
    place = tmp_path / "home" / ".claude" / "projects"
    with watched(deployment, place):
        written(place / "-work-tram", turns=1)
        first = events_of(deployment, at_least=2)
        written(place / "-work-tram", turns=2)
        assert events_of(deployment, at_least=first + 1) > first


class AwayOnce:
    """A journal that cannot be reached for one group of appends, the first or a later one."""

    def __init__(self, journal: Journal, *, after: int = 0) -> None:
        self._journal = journal
        self._left = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def append_many(self, appends: Sequence[SignedAppend]) -> list[Ack]:
        self._left -= 1
        if self._left == -1:
            raise UnavailableError("the journal is away")
        return self._journal.append_many(appends)


def test_a_round_that_fails_is_made_again_as_a_whole(deployment: Deployment, tmp_path: Path) -> None:
    path = written(tmp_path / "home", turns=3)
    cursors = Cursors.open(tmp_path / "cursors.sqlite")
    away = replace(deployment, journal=cast("Journal", AwayOnce(deployment.journal)))
    loop = ImportLoop(away, cursors, persona=PersonaId("ada"))
    with pytest.raises(UnavailableError):
        loop.look([path], final=True)
    assert deployment.journal.head(PARTITION) is None
    report = loop.look([path], final=True)
    assert (report.turns, report.files_read) == (3, 1)
    assert loop.look([path], final=True).files_read == 0
    cursors.close()


@pytest.mark.parametrize("after", range(4))
def test_an_import_that_was_cut_off_is_gone_on_with_and_nothing_stands_twice(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr("polyc.cli.grouping.APPENDS_PER_GROUP_MAX", 1)
    monkeypatch.setattr("sources.batches.EVENTS_PER_IMPORT_APPEND_MAX", 4)
    path = written(tmp_path / "home", turns=3)
    cursors = Cursors.open(tmp_path / "cursors.sqlite")
    away = replace(deployment, journal=cast("Journal", AwayOnce(deployment.journal, after=after)))
    loop = ImportLoop(away, cursors, persona=PersonaId("ada"))
    with pytest.raises(UnavailableError):
        loop.look([path], final=True)
    written(tmp_path / "home", turns=4)
    loop.look([path], final=True)
    cursors.close()
    with opened(DataRoot(tmp_path / "other"), create=True) as other, closing(Cursors.open(None)) as fresh:
        ImportLoop(other, fresh, persona=PersonaId("ada")).look([path], final=True)
        assert sorted(payloads(deployment)) == sorted(payloads(other)), "the same events, and one participant"


def payloads(deployment: Deployment) -> list[bytes]:
    """All but what names the incarnation."""
    kept = [record.payload for record in deployment.journal.read(PARTITION) if record.payload is not None]
    return [payload for payload in kept if b"participant_joined" not in payload] + [
        b"participant_joined" for payload in kept if b"participant_joined" in payload
    ]


def test_two_files_of_one_session_in_one_look_are_one_conversation(deployment: Deployment, tmp_path: Path) -> None:
    for home, turns in (("a", 1), ("b", 3), ("c", 2)):
        written(tmp_path / "homes" / home, turns=turns)
    with closing(Cursors.open(tmp_path / "cursors.sqlite")) as cursors:
        loop = ImportLoop(deployment, cursors, persona=PersonaId("ada"))
        report = loop.look([tmp_path / "homes"], final=True)
        assert (report.incarnations_new, len(report.doubles)) == (1, 1), "b takes a's place, c is shorter than b"
        assert loop.look([tmp_path / "homes"], final=True).events == 0
    kept = [record.payload or b"" for record in deployment.journal.read(PARTITION)]
    assert len(kept) == len(set(kept))
    assert sum(b"turn_complete" in payload for payload in kept) == 3
