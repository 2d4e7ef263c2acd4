"""Events of an edge: approvals, payments, refusals, identities, wallets."""

from typing import Literal

from facts.events_base import EdgeEvent, Instant, Integer


class ApprovalRequested(EdgeEvent, frozen=True, gc=False, kw_only=True, tag="approval_requested"):
    """A call waits for a person. `request_id` is the tool call's id."""

    request_id: str
    tool_name: str
    expires_at: Instant | None = None


class ApprovalDecided(EdgeEvent, frozen=True, gc=False, kw_only=True, tag="approval_decided"):
    """The one outcome of a request; `reason` is an enum-like code, never free text of a person."""

    request_id: str
    outcome: Literal["approved", "denied", "expired", "cancelled"]
    decided_by: str | None = None
    reason: str | None = None


class PaymentRequired(EdgeEvent, frozen=True, gc=False, kw_only=True, tag="payment_required"):
    """What a call was asked to pay, as the edge saw it; receipts are judged against it."""

    tool_call_id: str
    amount_base_units: str
    asset: str
    network: str
    payee: str
    resource: str
    decimals: Integer | None = None
    payer: str | None = None
    scheme: str | None = None
    expires_at: Instant | None = None
    reservation_id: str | None = None


class PaymentReceipt(EdgeEvent, frozen=True, gc=False, kw_only=True, tag="payment_receipt"):
    """A receipt of the x402 offer-and-receipt extension, as received.

    `settled_in` is the conversation where its transaction had settled a payment before this receipt came in.
    """

    tool_call_id: str
    format: str
    receipt: str
    reference: str | None = None
    settled_in: str | None = None


class Refusal(EdgeEvent, frozen=True, gc=False, kw_only=True, tag="refusal"):
    """A blocked attempt; recorded whether or not its turn is ever committed."""

    request_id: str
    stage: Literal["policy", "budget", "approval", "sandbox"]
    tool_call_id: str | None = None
    tool_name: str | None = None
    rule: str | None = None
    reason: str | None = None


class MessageWithheld(EdgeEvent, frozen=True, gc=False, kw_only=True, tag="message_withheld"):
    """Marks a message as never sent to a client: it leaves `messages` and stands in `messages_withheld`."""

    message_id: str
    reason: str


class IdentityAsserted(EdgeEvent, frozen=True, gc=False, kw_only=True, tag="identity_asserted"):
    """Who asserted which identity for a persona on which edge."""

    persona_id: str
    identity: str
    asserted_by: str
    edge: str
    method: str


class WalletLink(EdgeEvent, frozen=True, gc=False, kw_only=True, tag="wallet_link"):
    """A step of a wallet-link ceremony; runs outside any turn."""

    wallet: str
    network: str
    state: Literal["requested", "challenged", "linked", "revoked", "failed"]
    persona_id: str | None = None
    reason: str | None = None
