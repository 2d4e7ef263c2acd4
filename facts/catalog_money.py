"""The tables of approvals, payments, wallets and budgets.

`payments` holds settled ones only: every check of the receipt passed. What failed which check stands in the
fleet's `settlement_verdicts`.
"""

from typing import Final

from facts.columns import ACTED_BY, FLEET_PLACE, TURN_PLACE, Table, amount, number, text, time, word

_CALL: Final = "the call, as in `tool_calls`"

APPROVALS: Final = Table(
    name="approvals",
    realm="participant",
    gated=True,
    family="row",
    description="One row a request for approval, with its one outcome; NULL while nobody decided.",
    example="SELECT tool_name, outcome, COUNT(*) AS requests FROM approvals GROUP BY tool_name, outcome",
    columns=(
        *TURN_PLACE,
        text("request_id", "the call that waits: equals its `tool_call_id`"),
        word("tool_name", "the tool"),
        word("outcome", "`approved`, `denied`, `expired` or `cancelled`"),
        time("requested_at", "when it was asked"),
        time("decided_at", "when it was decided"),
        word("decided_by", "the persona that decided"),
        word("reason", "why, as a code"),
        text("native_request_id", "the provider's own id of the call"),
    ),
)

PAYMENTS: Final = Table(
    name="payments",
    realm="participant",
    gated=True,
    family="row",
    description="One row a settled payment: the receipt's signature and every other check passed.",
    example=(
        "SELECT p.reference, p.amount_base_units, p.asset, a.tool_name, a.outcome FROM payments p JOIN approvals a "
        "ON a.request_id = p.tool_call_id ORDER BY p.position DESC"
    ),
    columns=(
        *TURN_PLACE,
        text("tool_call_id", _CALL),
        text("reference", "the transaction on its network"),
        amount("amount_base_units", "what was paid"),
        word("asset", "the asset's id"),
        number("decimals", "digits after the point of one whole unit", "digits"),
        word("network", "the network (CAIP-2)"),
        word("scheme", "the payment scheme"),
        text("payer", "the paying account"),
        text("payee", "the paid account"),
        time("settled_at", "the receipt's own time of issue"),
        text("native_tool_call_id", "the provider's own id of the call"),
    ),
)

SETTLEMENT_VERDICTS: Final = Table(
    name="settlement_verdicts",
    realm="fleet",
    gated=True,
    family="row",
    description="One row a receipt: which check it failed, or `settled`.",
    example="SELECT verdict, COUNT(*) AS receipts FROM settlement_verdicts GROUP BY verdict",
    columns=(
        *TURN_PLACE,
        text("tool_call_id", _CALL),
        text("reference", "the transaction that the receipt names"),
        word(
            "verdict",
            "`settled`, `bad_signature`, `unknown_key`, `revoked_key`, `wrong_payer`, `wrong_resource`, "
            "`amount_mismatch`, `duplicate`, `unapproved`, `expired`, `malformed`, `unsupported_format`",
        ),
        word("detail", "which part of the check, as a code"),
        word("key_id", "the key that the receipt names"),
        text("receipt_sha256", "digest of the receipt (hex)"),
    ),
)

WALLET_LINK_LIFECYCLE: Final = Table(
    name="wallet_link_lifecycle",
    realm="participant",
    gated=False,
    family="row",
    description="One row a step of a ceremony that links a wallet; ceremonies run outside any turn.",
    example="SELECT wallet, state, recorded_at FROM wallet_link_lifecycle ORDER BY position",
    columns=(
        *TURN_PLACE,
        text("wallet", "the wallet's account"),
        word("network", "its network (CAIP-2)"),
        word("state", "`requested`, `challenged`, `linked`, `revoked` or `failed`"),
        word("persona_id", "the persona"),
        word("reason", "why, as a code"),
    ),
)

BUDGETS: Final = Table(
    name="budgets",
    realm="fleet",
    gated=False,
    family="state",
    key=("subject_kind", "subject", "asset", "network"),
    description="One row what a subject may spend of an asset in a window; the last word counts.",
    example="SELECT subject, asset, amount_base_units FROM budgets ORDER BY subject, asset",
    columns=(
        *FLEET_PLACE,
        word("subject_kind", "`persona`, `wallet` or `conversation`"),
        word("subject", "whose budget"),
        word("asset", "the asset"),
        word("network", "its network"),
        amount("amount_base_units", "the bound"),
        number("window_s", "length of the sliding window; NULL = for ever", "s"),
        ACTED_BY,
    ),
)

RESERVATIONS: Final = Table(
    name="reservations",
    realm="fleet",
    gated=False,
    family="state",
    key=("partition", "reservation_id"),
    description="One row a call that meant to pay: it counts as spent while it is open (ruling 19).",
    example="SELECT asset, SUM(amount_base_units) AS open FROM reservations WHERE status = 'open' GROUP BY asset",
    columns=(
        *FLEET_PLACE,
        word("reservation_id", "its id"),
        word("conversation_partition", "the conversation that pays"),
        text("tool_call_id", "the call that pays: conversation-qualified"),
        amount("amount_base_units", "what it means to pay"),
        word("asset", "the asset"),
        word("network", "its network"),
        word("status", "`open`, `settled`, `released` or `expired`"),
        time("expires_at", "until when it was meant to hold"),
        text("reference", "the transaction that settled it"),
        text("payer", "the account that it means to pay from; NULL = it did not say"),
    ),
)

PRICES: Final = Table(
    name="prices",
    realm="fleet",
    gated=False,
    family="state",
    key=("model", "valid_from", "currency"),
    description="One row what a model's tokens cost from a day on; decimal text, per million tokens.",
    example="SELECT model, input_per_million FROM prices ORDER BY model, valid_from",
    columns=(
        *FLEET_PLACE,
        word("model", "the model's name"),
        word("valid_from", "the first day (UTC)"),
        word("currency", "ISO 4217"),
        text("input_per_million", "of uncached input"),
        text("output_per_million", "of output"),
        text("cache_read_per_million", "of cached input"),
        text("cache_write_per_million", "of input written to a cache"),
        ACTED_BY,
    ),
)

TABLES: Final = (APPROVALS, PAYMENTS, SETTLEMENT_VERDICTS, WALLET_LINK_LIFECYCLE, BUDGETS, RESERVATIONS, PRICES)
