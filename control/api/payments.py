"""Paid calls: reserve before paying, show the receipt after; budgets and prices for admins."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from control import money
from control.api.operation import Call, Nothing, Operation, Wire
from control.spending import Ask

BaseUnits = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,37})$")]
Word = Annotated[str, Field(min_length=1, max_length=256)]
Price = Annotated[str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{1,12})?$")]


class PaymentBody(Wire):
    """What a call is asked to pay (x402); amounts are whole base units in decimal text."""

    tool_call_id: Word
    amount_base_units: BaseUnits
    asset: Word
    network: Word
    payee: Word
    resource: Annotated[str, Field(min_length=1, max_length=2048)]
    tool_name: Word | None = None
    decimals: int | None = Field(default=None, ge=0, le=77)
    payer: Word | None = None
    scheme: Word | None = None


class PaymentAnswer(Wire):
    """Pay only when it is `reserved`."""

    outcome: Literal["reserved", "refused"]
    reservation_id: str | None


class ReceiptBody(Wire):
    """A receipt as it was received."""

    tool_call_id: Word
    format: Literal["jws", "eip712"]
    receipt: Annotated[str, Field(min_length=1, max_length=16 * 1024)]
    reference: Word | None = None


class ReceiptAnswer(Wire):
    """Whether the receipt settled its payment; why not is for the fleet's tables."""

    settled: bool


class BudgetBody(Wire):
    """What a subject may spend of an asset, in a sliding window or for ever."""

    subject_kind: Literal["persona", "wallet", "conversation"]
    subject: Word
    asset: Word
    network: Word
    amount_base_units: BaseUnits
    window_s: int | None = Field(default=None, gt=0, lt=2**31)


class PriceBody(Wire):
    """What a million tokens cost from a day on."""

    model: Word
    valid_from: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    input_per_million: Price | None = None
    output_per_million: Price | None = None
    cache_read_per_million: Price | None = None
    cache_write_per_million: Price | None = None


def payment(call: Call) -> BaseModel:
    """Reserve, or refuse on record."""
    body: PaymentBody = call.body
    ask = Ask(**{**body.model_dump(), "amount_base_units": int(body.amount_base_units)})
    reservation_id = call.service.spending.reserve(call.dispatch, ask)
    return PaymentAnswer(outcome="refused" if reservation_id is None else "reserved", reservation_id=reservation_id)


def receipt(call: Call) -> BaseModel:
    """Record the receipt; late ones too."""
    body: ReceiptBody = call.body
    settled = call.service.spending.receive(
        call.dispatch,
        tool_call_id=body.tool_call_id,
        form=body.format,
        receipt=body.receipt,
        reference=body.reference,
    )
    return ReceiptAnswer(settled=settled)


def budget(call: Call) -> BaseModel:
    """Set a budget."""
    body: BudgetBody = call.body
    money.set_budget(call.context, **{**body.model_dump(), "amount_base_units": int(body.amount_base_units)})
    return Nothing()


def price(call: Call) -> BaseModel:
    """Set a price."""
    body: PriceBody = call.body
    money.set_price(call.context, **body.model_dump())
    return Nothing()


OPERATIONS = [
    Operation(
        name="edge_payment",
        method="POST",
        path="/api/edge/payments",
        access="dispatch",
        summary="A call is asked to pay: reserve within the budgets, or be refused on record.",
        body=PaymentBody,
        answer=PaymentAnswer,
        handle=payment,
    ),
    Operation(
        name="edge_receipt",
        method="POST",
        path="/api/edge/receipts",
        access="late_dispatch",
        summary="A receipt came; also a little after the turn's end, because money spent counts.",
        body=ReceiptBody,
        answer=ReceiptAnswer,
        handle=receipt,
    ),
    Operation(
        name="set_budget",
        method="POST",
        path="/api/budgets",
        access="admin",
        summary="Set what a persona, a conversation or a wallet may spend of an asset.",
        body=BudgetBody,
        answer=Nothing,
        handle=budget,
    ),
    Operation(
        name="set_price",
        method="POST",
        path="/api/prices",
        access="admin",
        summary="Set what a model's tokens cost from a day on.",
        body=PriceBody,
        answer=Nothing,
        handle=price,
    ),
]
