"""What an admin says of money: budgets of personas, conversations and wallets, and what models' tokens cost."""

from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Final, Literal

from control.context import ControlContext
from control.participation import check_conversation
from control.personas import find_persona
from control.spending import BUDGETS_PARTITION
from facts import codec
from facts.events import BudgetSet, PriceSet
from polyc.errors import RefusedError
from polyc.ids import check_persona

PRICES_PARTITION: Final = "prices"


def set_budget(
    context: ControlContext,
    *,
    subject_kind: Literal["persona", "wallet", "conversation"],
    subject: str,
    asset: str,
    network: str,
    amount_base_units: int,
    window_s: int | None,
) -> None:
    """The last budget of a subject, asset and network counts; 0 forbids all spending.

    A budget of a persona or conversation that nobody ever recorded is refused: a misspelt name would bound nobody.
    """
    if not 0 <= amount_base_units < 10**38:
        raise RefusedError("a budget is a whole number from 0 to 38 digits")
    if window_s is not None and not 0 < window_s < 2**31:
        raise RefusedError("a window is 1 second or longer, below 2^31")
    _check_subject(context, subject_kind, subject)
    event = BudgetSet(
        id=context.new_id(),
        subject_kind=subject_kind,
        subject=subject,
        asset=asset,
        network=network,
        amount_base_units=str(amount_base_units),
        window_s=window_s,
        acted_by=context.acted_by,
    )
    context.control.append(BUDGETS_PARTITION, [codec.encode(event)])


def set_price(
    context: ControlContext,
    *,
    model: str,
    valid_from: str,
    currency: str,
    input_per_million: str | None,
    output_per_million: str | None,
    cache_read_per_million: str | None,
    cache_write_per_million: str | None,
) -> None:
    """What a million tokens of a model cost from a day on; money is decimal text."""
    try:
        date.fromisoformat(valid_from)
        for value in (input_per_million, output_per_million, cache_read_per_million, cache_write_per_million):
            if value is not None and not 0 <= Decimal(value) < 10**9:
                raise RefusedError("a price is between 0 and 10^9")
    except (ValueError, InvalidOperation):
        raise RefusedError("a day is YYYY-MM-DD and a price decimal text") from None
    event = PriceSet(
        id=context.new_id(),
        model=model,
        valid_from=valid_from,
        currency=currency,
        input_per_million=input_per_million,
        output_per_million=output_per_million,
        cache_read_per_million=cache_read_per_million,
        cache_write_per_million=cache_write_per_million,
        acted_by=context.acted_by,
    )
    context.control.append(PRICES_PARTITION, [codec.encode(event)])


def _check_subject(context: ControlContext, kind: str, subject: str) -> None:
    if kind == "persona" and find_persona(context, check_persona(subject)) is None:
        raise RefusedError("no such persona", code="not_found", hint="polyc persona list")
    if kind == "conversation":
        with context.index.view() as state:
            known = check_conversation(subject) in state.personas.conversations
        if not known:
            raise RefusedError("no such conversation", code="not_found")
