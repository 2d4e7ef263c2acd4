"""The deployment's partitions: keys, personas, routines, credentials, audit, imports, budgets."""

from decimal import Decimal

import msgspec
import pytest

from facts import events as e
from facts.audit import query_intent, query_outcome
from facts.catalog import TABLES
from facts.codec import encode
from polyc.errors import CorruptError
from polyc.keyring import KeyAdded, KeyRevoked
from polyc.vocabulary import BY_KIND
from tests.facts.journal import SIGNERS, Journal, anomalies, at, column, fold_of


def test_keys_have_a_role_from_one_index_to_another():
    control = SIGNERS["control"]
    added = KeyAdded(
        id="1", key_id=control.key_id.hex(), public_key=control.public_key.hex(), role="control", from_index=0
    )
    journal = Journal("sys-keys")
    journal.raw(BY_KIND["key_added"].code, msgspec.json.encode(added), by="root")
    journal.raw(
        BY_KIND["key_revoked"].code,
        msgspec.json.encode(KeyRevoked(id="2", key_id=added.key_id, from_index=9)),
        by="root",
    )
    rows = journal.rows()
    assert column(rows, "signer_keys", "public_key") == [control.public_key]
    assert column(rows, "signer_keys", "revoked_at") == [9]


def test_only_the_root_names_keys():
    control = SIGNERS["control"]
    added = KeyAdded(id="1", key_id="00" * 8, public_key=control.public_key.hex(), role="control", from_index=0)
    journal = Journal("sys-keys")
    journal.raw(BY_KIND["key_added"].code, msgspec.json.encode(added), by="control")
    assert journal.rows()["signer_keys"] == []


def test_the_last_record_of_a_persona_counts():
    journal = Journal("personas").add(
        e.PersonaRecorded(id="1", persona_id="ada"),
        e.PersonaRecorded(id="2", persona_id="ada", display_name="Ada", is_admin=True, acted_by="c-1"),
        by="control",
    )
    assert [row[4:] for row in journal.rows()["personas"]] == [("ada", "Ada", "active", True, "c-1")]


def test_a_routines_run_keeps_its_start():
    journal = Journal("routines").add(
        e.RoutineRecorded(id="0", routine="r", conversation_id="a", schedule="daily", prompt="go"),
        e.RoutineRun(id="1", run_id="1", routine="r", trigger="clock", status="started", started_at=at(0)),
        e.RoutineStep(id="2", run_id="1", step=1, action="ask", status="ok"),
        e.RoutineRun(id="3", run_id="1", routine="r", trigger="clock", status="completed", ended_at=at(1)),
        by="control",
    )
    rows = journal.rows()
    assert [row[4:] for row in rows["routine_runs"]] == [("1", "r", "clock", "completed", at(0), at(1))]
    assert len(rows["routine_steps"]) == len(rows["routines"]) == 1


def test_credential_history_never_holds_a_sessions_hash():
    event = e.Credential(
        id="1", credential_id="c", kind="session", subject="ada", event="minted", secret_sha256="5ec2e7"
    )
    rows = Journal("credentials-202611").add(event, by="control").rows()
    assert len(rows["credential_history"]) == 1
    assert "5ec2e7" not in repr(rows)


def audit(journal, *drafts):
    for draft in drafts:
        journal.raw(draft.event_type, draft.payload, by="query")
    return journal


INTENT = query_intent(
    event_id="1", occurred_at=at(0), query_id="q", credential_id="g", subject="ada", realm="participant",
    surface="execute", statement="SELECT 1", statement_sha256="00", scope_size=2,
)  # fmt: skip
OUTCOME = query_outcome(event_id="2", occurred_at=at(1), query_id="q", status="ok", row_count=1, truncated=False)


def test_an_intent_and_its_one_outcome():
    rows = audit(Journal("query-audit-e1-20261101"), INTENT, OUTCOME).rows()
    assert column(rows, "query_audit_intents", "statement") == ["SELECT 1"]
    assert column(rows, "query_audit_outcomes", "status") == ["ok"]
    assert rows["anomalies"] == []


def test_a_second_outcome_changes_nothing_and_is_named():
    lost = query_outcome(event_id="3", occurred_at=at(2), query_id="q", status="unknown")
    rows = audit(Journal("query-audit-e1-20261101"), INTENT, OUTCOME, lost).rows()
    assert column(rows, "query_audit_outcomes", "status") == ["ok"]
    assert anomalies(rows) == {("repeated_outcome", "query_outcome"): 1}


def test_a_quarantined_line_says_where_and_why():
    event = e.ImportQuarantined(id="1", provider="codex", path="/x", offset=7, size_bytes=3, reason="torn")
    assert [row[4:] for row in Journal("imports").add(event, by="importer").rows()["import_quarantine"]] == [
        ("codex", "/x", 7, 3, "torn", None)
    ]


