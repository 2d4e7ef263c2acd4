"""Before a conversation's content goes, what it spent is on record beside it: for the persona and for the wallet."""

from dataclasses import replace

import pytest

from control.carrying import carry
from control.service import make_service
from facts.payments import Spending
from facts.trust import Trust
from polyc.durable import write_file
from tests.control.serving import POLICY
from tests.control.test_payments import ASK, begun, budget, rows, settle
from tests.facts.payment import NETWORK, PAYER, listed, signer


@pytest.fixture
def service(deployment, local):
    write_file(deployment.root.path / "receipt-signers.json", listed(signer()), mode=0o600)
    local.ensure_persona("ada")
    return make_service(replace(local.context, redaction=POLICY), control_url="http://127.0.0.1:1")


def spending_of(deployment) -> Spending:
    spending = Spending(Trust(keys=deployment.journal.keys, receipt_signers=(signer(),)))
    for name in ("conv-a", "spend-ada", f"spend-{PAYER.lower()}"):
        spending.take(deployment.journal.read(name))
    return spending


@pytest.mark.parametrize(("payer", "appended"), [(PAYER, 0), (None, 2)])
def test_a_settled_reservation_is_the_record_and_a_silent_one_gets_another_for_the_wallet(
    service, deployment, payer, appended
) -> None:
    budget(service, 100_000)
    dispatch = begun(service, deployment)
    assert service.spending.reserve(dispatch, replace(ASK, payer=payer))
    assert settle(service, dispatch, "x", "0xAA01")
    before = len(deployment.journal.records)
    assert carry(service.context, spending_of(deployment), "conv-a") == 0
    assert len(deployment.journal.records) == before + appended
    carry(service.context, spending_of(deployment), "conv-a")
    assert len(deployment.journal.records) == before + appended
    assert spending_of(deployment).spent(wallet=PAYER, asset="usdc", network=NETWORK) == 10_000


def test_a_reservation_that_a_crash_left_open_is_ended(service, deployment, monkeypatch) -> None:
    budget(service, 100_000)
    dispatch = begun(service, deployment)
    assert service.spending.reserve(dispatch, ASK)
    monkeypatch.setattr(service.spending, "_settle", lambda *_: None)  # the crash: its end was never written
    assert settle(service, dispatch, "x", "0xAA01")
    assert [row[10] for row in rows(deployment, "spend-ada", "reservations")] == ["open"]
    assert carry(service.context, spending_of(deployment), "conv-a") == 1
    assert [row[10] for row in rows(deployment, "spend-ada", "reservations")] == ["settled"]
    assert carry(service.context, spending_of(deployment), "conv-a") == 0
