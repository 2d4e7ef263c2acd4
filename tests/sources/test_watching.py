"""Watching: everything is looked at first, what is written is told soon, what is quiet is told as a pause."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Event

from sources.watching import changes

LOOKS_MAX = 500  # pauses of 20 ms


def watching(*places: Path) -> tuple[Iterator[frozenset[Path]], Event]:
    stop = Event()
    return changes(places, stop=stop, pause_ms=20), stop


def next_told(watch: Iterator[frozenset[Path]]) -> frozenset[Path]:
    return next(found for found in islice(watch, LOOKS_MAX) if found)


def test_all_places_are_told_first_and_then_what_is_written(tmp_path):
    watch, stop = watching(tmp_path, tmp_path / "absent")
    assert next(watch) == {tmp_path}
    (tmp_path / "s.jsonl").write_text("{}\n")
    assert next_told(watch) == {tmp_path / "s.jsonl"}
    stop.set()
    assert not any(watch)


def test_a_pause_is_an_empty_set(tmp_path):
    watch, _stop = watching(tmp_path)
    assert [next(watch), next(watch)] == [{tmp_path}, frozenset()]


def test_a_place_that_does_not_exist_yet_is_told_when_it_does(tmp_path):
    watch, _stop = watching(tmp_path / "later")
    assert next(watch) == frozenset()
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "first.jsonl").write_text("{}\n")
    assert next_told(watch) == {tmp_path / "later"}, "with what was written before the kernel was asked"
    (tmp_path / "later" / "second.jsonl").write_text("{}\n")
    assert next_told(watch) == {tmp_path / "later" / "second.jsonl"}


def test_a_place_that_was_replaced_is_told_again_and_watched_anew(tmp_path):
    place = tmp_path / "sessions"
    place.mkdir()
    watch, _stop = watching(place)
    assert next(watch) == {place}
    place.rename(tmp_path / "old")
    place.mkdir()
    assert place in next_told(watch)
    (place / "s.jsonl").write_text("{}\n")
    assert any(place / "s.jsonl" in found for found in islice(watch, LOOKS_MAX))


def test_a_new_folder_is_told_because_files_may_have_been_written_before_it_was_watched(tmp_path):
    watch, _stop = watching(tmp_path)
    next(watch)
    (tmp_path / "project").mkdir()
    assert any(tmp_path / "project" in found for found in islice(watch, LOOKS_MAX))


def test_the_log_of_a_database_stands_for_the_database_and_other_files_for_nothing(tmp_path):
    database = tmp_path / "opencode.db"
    database.write_bytes(b"")
    watch, _stop = watching(database)
    next(watch)
    (tmp_path / "opencode.log").write_text("x")
    (tmp_path / "opencode.db-wal").write_bytes(b"x")
    assert next_told(watch) == {database}
