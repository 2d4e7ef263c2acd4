"""What a conversation spent, put on record beside it before its content is erased (docs/adr/0022).

A payment is judged from the conversation's own events: asked for, approved, receipted. Erased, they settle nothing any
more, and a budget would have room again. So each payment gets, or has, a settled reservation in the `spend-…`
partition of who spent it: amount, asset, network and transaction, nothing that was said.
"""

from control.context import ControlContext
from facts import codec
from facts.events import SpendReleased, SpendReserved
from facts.payments import Settled, Spending, spend_partition
from polyc.ids import uuid8


def carry(context: ControlContext, spending: Spending, partition: str) -> int:
    """Put what the conversation settled on record; returns how many payments were not, so far. Repeated: none."""
    carried = 0
    for fact in spending.payments(partition=partition):
        spender = fact.persona or fact.payer
        known = spending.recorded(fact, subject=spender)
        if known is None or known.is_open:
            _append(context, spender, _ended(fact, is_open=known is not None))
            carried += 1
        # A wallet's budget must find it too, when the reservation did not say who pays.
        silent = known is not None and not known.names_payer
        if silent and spending.recorded(fact, subject=fact.payer) is None:
            _append(context, fact.payer, _ended(fact, is_open=False))
    return carried


def _append(context: ControlContext, subject: str, events: list[SpendReserved | SpendReleased]) -> None:
    context.control.append(spend_partition(subject), [codec.encode(event) for event in events])


def _ended(fact: Settled, *, is_open: bool) -> list[SpendReserved | SpendReleased]:
    """The end of the payment's own reservation, or of one that is made for it."""
    reservation_id = fact.reservation_id if is_open and fact.reservation_id else uuid8("carried", fact.nonce)
    released = SpendReleased(
        id=uuid8("carried_settled", fact.nonce),
        reservation_id=reservation_id,
        outcome="settled",
        network=fact.network,
        transaction=fact.nonce.removeprefix(f"{fact.network} "),
    )
    if is_open:
        return [released]
    reserved = SpendReserved(
        id=reservation_id,
        reservation_id=reservation_id,
        conversation_id=fact.partition,
        tool_call_id="carried",
        amount_base_units=str(fact.amount),
        asset=fact.asset,
        network=fact.network,
        payer=fact.payer,
    )
    return [reserved, released]
