"""Redaction is structural: what belongs to the fleet is in no artifact that a participant's grant can name.

Not read off from names: journals are folded in which each kind of secret carries a marked value, and every value of
every participant table and view is searched for the marks.
"""

import pytest

from facts.catalog import TABLES, VIEWS
from tests.facts.everything import MARKED, MARKED_KEY, every_partition
from tests.facts.journal import SIGNERS
from tests.facts.payment import trust
from tests.facts.warehouse import warehouse

MARKS = [*MARKED.values(), MARKED_KEY.decode(), MARKED_KEY.hex(), *(s.public_key.hex() for s in SIGNERS.values())]


@pytest.fixture(scope="module")
def engine():
    return warehouse(*(journal.rows(trust()) for journal in every_partition()))


def values(engine, name):
    return "\n".join(str(value) for row in engine.execute(f"SELECT * FROM {name}").fetchall() for value in row)


@pytest.mark.parametrize("table", MARKED)
def test_each_mark_is_where_the_fleet_finds_it(engine, table):
    assert TABLES[table].realm == "fleet"
    assert MARKED[table] in values(engine, table)


def test_the_marked_key_is_in_the_fleets_table(engine):
    assert engine.execute("SELECT public_key FROM signer_keys").fetchall() == [(MARKED_KEY,)]


@pytest.mark.parametrize(
    "name", [item.name for item in [*TABLES.values(), *VIEWS.values()] if item.realm == "participant"]
)
def test_no_mark_is_in_anything_a_participant_can_name(engine, name):
    found = values(engine, name)
    assert found, "an empty table proves nothing"
    assert [mark for mark in MARKS if mark in found] == []


def test_the_search_can_find(engine):
    assert "please read a.py" in values(engine, "messages")


def test_a_receipts_text_and_verdict_are_in_no_participant_table(engine):
    for name in ("payments", "approvals", "tool_calls", "observed_events"):
        found = values(engine, name)
        assert "unknown_key" not in found
        assert "did:web" not in found
