"""One forgery, or true receipt out of place, for every verdict there is; none is settled in any reader.

Every reader: the table `payments`, the spending check, and the statement that joins payments with approvals.
"""

from typing import get_args

import pytest

from facts.payments import settled_total
from facts.receipts import Outcome
from facts.trust import Trust
from tests.facts.journal import Journal, column
from tests.facts.payment import (
    ED,
    ISSUED_AT,
    NETWORK,
    STRANGER,
    asked,
    claims,
    decided,
    dispatched,
    jws,
    paid,
    paying,
    requested,
    signer,
    trust,
)
from tests.facts.warehouse import warehouse

RESTAMPED = claims(transaction="0xAA02", issuedAt=ISSUED_AT - 7200)
DENIED = decided(requested(asked(dispatched().call("x", name="pay"))), outcome="denied")
TWICE = decided(requested(asked(paid(paying(), jws()))))

# Each: the journal after the forger's receipt, whom Trust names, and how many true payments stand in it besides.
FORGERIES: dict[str, tuple[Journal, Trust, int]] = {
    "bad_signature": (paid(paying(), jws(key=STRANGER)), trust(), 0),
    "unknown_key": (paid(paying(), jws(key=STRANGER, kid="did:key:eve")), trust(), 0),
    "revoked_key": (paid(paying(), jws()), trust(signer(revoked_at_index=101)), 0),
    "wrong_payer": (paid(paying(), jws(claims(payer="0x00000000000000000000000000000000000e7e00"))), trust(), 0),
    "wrong_resource": (paid(paying(), jws(claims(resourceUrl="https://api.example/cheaper"))), trust(), 0),
    "amount_mismatch": (paid(paying(), jws(claims(amount="1"))), trust(), 0),
    "duplicate": (paid(TWICE, jws(claims(issuedAt=ISSUED_AT + 1))), trust(), 1),
    "unapproved": (paid(DENIED, jws()), trust(), 0),
    "expired": (paid(paying(), jws(RESTAMPED)), trust(), 0),
    "malformed": (paid(paying(), jws(claims(version=None))), trust(), 0),
    "unsupported_format": (paid(paying(), jws(), form="cose"), trust(), 0),
}
JOINED = "SELECT COUNT(*) FROM payments p JOIN approvals a ON a.request_id = p.tool_call_id"


def test_every_verdict_has_its_forgery():
    assert {*FORGERIES, "settled"} == set(get_args(Outcome))


@pytest.mark.parametrize("verdict", FORGERIES)
def test_a_forgery_is_settled_in_no_reader(verdict):
    journal, by, others = FORGERIES[verdict]
    rows = journal.end().rows(by)
    assert column(rows, "settlement_verdicts", "verdict") == ["settled"] * others + [verdict]
    assert len(rows["payments"]) == others
    assert settled_total(journal.records, by, asset="usdc") == others * 10_000
    assert warehouse(rows).execute(JOINED).fetchone() == (others,)


def test_the_same_receipt_unforged_is_settled_in_every_reader():
    journal = paid(paying(), jws(key=ED))
    rows = journal.end().rows(trust())
    assert column(rows, "settlement_verdicts", "verdict") == ["settled"]
    assert settled_total(journal.records, trust(), asset="usdc", network=NETWORK) == 10_000
    assert warehouse(rows).execute(JOINED).fetchone() == (1,)
