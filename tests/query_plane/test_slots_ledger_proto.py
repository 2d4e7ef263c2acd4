"""Admission control, the ledger's promises, and the generated code."""

import asyncio
import importlib.util
from pathlib import Path

import pytest

from polyc.errors import CorruptError, RefusedError
from polyc.ids import SeededIds
from query_plane import ledger as ledger_module
from query_plane.ledger import Ledger, edge_id
from query_plane.slots import Slots

ROOT = Path(__file__).resolve().parents[2]


def test_beyond_the_queue_everybody_is_refused_and_beyond_the_cap_one_subject():
    async def go():
        slots = Slots(running_max=1, waiting_max=1, per_subject_max=2)
        async with slots.hold("ada"):
            waiting = asyncio.create_task(_hold(slots, "ada"))
            await asyncio.sleep(0)
            with pytest.raises(RefusedError, match="of yours") as mine:
                await _hold(slots, "ada")
            with pytest.raises(RefusedError, match="too many") as anybodys:
                await _hold(slots, "bob")
            assert mine.value.code == anybodys.value.code == "resource_exhausted"
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert slots.held == 1
        assert slots.held == 0
        await _hold(slots, "bob")

    asyncio.run(go())


async def _hold(slots: Slots, subject: str) -> None:
    async with slots.hold(subject):
        pass


def abandoned(ledger: Ledger):
    return [(o.query_id, o.intent is None, o.outcome) for _, owed in ledger.abandoned() for o in owed]


def test_a_ledger_tells_what_a_process_that_is_gone_left_open(tmp_path):
    gone, ids = Ledger(tmp_path, ids=SeededIds("a")), SeededIds("b")
    for name in ("closed", "unknown", "known", "unsure"):
        gone.open(name, partition="query-audit-x", intent={"a": 1})
        if name != "unsure":
            gone.sure(name)
    gone.close("closed")
    gone.owe("known", outcome={"status": "ok"})
    mine = Ledger(tmp_path, ids=ids)
    assert abandoned(mine) == [], "a living process keeps its own"
    gone.release()
    assert abandoned(mine) == [("unknown", True, None), ("known", True, {"status": "ok"}), ("unsure", False, None)]
    mine.release()


def test_a_torn_last_line_promised_nothing(tmp_path):
    gone = Ledger(tmp_path, ids=SeededIds("a"))
    gone.open("whole", partition="query-audit-x", intent={})
    (path,) = (tmp_path / "open").glob("*.jsonl")
    content = path.read_bytes()
    gone.release()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        mine = Ledger(tmp_path, ids=SeededIds(f"b{length}"))
        assert [name for name, _, _ in abandoned(mine)] in ([], ["whole"])
        mine.release()


@pytest.mark.parametrize("broken", [b'{"open": "q", "par', b"\xff", b"{}", b'{"open": "no partition"}', b"[]", b"\0\0"])
@pytest.mark.parametrize("line", [1, 2, 3])
def test_a_line_that_cannot_be_read_is_named_unless_nothing_stands_after_it(tmp_path, broken, line):
    gone = Ledger(tmp_path, ids=SeededIds("a"))
    for name in ("one", "two"):
        gone.open(name, partition="query-audit-x", intent={})
    (path,) = (tmp_path / "open").glob("*.jsonl")
    lines = path.read_bytes().splitlines()
    gone.release()
    path.write_bytes(b"\n".join([*lines[: line - 1], broken, *lines[line - 1 :]]) + b"\n")
    mine = Ledger(tmp_path, ids=SeededIds("b"))
    if line == 3:
        assert [name for name, _, _ in abandoned(mine)] == ["one", "two"]
    else:
        with pytest.raises(CorruptError) as caught:
            abandoned(mine)
        assert (caught.value.place, caught.value.kind) == (f"edge/open/{path.name}:{line}", "ledger")
        assert "move it out of edge/open" in str(caught.value.hint)
    mine.release()


def test_a_ledger_with_nothing_open_leaves_no_file(tmp_path):
    ledger = Ledger(tmp_path, ids=SeededIds("a"))
    ledger.open("q", partition="query-audit-x", intent={})
    ledger.close("q")
    ledger.release()
    assert list((tmp_path / "open").iterdir()) == []


def test_a_long_life_keeps_the_file_short_and_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "LINES_ROTATE", 20)
    living = Ledger(tmp_path, ids=SeededIds("a"))
    living.open("still open", partition="query-audit-x", intent={"a": 1})
    living.sure("still open")
    for number in range(100):
        living.open(f"q{number}", partition="query-audit-x", intent={})
        living.close(f"q{number}")
    (path,) = (tmp_path / "open").glob("*.jsonl")
    assert path.read_bytes().count(b"\n") < 30
    living.release()
    next_one = Ledger(tmp_path, ids=SeededIds("b"))
    assert abandoned(next_one) == [("still open", True, None)]
    next_one.release()


def test_an_edge_keeps_its_name(tmp_path):
    first = edge_id(tmp_path, ids=SeededIds("a"))
    assert edge_id(tmp_path, ids=SeededIds("b")) == first
    assert first.isalnum()


def test_the_committed_code_is_what_the_proto_files_generate():
    spec = importlib.util.spec_from_file_location("proto_tool", ROOT / "tools" / "proto.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.main(["--check"]) == 0


def test_a_difference_in_the_generated_code_is_noticed(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("proto_tool", ROOT / "tools" / "proto.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    monkeypatch.setattr(tool, "buf", lambda *_arguments: None)
    monkeypatch.setattr(tool, "PROTO", tmp_path)
    (tmp_path / "x_pb.py").write_text("committed")
    monkeypatch.setattr(tool, "generate", lambda out: (out / "x_pb.py").write_text("fresh"))
    assert tool.check() == 1
    assert "x_pb.py" in capsys.readouterr().err
