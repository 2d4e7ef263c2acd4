"""The verifier's own manners: in parallel as alone, with progress, beside a writer, as JSON."""

import json
import re
from pathlib import Path

import pytest

import journal.verify
from journal.verify import verify_file
from polyc.appending import Draft
from polyc.vocabulary import BY_KIND
from tests.journal.forger import Forger, place, story
from tests.journal.log import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    story(log)
    return log


def test_several_processes_find_what_one_finds(log: Log, monkeypatch):
    monkeypatch.setattr(journal.verify, "ENTRIES_PER_TASK", 5)
    with Forger(log) as forger:
        for partition in ("conv-a", "conv-c"):
            forger.change(partition, 1, payload=b"\x00" * len(forger.entry(partition, 1).payload))
    alone = verify_file(log.path, policy=log.policy, level="V2", processes=1)
    together = verify_file(log.path, policy=log.policy, level="V2", processes=2)
    assert together == alone
    assert {fault.place for fault in alone.faults} == {place("conv-a", 1, log), place("conv-c", 1, log)}


def test_progress_reaches_the_end_and_the_report_is_json(log: Log, monkeypatch):
    monkeypatch.setattr(journal.verify, "ENTRIES_PER_TASK", 5)
    heard = []
    report = verify_file(log.path, policy=log.policy, progress=lambda done, total: heard.append((done, total)))
    assert heard == sorted(heard)
    assert heard[-1] == (24, 24)
    told = json.loads(json.dumps(report.to_json()))
    assert (told["ok"], told["entries"], told["unanchored_ranges"]) == (True, 24, [[0, 24]])


def test_v1h_verifies_the_signatures_that_turns_and_money_hang_on_and_no_others(log: Log):
    with log.open() as opened:
        marker = Draft(BY_KIND["turn_complete"].code, b"{}")
        log.author(opened, "control").append("conv-c", [marker])
    with Forger(log) as forger:
        forger.run("UPDATE append SET sig = zeroblob(64) WHERE position = 1 AND pid = ?", forger.pid("conv-a"))
    assert verify_file(log.path, policy=log.policy, level="V1h").ok
    with Forger(log) as forger:
        forger.run("UPDATE append SET sig = zeroblob(64) WHERE position = 2 AND pid = ?", forger.pid("conv-c"))
    faults = verify_file(log.path, policy=log.policy, level="V1h").faults
    assert [(fault.kind, fault.place) for fault in faults] == [("signature", place("conv-c", 2, log))]
    assert len(verify_file(log.path, policy=log.policy, level="V2").faults) == 2


def test_a_running_writer_does_not_disturb_it(log: Log):
    with log.open() as opened:
        report = verify_file(
            log.path, policy=log.policy, progress=lambda _done, _total: log.say(opened, "conv-b", "meanwhile")
        )
        assert report.ok
        assert report.entries == 24
        assert opened.size() == 25


def test_each_kind_of_fault_that_a_verification_can_name_is_explained_to_users():
    modules = ["journal/verify.py", "journal/tree_check.py", "journal/partition_check.py", "journal/file_check.py"]
    modules += ["journal/records.py", "journal/body.py", "journal/opening.py", "journal/tree.py", "journal/database.py"]
    modules += ["journal/keyevents.py", "polyc/entry.py", "polyc/keyring.py", "polyc/note.py"]
    named = {kind for module in modules for kind in re.findall(r'kind="(\w+)"', Path(module).read_text())}
    [table] = re.findall(r"\| kind \| what was found \|\n(.*?)\n\n", Path("docs/journal.md").read_text(), re.DOTALL)
    explained = {kind for line in table.splitlines() for kind in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named - explained == {"vkey"}  # an argument, no evidence
    assert explained - named == {"duplicate", "fork"}  # chosen in an expression


def test_what_is_not_a_journal_is_a_fault_not_a_crash(log: Log):
    log.path.write_bytes(b"not a database" * 1000)
    report = verify_file(log.path, policy=log.policy)
    assert [fault.kind for fault in report.faults] == ["database"]
