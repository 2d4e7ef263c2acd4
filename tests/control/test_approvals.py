"""Approvals: a decision counts by the request's own time, and what Control says is what the fold says of it."""

import asyncio
from dataclasses import replace

import pytest

from control import turns
from control.approvals import ApprovalDesk
from control.conversations import open_conversation
from facts.events import ApprovalDecided
from facts.partition import open_fold
from facts.trust import Trust
from polyc.errors import RefusedError
from tests.control.serving import POLICY

WAIT_S = 3600.0  # the timer never gets to run in these tests


def shown(deployment) -> list[tuple[str | None, str | None]]:
    fold = open_fold("conv-a", Trust(keys=deployment.journal.keys))
    for record in deployment.journal.read("conv-a"):
        fold.apply(record)
    return [(row[7], row[10]) for row in fold.rows()["approvals"]]


@pytest.mark.parametrize(
    ("after_ms", "in_time"), [(0, True), (3_599_999, True), (3_600_000, False), (9_999_999, False)]
)
@pytest.mark.parametrize("outcome", ["approved", "denied"])
def test_a_decision_at_or_after_the_expiry_comes_too_late(deployment, local, outcome, after_ms, *, in_time) -> None:
    context = replace(local.context, redaction=POLICY)
    local.ensure_persona("ada")
    partition = open_conversation(context, "ada", partition="conv-a")
    dispatch, _ = turns.begin(context, partition=partition, persona_id="ada", harness="h", prompt="buy")

    async def decided() -> None:
        desk = ApprovalDesk(context)
        request = await desk.request(dispatch, request_id="x", tool_name="pay", arguments=None, wait_s=WAIT_S)
        deployment.clock.advance(seconds=after_ms / 1000)
        try:
            await desk.decide(request.approval_id, persona_id="ada", outcome=outcome, reason="as_expected")
        finally:
            await desk.cancel_all(dispatch)

    if in_time:
        asyncio.run(decided())
    else:
        with pytest.raises(RefusedError, match="was expired before"):
            asyncio.run(decided())
    said = [event for event in deployment.journal.events("conv-a") if isinstance(event, ApprovalDecided)]
    assert [(event.outcome, event.decided_by) for event in said] == [(outcome, "ada") if in_time else ("expired", None)]
    turns.finish(context, dispatch, turns.TurnEnd(status="completed"))
    assert shown(deployment) == [(event.outcome, event.decided_by) for event in said]