def test_wallet_ceremonies_run_outside_any_turn():
    event = e.WalletLink(id="1", wallet="0xa", network="eip155:1", state="linked", persona_id="ada")
    assert len(Journal("wallets").add(event, by="edge").rows()["wallet_link_lifecycle"]) == 1
    assert len(Journal().open().add(event, by="edge").rows()["wallet_link_lifecycle"]) == 1


def reserve(number, amount="10"):
    return e.SpendReserved(
        id=f"r{number}", reservation_id=f"r{number}", conversation_id="a", tool_call_id="x", amount_base_units=amount,
        asset="usd", network="n",
    )  # fmt: skip


def settle(number, transaction="0x1"):
    return e.SpendReleased(
        id=f"e{number}", reservation_id=f"r{number}", outcome="settled", network="n", transaction=transaction
    )


def test_a_reservation_is_open_until_it_ends_and_a_receipt_settles_one():
    journal = Journal("spend-ada").add(reserve(1), reserve(2), by="control")
    assert column(journal.rows(), "reservations", "status") == ["open", "open"]
    rows = journal.add(settle(1), settle(2), by="control").rows()
    assert column(rows, "reservations", "status") == ["settled", "open"]
    assert anomalies(rows) == {("receipt_used_before", "spend_released"): 1}
    assert column(rows, "reservations", "amount_base_units") == [Decimal(10), Decimal(10)]


@pytest.mark.parametrize("amount", ["", "1.5", "-1", "1" * 39, "1e3", "١"])
def test_an_amount_that_is_no_number_of_base_units_reserves_nothing(amount):
    rows = Journal("spend-ada").add(reserve(1, amount), by="control").rows()
    assert rows["reservations"] == []
    assert anomalies(rows) == {("amount_malformed", "spend_reserved"): 1}


def test_an_event_in_a_partition_of_another_kind_is_misplaced():
    rows = Journal("routines").add(e.PersonaRecorded(id="1", persona_id="ada"), by="control").rows()
    assert anomalies(rows) == {("misplaced", "persona_recorded"): 1}


@pytest.mark.parametrize("partition", ["personas", "conv-a"])
def test_the_journals_notices_may_stand_anywhere(partition):
    events = (
        e.Gap(id="1", detail="lost"), e.Recovery(id="2", detail="cut", from_index=9),
        e.Erased(id="3", partition="conv-b", incarnation="00", position=4),
    )  # fmt: skip
    rows = Journal(partition).add(*events, by="control").rows()
    assert column(rows, "journal_notices", "kind") == ["gap", "recovery", "erased"]
    assert column(rows, "journal_notices", "target_position") == [None, None, 4]


def test_an_unknown_event_is_kept_counted_and_never_fatal():
    for partition in ("conv-a", "personas"):
        journal = Journal(partition)
        journal.raw(999, b"\xff not even json")
        assert anomalies(journal.rows()) == {("unknown_event", "999"): 1}


def test_a_poison_event_stops_its_partition_with_the_place_named():
    journal = Journal("personas").add(e.PersonaRecorded(id="1", persona_id="ada"), by="control")
    journal.raw(BY_KIND["persona_recorded"].code, b'{"type":"persona_recorded","id":"s3cret"}')
    with pytest.raises(CorruptError) as caught:
        journal.rows()
    assert caught.value.place == "personas@2"
    assert "s3cret" not in str(caught.value)


def test_a_gap_stops_the_partition_and_a_repeat_changes_nothing():
    journal = Journal().open().start().say().end()
    fold = fold_of(journal.records[:2])
    for record in journal.records[:2]:
        fold.apply(record)
    with pytest.raises(CorruptError, match="conv-a@4"):
        fold.apply(journal.records[3])
    fold.apply(journal.records[2])


def test_a_new_incarnation_starts_afresh_and_the_old_one_is_over():
    old, new = (
        Journal().open().start().say("old").end(),
        Journal(incarnation=b"\x02" * 16).open().start().say("new").end(),
    )
    fold = fold_of(old.records + new.records)
    assert fold.rows() == new.rows()
    with pytest.raises(CorruptError):
        fold.apply(old.records[1])


def test_an_erased_payload_folds_into_nothing():
    journal = Journal().open().start().say().end()
    draft = encode(e.Message(id="1", turn_id="t1", message_id="m", role="user", material_origin="human_authored"))
    journal.raw(draft.event_type, None, by="harness")
    assert anomalies(journal.rows()) == {("erased", "message"): 1}


def test_every_row_has_the_columns_of_its_table():
    from tests.facts.everything import every_partition
    from tests.facts.payment import trust

    seen = set()
    for journal in every_partition():
        for table, rows in journal.rows(trust()).items():
            seen |= {table} if rows else set()
            assert all(len(row) == len(TABLES[table].columns) for row in rows), table
    assert seen == set(TABLES)
