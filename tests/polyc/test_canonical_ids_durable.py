"""One value, one text; derived ids; files that are there whole or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc import canonical, durable, ids
from polyc.clock import ManualClock, SystemClock
from polyc.errors import CorruptError, RefusedError
from polyc.vocabulary import EVENT_TYPES, may_author

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_has_one_text_and_comes_back(value):
    text = canonical.encode(value)
    assert canonical.decode(text, place="here") == value
    assert canonical.encode(canonical.decode(text, place="here")) == text


@pytest.mark.parametrize(
    "text",
    [
        b'{"b":1,"a":2}',
        b'{"a": 1}',
        b'{"a":1,"a":1}',
        b"1.0",
        b"1e3",
        b"[1,]",
        b'"\\u0061"',
        b'"\xff"',
        b"{}\n",
        b"",
        b"NaN",
        b"[" * 100_000,
    ],
)
def test_any_other_spelling_does_not_verify(text):
    with pytest.raises(CorruptError) as caught:
        canonical.decode(text, place="manifest 7")
    assert caught.value.place == "manifest 7"


@pytest.mark.parametrize("value", [1.5, {1: "a"}, b"bytes", [object()]])
def test_what_has_no_canonical_form_is_our_bug(value):
    with pytest.raises(TypeError):
        canonical.encode(value)


def test_imported_partitions_depend_on_every_part_of_the_source():
    names = {
        ids.imported_partition(provider, native, agent)
        for provider in ("claude-code", "codex")
        for native in ("s1", "s2", "s1\x1f")
        for agent in ("", "a7")
    }
    assert len(names) == 12
    for name in names:
        assert ids.check_partition(name)


def test_ids_are_of_their_version():
    clock, source = ManualClock(), ids.SeededIds()
    seven = ids.uuid7(clock, source)
    assert seven[14] == "7"
    assert int(seven.replace("-", "")[:12], 16) == clock.now_us() // 1000
    assert ids.uuid8("a", "b")[14] == "8"
    assert ids.uuid8("a", "b") != ids.uuid8("ab", "")


def test_chance_differs_and_seeded_chance_repeats():
    assert ids.SystemIds().token(16) != ids.SystemIds().token(16)
    assert ids.SeededIds("x").token(16) == ids.SeededIds("x").token(16)


@pytest.mark.parametrize("name", ["", "Root", "-a", "a b", "a" * 65, "a/b"])
def test_a_persona_id_outside_the_grammar_is_refused(name):
    with pytest.raises(RefusedError):
        ids.check_persona(name)


def test_the_manual_clock_goes_back_but_its_monotonic_half_does_not():
    clock = ManualClock()
    before = clock.now_us()
    clock.advance(seconds=-3600)
    assert clock.now_us() == before - 3_600_000_000
    assert clock.monotonic_s() == 0.0
    clock.advance(seconds=2)
    assert clock.monotonic_s() == 2.0
    assert SystemClock().now_us() > before - 10**15
    assert SystemClock().monotonic_s() <= SystemClock().monotonic_s()


def test_create_never_replaces(tmp_path):
    path = tmp_path / "gen.json"
    assert durable.create_file(path, b"first")
    assert not durable.create_file(path, b"second")
    assert path.read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["gen.json"]


def test_write_replaces_whole(tmp_path):
    path = tmp_path / "CURRENT"
    durable.write_file(path, b"1" * 100_000)
    durable.write_file(path, b"2")
    assert path.read_bytes() == b"2"
    assert [p.name for p in tmp_path.iterdir()] == ["CURRENT"]
    durable.sync_file(path)


def test_a_private_folder_that_others_can_enter_is_refused(tmp_path):
    folder = durable.make_private_folder(tmp_path / "keys")
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    with pytest.raises(RefusedError):
        durable.make_private_folder(folder)


@pytest.mark.parametrize(
    ("role", "kind", "partition", "may"),
    [
        ("harness", "turn_complete", "conv-a", False),
        ("control", "turn_complete", "conv-a", True),
        ("importer", "turn_complete", "conv-imp-a", True),
        ("importer", "turn_complete", "conv-a", False),
        ("harness", "message", "conv-imp-a", False),
        ("edge", "persona_recorded", "personas", False),
        ("query", "query_intent", "query-audit-e-20260101", True),
        ("query", "message", "query-audit-e-20260101", False),
        ("query", "query_intent", "conv-a", False),
        ("root", "key_added", "sys-keys", True),
        ("control", "key_added", "sys-keys", False),
        ("control", "participant_joined", "conv-imp-a", True),
    ],
)
def test_a_role_writes_its_own_events_to_its_own_partitions(role, kind, partition, may):
    code = next(row.code for row in EVENT_TYPES if row.kind == kind)
    assert may_author(role, code=code, partition=partition) is may


def test_a_newer_writers_type_is_taken_from_those_who_may_be_newer():
    assert may_author("harness", code=60_000, partition="conv-a")
    assert not may_author("edge", code=60_000, partition="conv-a")


def _staged(tmp_path):
    staged = tmp_path / "staged"
    staged.mkdir()
    for number in range(20):
        (staged / f"file-{number}").write_bytes(b"content")
    return staged


def test_a_folder_gets_its_name_once_and_whole(tmp_path):
    assert durable.create_folder(_staged(tmp_path), tmp_path / "pack")
    assert len(list((tmp_path / "pack").iterdir())) == 20
    assert not durable.create_folder(_staged(tmp_path), tmp_path / "pack")


def test_a_folder_with_a_file_that_cannot_be_synced_gets_no_name(tmp_path):
    staged = _staged(tmp_path)
    (staged / "file-20").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        durable.create_folder(staged, tmp_path / "pack")
    assert not (tmp_path / "pack").exists()
