"""Forgery: keys used outside their time, their role, their log; two keys under one id."""

from pathlib import Path

import msgspec
import pytest

from journal import keys
from polyc import entry
from polyc.errors import RefusedError
from polyc.signing import new_signer
from polyc.vocabulary import BY_KIND
from tests.journal.forger import Forger, first_fault, place, story
from tests.journal.log import Log, key_added


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    story(log)
    return log


def test_a_revoked_key_is_refused_at_the_door(log: Log):
    with log.open() as journal:
        root = log.author(journal, "root")
        keys.revoke_key(root, key_id=log.signers["harness"].key_id, from_index=journal.size(), reason="stolen")
        with pytest.raises(RefusedError) as refused:
            log.say(journal, "conv-a", "still here")
        assert refused.value.code == "unauthenticated"


def test_an_entry_smuggled_past_the_door_after_the_revocation_is_named(log: Log):
    with log.open() as journal:
        head = journal.head("conv-a")
        stolen = log.sign("conv-a", b"still here", head=head)
        root = log.author(journal, "root")
        keys.revoke_key(root, key_id=log.signers["harness"].key_id, from_index=journal.size())
    with Forger(log) as forger:  # with the file and even the log's key
        forger.insert("conv-a", 25, stolen.entries[0], stolen.signature)
        forger.rechain("conv-a")
        forger.reseal(log_key=True)
    fault = first_fault(log, level="V2")
    assert (fault.kind, fault.place) == ("key", place("conv-a", 11, log))


def test_a_revocation_in_the_past_places_the_first_append_that_no_longer_counts(log: Log):
    with log.open() as journal:
        index = next(record.index for record in journal.read("conv-a", from_position=5))
        keys.revoke_key(log.author(journal, "root"), key_id=log.signers["harness"].key_id, from_index=index)
    fault = first_fault(log, level="V2")
    assert (fault.kind, fault.place) == ("key", place("conv-a", 5, log))


def test_a_type_that_the_role_may_not_write_is_named(log: Log):
    with Forger(log) as forger:
        header = entry.decode_header(forger.entry("conv-c", 1).header, place="x")
        marker = msgspec.structs.replace(header, event_type=BY_KIND["turn_complete"].code)
        forger.change("conv-c", 1, header=entry.encode_header(marker))
        forger.rechain("conv-c")
        forger.reseal(log_key=True)
    for level in ("V1h", "V2"):  # a marker is of high value: V1h looks at it too
        fault = first_fault(log, level=level)
        assert (fault.kind, fault.place) == ("role", place("conv-c", 1, log))


def test_an_append_of_another_log_is_not_ours(log: Log, tmp_path: Path):
    with log.open() as journal:
        signed = log.sign("conv-a", b"x", head=journal.head("conv-a"))
        header = entry.decode_header(signed.entries[0].header, place="x")
        elsewhere = entry.append_preimage("polychrome.test/other", entry.leaf_hash(signed.entries[0].header))
        forged = msgspec.structs.replace(signed, signature=log.signers["harness"].sign(elsewhere))
        assert header.key_id == log.signers["harness"].key_id
        with pytest.raises(RefusedError):
            journal.append(forged)


def test_a_key_event_that_the_root_did_not_sign_stops_the_journal(log: Log):
    intruder = new_signer(log.ids)
    log.signers["root"], honest = intruder, log.signers["root"]
    with Forger(log) as forger:
        draft = key_added("control", new_signer(log.ids))
        forged = log.sign("sys-keys", draft.payload, role="root", event_type=draft.event_type)
        header = entry.decode_header(forged.entries[0].header, place="x")
        first = forger.entry("sys-keys", 8).header
        fitted = msgspec.structs.replace(
            header,
            position=9,
            prev=entry.leaf_hash(first),
            incarnation=entry.decode_header(first, place="x").incarnation,
        )
        raw = entry.encode_header(fitted)
        signature = intruder.sign(entry.append_preimage("polychrome.test/log", entry.leaf_hash(raw)))
        item = msgspec.structs.replace(forged.entries[0], header=raw)
        forger.insert("sys-keys", 24, item, signature)
        forger.rechain("sys-keys")
        forger.reseal(log_key=True)
    log.signers["root"] = honest
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("signature", place("sys-keys", 9, log))
