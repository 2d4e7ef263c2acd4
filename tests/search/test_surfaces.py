"""Every surface gives the same answer, under a grant and on record: the command line, the edge's route, Python."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from polyc.cli.deployment import opened
from polyc.cli.searching import current_session, local_time, render
from polyc.dataroot import DataRoot
from polyc.errors import RefusedError
from polyc.ids import imported_partition
from query_plane.searching import SEARCH, open_search, plain_search, search_local
from tests.cli.runner import polyc
from tests.search.archive import Archive, said


def test_the_command_line_finds_shows_and_cites(root, word):
    found = polyc(root, "search", "--persona", "maren", "--format", "json", word)
    assert found.code == 0, found.err
    answer = json.loads(found.out)
    assert answer["results"]
    first = answer["results"][0]
    shown = polyc(root, "show", "--persona", "maren", first["citation"])
    assert shown.code == 0, shown.err
    by_id = polyc(root, "show", "--persona", "maren", first["id"])
    assert by_id.out == shown.out
    by_short_name = polyc(root, "show", "--persona", "maren", f"{first['session']}@{first['position']}")
    assert by_short_name.out == shown.out
    start, end = first["snippet"]["start_byte"], first["snippet"]["end_byte"]
    row = polyc(
        root, "query", "--admin", "--format", "json",
        f"SELECT text FROM messages WHERE partition = '{first['partition']}' AND position = {first['position']}",
    )  # fmt: skip
    if first["kind"] in {"transcript", "summary"}:
        text = json.loads(row.out.splitlines()[0])["text"].encode()
        assert text[start:end].decode() == first["snippet"]["text"]


def test_a_conversation_is_shown_by_its_name_or_the_beginning_of_it(root, word):
    answer = json.loads(polyc(root, "search", "--admin", "--format", "json", word).out)
    partition = answer["results"][0]["partition"]
    whole = polyc(root, "show", "--admin", partition).out
    assert whole
    for name in (partition[:-4], answer["results"][0]["session"], answer["results"][0]["session"][:8]):
        assert polyc(root, "show", "--admin", name).out == whole, name
    several = polyc(root, "show", "--admin", "conv-imp")
    assert (several.code, "ambiguous" in several.err) == (1, True)
    for unknown in ("deadbeef", "zzzzzzzz", "conv-nobody"):
        assert "there is no such event" in polyc(root, "show", "--admin", unknown).err
    assert polyc(root, "show", "--persona", "stranger", partition[:-4]).code == 1
    assert "not an event" in polyc(root, "show", "--admin", "short").err


def test_text_output_is_for_people(root, word):
    found = polyc(root, "search", "--admin", word)
    text = found.out.decode()
    assert text.splitlines()[0].split()[1] in {"result", "results"}
    assert "   Event  " in text
    assert "   Time   " in text


def test_a_stranger_finds_nothing(root, word):
    assert json.loads(polyc(root, "search", "--admin", "--format", "json", word).out)["results"]
    found = polyc(root, "search", "--persona", "stranger", "--format", "json", word)
    assert found.code != 0 or json.loads(found.out)["results"] == []


def test_bad_requests_are_refused_by_name(root):
    for arguments, words in (
        ([], "nothing to search for"),
        (["--since", "yesterday", "x"], "not a time"),
        (["--limit", "0", "x"], "limit"),
        (["--content-scope", "calls", "--event-type", "message", "x"], "cannot be combined"),
        (["--cursor", "abc", "x"], "cursor"),
        (["--backend", "semantic", "x"], "not enabled"),
    ):
        said_ = polyc(root, "search", "--admin", *arguments)
        assert said_.code == 1, arguments
        assert words in said_.err, arguments


def test_a_search_is_on_record_with_its_outcome(root, tmp_path):
    copy = Path(shutil.copytree(root, tmp_path / "root", symlinks=True))
    assert polyc(copy, "search", "--admin", "zanzibar").code == 0
    assert polyc(copy, "search", "--admin", "--since", "yesterday", "zanzibar").code == 1
    assert polyc(copy, "project").code == 0
    rows = polyc(
        copy, "query", "--admin", "--format", "json",
        "SELECT i.surface, i.statement, o.status FROM query_audit_intents i JOIN query_audit_outcomes o USING (query_id) "
        "WHERE i.surface = 'search' ORDER BY i.requested_at",
    )  # fmt: skip
    told = [json.loads(line) for line in rows.out.splitlines()]
    assert [row["status"] for row in told][-2:] == ["ok", "refused"]
    assert json.loads(told[-2]["statement"])["query"] == "zanzibar"


def test_the_edges_route_is_the_same_answer_and_refuses_strangers(root, tmp_path, word):
    copy = DataRoot(Path(shutil.copytree(root, tmp_path / "root", symlinks=True)))
    body = json.dumps({"query": word, "limit": 3}).encode()
    with opened(copy) as deployment:
        token, _ = deployment.control().mint_grant(persona="maren", admin=False)
        local = search_local(copy, token, body, port=deployment.journal, clock=deployment.clock, ids=deployment.ids)

        async def call(headers: list[tuple[bytes, bytes]], content: bytes) -> tuple[int, dict]:
            sent: list[dict] = []

            async def receive() -> dict:
                return {"type": "http.request", "body": content, "more_body": False}

            async def send(message: dict) -> None:
                sent.append(message)

            async with open_search(
                copy, journal=deployment.journal, clock=deployment.clock, ids=deployment.ids
            ) as core:
                await plain_search(core, {"path": SEARCH, "headers": headers}, receive, send)
            return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))

        bearer = (b"authorization", f"Bearer {token}".encode())
        status, answer = asyncio.run(call([bearer], body))
        assert status == 200
        assert answer["results"] == json.loads(local.to_json())["results"]
        assert asyncio.run(call([], body))[0] == 401
        assert asyncio.run(call([(b"authorization", b"Bearer x.y.z")], body))[0] == 401
        status, refused = asyncio.run(call([bearer], b'{"query": "x", "unknown": 1}'))
        assert (status, refused["code"]) == (400, "invalid_argument")
        waited = asyncio.run(call([bearer], b'{"query": "x", "freshness": {"mode": "wait", "timeout_ms": 1}}'))
        assert waited[1]["freshness"]["outcome"] in {"waited", "timed_out"}


def test_the_answer_for_twenty_hits_is_short():
    archive = Archive().tick(
        *[said(f"conv-{number:032}", "the points at the depot froze " * 8) for number in range(40)]
    )
    answer = archive.search("points depot", limit=20, scope=[f"conv-{number:032}" for number in range(40)])
    assert len(answer.results) == 20
    assert len(answer.to_json()) / 20 <= 1100


def test_foreign_text_cannot_move_the_terminal():
    """E19."""
    archive = Archive().tick(said("conv-a", "\x1b[2J points \u202egnp.exe", meta={"title": "\x1b]0;x\x07"}))
    text = render(archive.search("points"), colour=True, verbose=True)
    assert "\x1b[1mpoints\x1b[0m" in text
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert "\x07" not in text


def test_the_current_session_is_known_from_the_environment_or_left_in():
    assert current_session({}) == ()
    assert current_session({"CLAUDE_CODE_SESSION_ID": "abc"}) == (imported_partition("claude-code", "abc"),)
    assert current_session({"CODEX_THREAD_ID": ""}) == ()


def test_times_are_local_and_honest():
    assert local_time(None) == "time unavailable"
    assert local_time("2026-03-01T12:00:00.000Z").startswith("2026-03-01")


def test_a_contradiction_is_an_error_of_the_caller():
    with pytest.raises(RefusedError):
        Archive().tick(said("conv-a", "x")).search("x", limit=0)
