"""Rows of committed turns become chunks whose texts are exact slices of what was said."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.build.calls import is_own_search, render_call
from search.build.chunker import texts_of
from tests.search.archive import Archive, call, change, message, partitions, result

LONG = "the points at the depot froze " * 300


def chunks(*, messages=(), tool_calls=()):
    return [chunk for chunk, _ in texts_of({"messages": list(messages), "tool_calls": list(tool_calls)})]


@settings(deadline=None)
@given(st.text(min_size=1, max_size=4000), st.integers(0, 3))
def test_every_chunk_is_an_exact_slice_of_the_utf8_text(text, repeat):
    whole = text * (1 + repeat)
    for chunk in chunks(messages=[message("conv-a", 1, whole)]):
        assert whole.encode("utf-8", "surrogatepass")[chunk.start_byte : chunk.end_byte].decode() == chunk.text


def test_long_texts_are_cut_at_blanks_and_overlap():
    found = chunks(messages=[message("conv-a", 1, LONG)])
    assert len(found) > 1
    for before, after in pairwise(found):
        assert after.start_byte < before.end_byte
        assert before.text[-1] == " "
    assert len({chunk.chunk_id for chunk in found}) == len(found)


def test_no_chunk_mixes_turns_or_roles():
    found = chunks(
        messages=[message("conv-a", 1, "a", turn="t1"), message("conv-a", 2, "b", role="assistant", turn="t1")]
    )
    assert [(chunk.turn_id, chunk.role, chunk.text) for chunk in found] == [
        ("t1", "user", "a"),
        ("t1", "assistant", "b"),
    ]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({}, "transcript"),
        ({"role": "assistant"}, "transcript"),
        ({"kind": "summary"}, "summary"),
        ({"kind": "notice", "role": "system"}, "other"),
        ({"material_origin": "runtime_context"}, "other"),
    ],
)
def test_kinds_tell_speech_from_the_rest(more, kind):
    assert [chunk.kind for chunk in chunks(messages=[message("conv-a", 1, "hello", **more)])] == [kind]


def test_bodies_of_edits_and_names_of_arguments_are_searchable():
    archive = Archive().tick(
        change("conv-a", tool_calls=[call("conv-a", 1, "Edit", '{"file_path":"a.py","new_string":"zanzibar"}')])
    )
    for query in ("zanzibar", "new_string", "Edit"):
        assert partitions(archive.search(query)) == ["conv-a"]


def test_a_patch_names_its_files():
    patch = "*** Begin Patch\\n*** Update File: src/a.py\\n*** Move to: src/b.py\\n*** Add File: c.md\\n*** End Patch"
    found = chunks(tool_calls=[call("conv-a", 1, "apply_patch", f'{{"input":"{patch}"}}')])
    assert found[0].paths == ("src/a.py", "src/b.py", "c.md")


def test_arguments_that_are_no_json_are_text():
    assert render_call({"name": "x", "server": "s", "arguments": "not json"}) == (
        "s x\nnot json",
        ("name", "arguments"),
    )


def test_a_flood_of_output_is_capped_and_says_so():
    """E18: logs do not swamp the index."""
    found = chunks(tool_calls=[call("conv-a", 1, "Bash"), result("conv-a", 2, 1, "line of a log\n" * 50_000)])
    outputs = [chunk for chunk in found if chunk.kind == "output"]
    assert len(outputs) == 64
    assert all(chunk.capped for chunk in outputs)
    assert outputs[-1].end_byte == len("line of a log\n" * 50_000)


def test_environment_dumps_and_base64_are_no_text():
    dump = "\n".join(f"SECRET_{number}=zanzibar" for number in range(20))
    blob = "QUJD/Zan+zibar9" * 90
    archive = Archive().tick(
        change(
            "conv-a",
            messages=[message("conv-a", 5, f"data {blob} quasar")],
            tool_calls=[call("conv-a", 1, "Bash"), result("conv-a", 2, 1, dump)],
        )
    )
    assert archive.search("zanzibar").results == ()
    assert archive.search("Zan").results == ()
    assert partitions(archive.search("quasar")) == ["conv-a"]


OWN = {"name": "Bash", "server": None, "action": "shell"}


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("polyc search 'points'", True),
        ("polyc show conv-a@1", True),
        ("polyc search points | head", False),
        ("polyc search points > x", False),
        ("polyc search $(cat q)", False),
        ("polyc import", False),
        ("cd x && polyc search points", False),
        ("polyc search points\nrm x", False),
        ("grep polyc search", False),
        ("polyc search 'unbalanced", False),
    ],
)
def test_only_a_plain_search_of_this_archive_is_its_own(command, own):
    assert is_own_search({**OWN, "command": command}) is own


def test_own_searches_are_not_found_but_their_failures_are():
    rows = [
        call(
            "conv-a", 1, "Bash", '{"command":"polyc search zanzibar"}', action="shell", command="polyc search zanzibar"
        ),
        result("conv-a", 2, 1, "1 result: zanzibar"),
        call(
            "conv-a", 3, "Bash", '{"command":"polyc search zanzibar"}', action="shell", command="polyc search zanzibar"
        ),
        result("conv-a", 4, 3, "zanzibar: no deployment", is_error=True),
    ]
    archive = Archive().tick(change("conv-a", tool_calls=rows))
    assert [hit.position for hit in archive.search("zanzibar", events=True).results] == [4]


def test_thinking_is_found_whether_or_not_its_message_said_anything():
    from tests.search.archive import row

    blocks = [
        row("blocks", partition="conv-a", message_id="conv-a/1", type="thinking", text="obsidian"),
        row("blocks", partition="conv-a", message_id="conv-a/1", type="thinking", text="tessellation"),
        row("blocks", partition="conv-a", message_id="conv-a/2", type="thinking", text="quasar"),
    ]
    messages = [
        message("conv-a", 1, "it is done", role="assistant"),
        message("conv-a", 2, "quasar", role="assistant", kind="thinking"),
    ]
    found = [chunk for chunk, _ in texts_of({"messages": messages, "blocks": blocks})]
    assert [(chunk.position, chunk.kind, chunk.text, chunk.fields) for chunk in found] == [
        (1, "other", "obsidian\n\ntessellation", ("thinking",)),
        (1, "transcript", "it is done", ("text",)),
        (2, "other", "quasar", ("thinking",)),
    ]
