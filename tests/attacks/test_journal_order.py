"""Forgery: entries swapped, doubled, dropped, or cut off on a border."""

from pathlib import Path

import pytest

from journal.verify import Pin, verify_file
from polyc import note
from polyc.errors import CorruptError
from tests.journal.forger import Forger, first_fault, place, story
from tests.journal.log import ORIGIN, Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    story(log)
    return log


def test_two_swapped_neighbours_are_named_as_order(log: Log):
    with Forger(log) as forger:
        run = forger.stored("conv-a", 3).open("")
        forger.pack(run.index, run.headers[::-1], run.salted[::-1])
    fault = first_fault(log)
    assert fault.place == place("conv-a", 3, log)
    assert fault.kind in {"order", "leaf"}


def test_two_swapped_appends_are_named_as_order(log: Log):
    with Forger(log) as forger:
        first, second = forger.stored("conv-a", 3).open(""), forger.stored("conv-a", 5).open("")
        forger.pack(first.index, second.headers, second.salted)
        forger.pack(second.index, first.headers, first.salted)
    fault = first_fault(log)
    assert fault.place == place("conv-a", 3, log)
    assert fault.kind == "order"


def test_a_doubled_entry_is_found(log: Log):
    with Forger(log) as forger:
        run = forger.stored("conv-a", 9).open("")
        forger.pack(run.index, [run.headers[0], run.headers[0], run.headers[1]], [run.salted[0], *run.salted])
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("duplicate", place("conv-a", 10, log))
    with pytest.raises(CorruptError):
        log.open()


def test_a_doubled_append_is_found(log: Log):
    with Forger(log) as forger:
        last = forger.stored("conv-a", 10)
        columns = (24, forger.pid("conv-a"), 11, last.count, bytes(16), last.signature, last.form, last.body)
        forger.run("INSERT INTO append VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *columns)
        forger.run("UPDATE part SET next = next + 2, last_idx = 25 WHERE name = 'conv-a'")
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("unsealed", "index 24")
    with pytest.raises(CorruptError):
        log.open()


def test_a_dropped_append_is_named_as_a_gap(log: Log):
    with Forger(log) as forger:
        forger.run("DELETE FROM append WHERE idx = ?", forger.stored("conv-a", 3).index)
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("gap", place("conv-a", 3, log))


@pytest.mark.parametrize(("position", "kind"), [(3, "order"), (4, "append")])
def test_an_entry_dropped_out_of_its_append_is_named(log: Log, position: int, kind: str):
    with Forger(log) as forger:
        forger.drop("conv-a", position)
    fault = first_fault(log)  # without the fourth the append has no end: the third should have been it
    assert (fault.kind, fault.place) == (kind, place("conv-a", 3, log))


def test_a_last_entry_cut_off_with_its_append_is_behind_its_own_checkpoint(log: Log):
    with Forger(log) as forger:
        forger.run("DELETE FROM append WHERE idx = 23")
        forger.run("DELETE FROM part WHERE name = 'conv-c'")
    report = verify_file(log.path, policy=log.policy)
    assert ("rollback", "checkpoint 24") in {(fault.kind, fault.place) for fault in report.faults}
    with pytest.raises(CorruptError) as stopped:
        log.open()
    assert stopped.value.kind in {"rollback", "root"}


def test_a_tail_cut_off_with_its_checkpoints_is_found_by_whoever_saw_it(log: Log):
    with log.open() as journal:
        seen = note.decode_checkpoint(note.parse_note(journal.checkpoint(), place="").text, place="")
    with Forger(log) as forger:
        forger.run("DELETE FROM append WHERE idx >= 23")
        forger.run("DELETE FROM part WHERE name = 'conv-c'")
        forger.run("DELETE FROM checkpoint WHERE size > 23")
    assert first_fault(log, level="V2") is None  # nothing inside the file can tell
    pin = Pin(size=seen.size, root=seen.root, source="a receipt", anchored=True)
    fault = first_fault(log, pins=[pin])
    assert (fault.kind, fault.place) == ("rollback", "checkpoint 24")


def test_a_checkpoint_past_the_head_is_refused(log: Log):
    with Forger(log) as forger:
        text = str(note.Checkpoint(origin=ORIGIN, size=99, root=bytes(32)))
        line = note.sign(text, name=ORIGIN, signer=log.signers["log"])
        forger.run(
            "INSERT INTO checkpoint VALUES (99, ?, ?)", str(note.Note(text=text, signatures=(line,))), bytes(32 * 4)
        )
    assert first_fault(log).kind == "rollback"
    with pytest.raises(CorruptError) as stopped:
        log.open()
    assert stopped.value.kind == "rollback"


def test_a_fork_is_found_by_whoever_remembers_the_other_root(log: Log):
    with log.open() as journal:
        seen = note.decode_checkpoint(note.parse_note(journal.checkpoint(), place="").text, place="")
    pin = Pin(size=seen.size, root=seen.root, source="manifest 3", anchored=False)
    assert first_fault(log, pins=[pin]) is None
    other = Log(log.folder / "other", seed="log")
    with other.open() as journal:  # the same keys, another history
        other.say(journal, "conv-c", "x")
    story(other)
    fault = first_fault(other, pins=[pin])
    assert (fault.kind, fault.place) == ("fork", "checkpoint 24")


LATEST = "WHERE size = (SELECT max(size) FROM checkpoint)"


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("DELETE FROM checkpoint", "unsealed"),
        (f"DELETE FROM checkpoint {LATEST}", "rollback"),
        (f"UPDATE checkpoint SET size = size + 1 {LATEST}", "checkpoint"),
        (f"UPDATE checkpoint SET nodes = zeroblob(length(nodes)) {LATEST}", "root"),
        ("UPDATE part SET leaf = zeroblob(32) WHERE name = 'conv-c'", "head"),
        ("UPDATE part SET next = next + 1 WHERE name = 'conv-c'", "head"),
    ],
)
def test_a_writer_does_not_go_on_from_a_tail_that_lies(log: Log, statement: str, kind: str):
    with Forger(log) as forger:
        forger.run(statement)
    with pytest.raises(CorruptError) as stopped:
        log.open()
    assert stopped.value.kind == kind
    with pytest.raises(CorruptError):  # and it stays so: nothing was removed or mended
        log.open()
