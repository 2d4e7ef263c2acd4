"""Events of the deployment: personas, budgets, routines, credentials, query audit, notices, imports, the user tier.

`acted_by` is the credential id of the session that asked for the change; None when it was asked on the machine itself
(the command line) or by no one (an expiry, an import).
"""

from typing import Literal

from facts.events_base import Event, Instant, Integer


class PersonaRecorded(Event, frozen=True, gc=False, kw_only=True, tag="persona_recorded"):
    """A persona exists (or changed): the last record of a persona id wins."""

    persona_id: str
    display_name: str | None = None
    state: Literal["active", "suspended"] = "active"
    is_admin: bool = False
    acted_by: str | None = None


class ParticipantJoined(Event, frozen=True, gc=False, kw_only=True, tag="participant_joined"):
    """The persona participates in this conversation from here on (and may read all of it, ruling 15)."""

    persona_id: str
    acted_by: str | None = None


class ParticipantLeft(Event, frozen=True, gc=False, kw_only=True, tag="participant_left"):
    """The persona no longer participates."""

    persona_id: str
    acted_by: str | None = None


class BudgetSet(Event, frozen=True, gc=False, kw_only=True, tag="budget_set"):
    """What a subject may spend of an asset in a window; the last record of (subject, asset, network) wins."""

    subject_kind: Literal["persona", "wallet", "conversation"]
    subject: str
    asset: str
    network: str
    amount_base_units: str
    window_s: Integer | None = None
    acted_by: str | None = None


class SpendReserved(Event, frozen=True, gc=False, kw_only=True, tag="spend_reserved"):
    """A call intends to pay; counts as spent until it is settled or released.

    `payer` is the account it means to pay from; without one it counts against the budget of every wallet.
    """

    reservation_id: str
    conversation_id: str
    tool_call_id: str
    amount_base_units: str
    asset: str
    network: str
    expires_at: Instant | None = None
    payer: str | None = None


class SpendReleased(Event, frozen=True, gc=False, kw_only=True, tag="spend_released"):
    """A reservation ends: settled (with its receipt's transaction) or given back."""

    reservation_id: str
    outcome: Literal["settled", "released", "expired"]
    network: str | None = None
    transaction: str | None = None


class PriceSet(Event, frozen=True, gc=False, kw_only=True, tag="price_set"):
    """What a model's tokens cost from a day on; money per million tokens, decimal text."""

    model: str
    valid_from: str
    currency: str
    input_per_million: str | None = None
    output_per_million: str | None = None
    cache_read_per_million: str | None = None
    cache_write_per_million: str | None = None
    acted_by: str | None = None


class RoutineRecorded(Event, frozen=True, gc=False, kw_only=True, tag="routine_recorded"):
    """A scheduled run of a conversation is defined (or changed)."""

    routine: str
    conversation_id: str
    schedule: str
    prompt: str
    persona_id: str | None = None
    state: Literal["active", "paused", "deleted"] = "active"


class RoutineRun(Event, frozen=True, gc=False, kw_only=True, tag="routine_run"):
    """A routine's run started or ended; the last record of a run id wins."""

    run_id: str
    routine: str
    trigger: str
    status: Literal["started", "completed", "failed", "cancelled"]
    started_at: Instant | None = None
    ended_at: Instant | None = None


class RoutineStep(Event, frozen=True, gc=False, kw_only=True, tag="routine_step"):
    """One step of a run."""

    run_id: str
    step: Integer
    action: str
    status: str
    detail: str | None = None


class Credential(Event, frozen=True, gc=False, kw_only=True, tag="credential"):
    """A session, grant or key was minted, rotated, revoked or expired. Never a secret, never a token.

    `secret_sha256` is set for sessions alone: an opaque bearer is found by its hash.
    """

    credential_id: str
    kind: Literal["session", "grant", "key"]
    subject: str
    event: Literal["minted", "rotated", "revoked", "expired"]
    realm: str | None = None
    scope_size: Integer | None = None
    expires_at: Instant | None = None
    secret_sha256: str | None = None
    acted_by: str | None = None


Surface = Literal["execute", "tool", "dashboard", "search", "language", "mcp"]
QueryStatus = Literal["ok", "refused", "failed", "cancelled", "unknown"]


class QueryIntent(Event, frozen=True, gc=False, kw_only=True, tag="query_intent"):
    """Recorded before a query runs; also for one that is then refused. `as_of` is a checkpoint size."""

    query_id: str
    credential_id: str
    subject: str
    realm: str
    surface: Surface
    statement: str
    statement_sha256: str
    scope_size: Integer | None = None
    as_of: Integer | None = None


class QueryOutcome(Event, frozen=True, gc=False, kw_only=True, tag="query_outcome"):
    """Exactly one an intent, whatever happened; `unknown` is written by the next start."""

    query_id: str
    status: QueryStatus
    error_code: str | None = None
    row_count: Integer | None = None
    byte_count: Integer | None = None
    truncated: bool | None = None
    elapsed_ms: Integer | None = None
    as_of: Integer | None = None


class Gap(Event, frozen=True, gc=False, kw_only=True, tag="gap"):
    """Something is known to be missing."""

    detail: str
    partition: str | None = None


class Recovery(Event, frozen=True, gc=False, kw_only=True, tag="recovery"):
    """A torn tail was cut, a backup restored: what was done and from which index on."""

    detail: str
    from_index: Integer


class Erased(Event, frozen=True, gc=False, kw_only=True, tag="erased"):
    """The content of an event (or of a whole conversation: position None) was erased; the fact stays."""

    partition: str
    incarnation: str
    position: Integer | None = None
    reason: str = ""


class ImportQuarantined(Event, frozen=True, gc=False, kw_only=True, tag="import_quarantined"):
    """A line that could not be read: where it stands and why; never its content."""

    provider: str
    path: str
    offset: Integer
    size_bytes: Integer
    reason: str
    sha256: str | None = None


class Assertion(Event, frozen=True, gc=False, kw_only=True, tag="assertion"):
    """The user tier: somebody claims something of a conversation (query-language.md)."""

    assertion_id: str
    kind: str
    state: Literal[
        "active", "candidate", "accepted", "rejected", "deferred", "superseded", "deleted", "inactive"
    ]  # fmt: skip
    author_kind: Literal["person", "agent", "rule"]
    text: str | None = None
    target_message_id: str | None = None


class SessionTag(Event, frozen=True, gc=False, kw_only=True, tag="session_tag"):
    """A tag put on or taken off a conversation."""

    tag: str
    state: Literal["set", "removed"] = "set"
    persona_id: str | None = None
