"""Each filter by itself: what it lets through, and what it does not; classes combine with AND, values with OR."""

import pytest

from polyc.errors import RefusedError
from search.query import Filters
from tests.search.archive import Archive, call, change, message, partitions, result


def archive() -> Archive:
    """Two conversations that differ in everything a filter asks for; a subagent of the first."""
    one = change(
        "conv-imp-aaaaaaaaaaaa",
        messages=[message("conv-imp-aaaaaaaaaaaa", 1, "depot plan")],
        tool_calls=[
            call("conv-imp-aaaaaaaaaaaa", 2, "Edit", '{"path":"src/depot/main.py"}', path="src/depot/main.py"),
            result("conv-imp-aaaaaaaaaaaa", 3, 2, "depot written"),
        ],
        meta={"origin": "claude-code", "provider_session_id": "s-1", "repo": "depot", "cwd": "/home/maren/src/depot"},
    )
    child = change(
        "conv-imp-cccccccccccc",
        messages=[message("conv-imp-cccccccccccc", 30, "depot child")],
        meta={
            "origin": "claude-code", "parent_partition": "conv-imp-aaaaaaaaaaaa", "link_kind": "subagent",
            "root_partition": "conv-imp-aaaaaaaaaaaa", "agent_id": "x", "cwd": "/home/maren/src/depot",
        },
    )  # fmt: skip
    two = change(
        "conv-imp-bbbbbbbbbbbb",
        messages=[message("conv-imp-bbbbbbbbbbbb", 60, "depot answer", role="assistant")],
        meta={"origin": "codex", "provider_session_id": "s-2", "repo": "harbor", "cwd": "/home/maren/src/harbor"},
    )
    return Archive().tick(one, two, child)


A, B, C = "conv-imp-aaaaaaaaaaaa", "conv-imp-bbbbbbbbbbbb", "conv-imp-cccccccccccc"
MARCH_US = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(providers=("codex",)), {B}),
        (Filters(providers=("codex", "claude-code")), {A, B, C}),
        (Filters(provider_sessions=("s-1",)), {A}),
        (Filters(workspaces=("harbor",)), {B}),
        (Filters(workspaces=("/home/maren/src",)), {A, B, C}),
        (Filters(workspaces=("depot", "harbor")), {A, B, C}),
        (Filters(roles=("assistant",)), {A, B}),
        (Filters(roles=("tool",)), {A}),
        (Filters(tools=("Edit",)), {A}),
        (Filters(tools=("edit",)), set()),
        (Filters(files=("main.py",)), {A}),
        (Filters(files=("src/depot/main.py",)), {A}),
        (Filters(files=("ain.py",)), set()),
        (Filters(files=("./src/depot/main.py",)), {A}),
        (Filters(files=("depot\\main.py",)), {A}),
        (Filters(since_us=MARCH_US + 60 * 60_000_000), {B}),
        (Filters(until_us=MARCH_US + 60 * 60_000_000), {A, C}),
        (Filters(until_us=MARCH_US), set()),
        (Filters(sessions=("aaaaaaaa",)), {A}),
        (Filters(sessions=(B,)), {B}),
        (Filters(sessions=("aaaa",)), set()),
        (Filters(sessions=("imp-aaaaaaaa",)), {A}),
        (Filters(sessions=(A[:-1],)), {A}),
        (Filters(exclude_sessions=("aaaaaaaa", "cccccccccccc")), {B}),
        (Filters(exclude_trees=(A,)), {B}),
        (Filters(exclude_trees=("conv-imp-unknown",)), {A, B, C}),
        (Filters(primary_only=True), {A, B}),
        (Filters(source_roots=("/home/maren/src/depot",)), {A, C}),
        (Filters(source_roots=("/home/maren/src/",)), {A, B, C}),
        (Filters(source_groups=("harbor",)), {B}),
        (Filters(source_roots=("/home/maren",)), {A, B, C}),
        (Filters(source_roots=("/home/maren/src/depot",), source_groups=("harbor",)), {A, B, C}),
        (Filters(providers=("codex",), workspaces=("depot",)), set()),
        (Filters(providers=("claude-code",), primary_only=True, tools=("Edit",)), {A}),
    ],
)
def test_a_filter_lets_through_what_it_names_and_nothing_else(filters, expected):
    found = archive().search("depot", filters=filters, events=True, facets=True)
    assert set(partitions(found)) == expected
    assert set((found.facets or {}).get("conversation", {})) == expected


