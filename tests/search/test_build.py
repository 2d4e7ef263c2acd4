"""Search packs: incremental, mergeable, erasable, reproducible to the byte, verified before use."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifacts.store import DirectoryStore
from polyc.errors import CorruptError
from polyc.limits import SEARCH_FAN_IN
from search.build import PartitionChange, SearchBuild, kept
from search.pack import pack_name
from tests.search.archive import Archive, call, change, message, partitions, result, said


def texts_of(archive: Archive) -> list[str]:
    """Every text that is findable, in order."""
    answer = archive.search("points", events=True, mode="lexical", limit=200)
    return sorted(f"{hit.partition}@{hit.position} {hit.snippet.text}" for hit in answer.results)


def test_a_tick_adds_one_pack_and_leaves_the_others():
    archive = Archive().tick(said("conv-a", "points one"))
    before = archive.packs
    archive.tick(said("conv-a", "points two", first=2))
    assert archive.packs[:-1] == before
    assert texts_of(archive) == ["conv-a@1 points one", "conv-a@2 points two"]


def test_a_tick_without_anything_said_adds_nothing():
    archive = Archive().tick(said("conv-a", "points one"))
    before = archive.packs
    archive.tick(PartitionChange(partition="conv-a", incarnation="aa", mode="append", to_position=9, rows={}))
    assert archive.packs == before


def test_packs_of_a_class_become_one_and_nothing_is_lost():
    archive = Archive()
    for number in range(3 * SEARCH_FAN_IN + 2):
        archive.tick(said(f"conv-{number % 4}", f"points {number}", first=number + 1))
        assert len(archive.packs) <= SEARCH_FAN_IN
    assert len(texts_of(archive)) == 3 * SEARCH_FAN_IN + 2


def test_a_replacement_makes_what_older_packs_hold_dead():
    archive = Archive().tick(said("conv-a", "points old", "points older"), said("conv-b", "points kept"))
    archive.tick(said("conv-a", "points new", mode="replace"))
    assert texts_of(archive) == ["conv-a@1 points new", "conv-b@1 points kept"]
    assert archive.search("old", mode="lexical").matching_chunks == 0
    archive.packs = archive.build.compact(archive.packs)
    assert texts_of(archive) == ["conv-a@1 points new", "conv-b@1 points kept"]


def test_a_deleted_conversation_leaves_no_word_count_or_facet():
    """E13: nothing of it in hits, totals, facets; a conversation that comes later inherits nothing."""
    archive = Archive().tick(said("conv-a", "zanzibar points"), said("conv-b", "points"))
    archive.tick(change("conv-a", mode="replace", erased=True))
    archive.tick(said("conv-z", "unrelated"))
    answer = archive.search("zanzibar", facets=True)
    assert (answer.results, answer.matching_chunks, answer.facets) == ((), 0, None)
    assert archive.search("points", facets=True).facets["conversation"] == {"conv-b": 1}


def test_erasure_rewrites_the_files_that_held_the_text(tmp_path):
    archive = Archive(DirectoryStore(tmp_path)).tick(said("conv-a", "zanzibar"), said("conv-b", "points"))
    old = archive.packs
    archive.tick(change("conv-a", mode="replace", erased=True))
    assert not set(old) & set(archive.packs)
    assert [row for identity in archive.packs for row in kept(archive.store, identity)] == [("conv-b", 1, "points")]
    for identity in archive.packs:
        for entry in archive.store.list(f"{pack_name(identity)}/"):
            assert b"zanzibar" not in archive.store.read(entry.name)


def test_the_probe_for_erased_text_can_fail(tmp_path):
    archive = Archive(DirectoryStore(tmp_path)).tick(said("conv-a", "zanzibar"))
    content = b"".join(archive.store.read(entry.name) for entry in archive.store.list("search/"))
    assert b"zanzibar" in content


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=3, unique_by=lambda step: step[0]),
        min_size=1,
        max_size=6,
    )
)
def test_however_it_was_built_compaction_gives_the_packs_of_a_rebuild(steps):
    archive = Archive()
    state: dict[str, list] = {}
    for number, step in enumerate(steps):
        changes = []
        for which, fresh in step:
            name = f"conv-{which}"
            row = message(name, 10 * number + which + 1, f"points {number} {which} getUserById")
            kept = [] if fresh else state.get(name, [])
            state[name] = [*kept, row]
            mode = "replace" if fresh else "append"
            changes.append(change(name, messages=[row], mode=mode))
        archive.tick(*changes)
    whole = [change(name, messages=rows, mode="replace") for name, rows in sorted(state.items())]
    assert SearchBuild(archive.store).compact(archive.packs) == SearchBuild(Archive().store).rebuild(whole)


def test_equal_rows_give_equal_bytes_in_another_store(tmp_path):
    changes = [
        change(
            f"conv-{number}",
            messages=[message(f"conv-{number}", 1, "points " * number)],
            tool_calls=[call(f"conv-{number}", 2, "Bash", '{"command":"ls"}'), result(f"conv-{number}", 3, 2, "a.py")],
        )
        for number in range(20)
    ]
    first = Archive(DirectoryStore(tmp_path / "one")).tick(*changes)
    second = Archive(DirectoryStore(tmp_path / "two")).tick(*reversed(changes))
    assert first.packs == second.packs
    for entry in first.store.list("search/"):
        assert first.store.read(entry.name) == second.store.read(entry.name)


@pytest.mark.parametrize("file", ["pack.json", "partitions.json", "names.json", "main.term", "main.store", "main.meta"])
def test_one_flipped_bit_of_any_file_is_found_and_named(file):
    archive = Archive().tick(said("conv-a", "points freeze"))
    name = pack_name(archive.packs[0], file)
    content = bytearray(archive.store.read(name))
    content[len(content) // 2] ^= 1
    archive.store._objects[name] = (bytes(content), 0)
    with pytest.raises(CorruptError) as error:
        archive.search("points")
    assert error.value.place.startswith(pack_name(archive.packs[0]))


def test_a_missing_file_is_named_and_a_whole_pack_is_read():
    archive = Archive().tick(said("conv-a", "points freeze"))
    assert partitions(archive.search("points")) == ["conv-a"]
    del archive.store._objects[pack_name(archive.packs[0], "main.idx")]
    with pytest.raises(CorruptError, match="missing"):
        archive.search("points")


def test_a_query_in_flight_keeps_its_packs_when_the_store_drops_them(tmp_path):
    archive = Archive(DirectoryStore(tmp_path)).tick(said("conv-a", "points freeze"))
    engine, generation = archive.engine(), archive.generation()
    from search.query import SearchRequest
    from tests.search.archive import access

    request = SearchRequest(text="points")
    assert partitions(engine.search(request, access=access(), generation=generation)) == ["conv-a"]
    archive.store.delete(pack_name(archive.packs[0]))
    assert partitions(engine.search(request, access=access(), generation=generation)) == ["conv-a"]
    engine.keep([])
    with pytest.raises(CorruptError):
        engine.search(request, access=access(), generation=generation)
