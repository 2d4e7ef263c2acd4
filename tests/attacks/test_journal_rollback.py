"""Forgery: the whole journal taken back to an earlier, once honest state."""

import shutil
from pathlib import Path

import pytest

from journal import witnessing
from journal.backup import check_not_behind
from journal.receipt import verify_receipt
from journal.verify import Pin, verify_file
from journal.witness import Witness, create_app
from polyc import note
from polyc.errors import CorruptError, RefusedError
from polyc.ids import SeededIds
from polyc.signing import new_signer
from tests.journal.forger import first_fault, story
from tests.journal.log import ORIGIN, Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    story(log)
    return log


def rolled_back(log: Log, tmp_path: Path) -> tuple[Pin, str]:
    """Go on for a while, remember a receipt, then put the earlier file back."""
    shutil.copyfile(log.path, tmp_path / "earlier")
    with log.open() as journal:
        log.say(journal, "conv-a", "paid")
        receipt = journal.receipt("conv-a", 11)
        seen = note.decode_checkpoint(note.parse_note(journal.checkpoint(), place="").text, place="")
    shutil.copyfile(tmp_path / "earlier", log.path)
    return Pin(size=seen.size, root=seen.root, source="a receipt", anchored=True), receipt


def test_the_file_alone_cannot_tell_and_says_so(log: Log, tmp_path: Path):
    rolled_back(log, tmp_path)
    report = verify_file(log.path, policy=log.policy, level="V2")
    assert report.ok
    assert report.anchored_ranges == []
    assert report.unanchored_ranges == [(0, 24)]


def test_whoever_holds_a_receipt_or_a_manifest_proves_it(log: Log, tmp_path: Path):
    pin, receipt = rolled_back(log, tmp_path)
    assert verify_receipt(receipt, policy=log.policy).size == 25  # the receipt stays good: it is the evidence
    fault = first_fault(log, pins=[pin])
    assert (fault.kind, fault.place) == ("rollback", "checkpoint 25")
    with pytest.raises(RefusedError):
        check_not_behind(24, [pin])


def test_a_log_that_went_on_after_a_rollback_is_a_fork(log: Log, tmp_path: Path):
    pin, _receipt = rolled_back(log, tmp_path)
    heir = Log(tmp_path / "heir", seed="heir")
    heir.signers, heir.path = log.signers, log.path
    with heir.open() as journal:
        heir.say(journal, "conv-a", "never paid")
    fault = first_fault(log, pins=[pin])
    assert (fault.kind, fault.place) == ("fork", "checkpoint 25")


def test_a_witness_refuses_to_follow_it(log: Log, tmp_path: Path):
    from starlette.testclient import TestClient

    verifier = note.Verifier(name=ORIGIN, kind=note.ED25519, public_key=log.signers["log"].public_key)
    witness = Witness(tmp_path / "w", name="w", signer=new_signer(SeededIds("w")), logs=[verifier], clock=log.clock)
    with TestClient(create_app(witness), base_url="http://w") as client:
        shutil.copyfile(log.path, tmp_path / "first")
        with log.open() as journal:
            log.say(journal, "conv-a", "paid")
            witnessing.ask(journal, url="http://w", witness=witness.verifier, client=client)
        shutil.copyfile(tmp_path / "first", log.path)
        with log.open() as journal, pytest.raises(CorruptError) as refused:
            witnessing.ask(journal, url="http://w", witness=witness.verifier, client=client)
    assert refused.value.kind == "rollback"
