"""Watching: what is written is told soon, what is quiet is told as a pause."""

from threading import Event, Thread

from sources.watching import changes


def test_a_written_file_is_told_and_the_watch_ends_when_told_to(tmp_path):
    stop = Event()
    target = tmp_path / "sessions"
    target.mkdir()
    told = []
    begun = Event()

    def watch():
        for found in changes([target, tmp_path / "absent"], stop=stop, pause_ms=50):
            begun.set()
            told.extend(found)
            if found:
                stop.set()

    thread = Thread(target=watch)
    thread.start()
    assert begun.wait(10), "the first pause shows that the kernel is asked"
    (target / "s.jsonl").write_text("{}\n")
    thread.join(10)
    assert not thread.is_alive()
    assert told == [target / "s.jsonl"]


def test_a_folder_that_does_not_exist_yet_is_watched_when_it_does(tmp_path):
    stop = Event()
    target = tmp_path / "later"
    watch = changes([target], stop=stop, pause_ms=20)
    assert next(watch) == frozenset()
    target.mkdir()
    assert next(watch) == frozenset()
    (target / "s.jsonl").write_text("{}\n")
    found = next(found for found in watch if found)
    assert found == {target / "s.jsonl"}
    stop.set()
    assert list(watch) == []