def recorded() -> Archive:
    """As imports record it: the home folder struck, a path of another system."""
    one = change(
        "conv-imp-aaaaaaaaaaaa",
        messages=[message(A, 1, "depot")],
        tool_calls=[call(A, 2, "Edit", "{}", path="~/src/depot/main.py")],
        meta={"cwd": "~/src/depot"},
    )
    two = change(
        "conv-imp-aaaaaaaabbbb",
        messages=[message("conv-imp-aaaaaaaabbbb", 1, "depot")],
        tool_calls=[call("conv-imp-aaaaaaaabbbb", 2, "Edit", "{}", path="C:\\work\\depot\\main.py")],
        meta={"cwd": "C:\\work\\depot"},
    )
    return Archive().tick(one, two)


TWO = "conv-imp-aaaaaaaabbbb"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(files=("/home/maren/src/depot/main.py",)), {A}),
        (Filters(files=("~/src/depot/main.py",)), {A}),
        (Filters(files=("/Users/kim/src/depot/main.py",)), {A}),
        (Filters(files=("/src/depot/main.py",)), {A}),
        (Filters(files=("depot/main.py",)), {A, TWO}),
        (Filters(files=("C:/work/depot/main.py",)), {TWO}),
        (Filters(workspaces=("/home/maren/src/depot/",)), {A}),
        (Filters(workspaces=("/home/maren",)), {A}),
        (Filters(workspaces=("~/src",)), {A}),
        (Filters(workspaces=("depot",)), {A, TWO}),
        (Filters(workspaces=("/home/maren/sr",)), set()),
        (Filters(workspaces=("src",)), set()),
        (Filters(source_roots=("/home/maren/src",)), {A}),
        (Filters(source_roots=("C:\\work",)), {TWO}),
        (Filters(source_roots=("~/src", "C:\\work\\depot")), {A, TWO}),
    ],
)
def test_a_path_is_found_as_a_person_writes_it(filters, expected):
    """`--workspace "$PWD"` and `--source-root ~/src` are absolute by the time we see them; records hold `~/src`."""
    assert (
        set(
            partitions(
                recorded().search("", filters=filters) if filters.files else recorded().search("depot", filters=filters)
            )
        )
        == expected
    )


def test_a_beginning_that_several_conversations_have_is_refused_and_a_longer_one_is_not():
    for filters in (Filters(sessions=("aaaaaaaa",)), Filters(exclude_sessions=("conv-imp-",))):
        with pytest.raises(RefusedError, match="ambiguous"):
            recorded().search("depot", filters=filters)
    assert partitions(recorded().search("depot", filters=Filters(sessions=("aaaaaaaaa",)))) == [A]


def test_a_beginning_is_ambiguous_by_what_the_grant_admits_alone():
    assert partitions(recorded().search("depot", scope=[A], filters=Filters(sessions=("aaaaaaaa",)))) == [A]


def test_a_conversation_of_another_scope_is_as_unknown_as_one_that_never_was():
    answers = [
        recorded().search("depot", scope=[A], filters=Filters(sessions=(name,)))
        for name in (TWO, TWO[:-1], "unknown-name")
    ]
    assert {answer.fallback for answer in answers} == {"no_such_conversation"}
    assert len({answer.to_json() for answer in answers}) == 1


@pytest.mark.parametrize("text", [{}, {"text": "depot"}])
@pytest.mark.parametrize("filters", [{"source_roots": ("/home/maren/sr",)}, {"source_groups": ("Harbor",)}])
def test_a_source_that_no_conversation_names_is_refused_without_repeating_it(text, filters):
    with pytest.raises(RefusedError) as caught:
        archive().search(filters=Filters(**filters), **text)
    assert caught.value.code == "not_found"
    assert "arbor" not in str(caught.value)
    assert "/home" not in str(caught.value)


def test_a_source_of_another_scope_is_as_unknown_as_one_that_never_was():
    with pytest.raises(RefusedError) as foreign:
        archive().search("depot", scope=[A], filters=Filters(source_groups=("harbor",)))
    with pytest.raises(RefusedError) as unknown:
        archive().search("depot", scope=[A], filters=Filters(source_groups=("no such",)))
    assert str(foreign.value) == str(unknown.value)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("all", {"transcript", "call", "output"}),
        ("transcript", {"transcript"}),
        ("calls", {"call"}),
        ("outputs", {"output"}),
    ],
)
def test_a_content_scope_is_a_choice_of_kinds(scope, expected):
    found = archive().search("depot", content_scope=scope, events=True)
    assert {hit.kind for hit in found.results} == expected


def test_an_event_type_is_a_kind_by_either_name():
    for name, kind in (("message", "transcript"), ("tool_call", "call"), ("command_output", "output")):
        assert {hit.kind for hit in archive().search("depot", event_types=(name,), events=True).results} == {kind}
