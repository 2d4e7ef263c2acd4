"""The fleet's tables: keys, personas, credentials, query audit, routines, anomalies, imports, journal notices.

No participant grant can name one. They carry their own keys and, like every row, the place of the event behind them.
"""

from typing import Final

from facts.columns import ACTED_BY, FLEET_PLACE, PLACE, TURN_PLACE, Column, Table, flag, number, text, time, word

SIGNER_KEYS: Final = Table(
    name="signer_keys",
    realm="fleet",
    gated=False,
    family="state",
    key=("key_id",),
    description="One row a key that the log named, with the range of log indexes in which it holds its role.",
    example="SELECT key_id, role, valid_from, revoked_at FROM signer_keys ORDER BY valid_from, key_id",
    columns=(
        *FLEET_PLACE,
        word("key_id", "the key's id (hex)"),
        word("algorithm", "`Ed25519`"),
        Column(name="public_key", type="BLOB", description="the raw public key"),
        word("role", "what it may sign"),
        number("valid_from", "first global log index at which it acts", "log index"),
        number("revoked_at", "first log index at which it no longer does; NULL = it still acts", "log index"),
        word("name", "the operator's name for it"),
    ),
)

IDENTITY_PROVENANCE: Final = Table(
    name="identity_provenance",
    realm="fleet",
    gated=False,
    family="row",
    description="One row an assertion on an edge of who a participant is.",
    example="SELECT persona_id, asserted_by, method FROM identity_provenance ORDER BY asserted_at",
    columns=(
        *TURN_PLACE,
        word("persona_id", "the persona"),
        text("identity", "the identity that was asserted"),
        word("asserted_by", "who asserted it"),
        word("edge", "on which edge"),
        word("method", "how"),
        time("asserted_at", "when"),
    ),
)

ROUTINES: Final = Table(
    name="routines",
    realm="fleet",
    gated=False,
    family="state",
    key=("routine",),
    description="One row a routine as last recorded.",
    example="SELECT routine, schedule, state FROM routines ORDER BY routine",
    columns=(
        *FLEET_PLACE,
        word("routine", "its name"),
        word("conversation_partition", "the conversation it runs in"),
        word("schedule", "when it runs"),
        text("prompt", "what it says"),
        word("persona_id", "on whose behalf"),
        word("state", "`active`, `paused` or `deleted`"),
    ),
)

ROUTINE_RUNS: Final = Table(
    name="routine_runs",
    realm="fleet",
    gated=False,
    family="state",
    key=("run_id",),
    description="One row a run of a routine, in its last state.",
    example="SELECT routine, status, COUNT(*) AS runs FROM routine_runs GROUP BY routine, status",
    columns=(
        *FLEET_PLACE,
        text("run_id", "its id"),
        word("routine", "the routine"),
        word("trigger", "what started it"),
        word("status", "`started`, `completed`, `failed` or `cancelled`"),
        time("started_at", "when it started"),
        time("ended_at", "when it ended"),
    ),
)

ROUTINE_STEPS: Final = Table(
    name="routine_steps",
    realm="fleet",
    gated=False,
    family="row",
    description="One row a recorded step of a run.",
    example="SELECT run_id, step, action, status FROM routine_steps ORDER BY run_id, step",
    columns=(
        *FLEET_PLACE,
        text("run_id", "the run"),
        number("step", "its number", "step"),
        word("action", "what was done"),
        word("status", "how it went"),
        text("detail", "more of it"),
    ),
)

PERSONAS: Final = Table(
    name="personas",
    realm="fleet",
    gated=False,
    family="state",
    key=("persona_id",),
    description="One row a persona as last recorded.",
    example="SELECT persona_id, state, is_admin FROM personas ORDER BY persona_id",
    columns=(
        *FLEET_PLACE,
        word("persona_id", "its id"),
        text("display_name", "its name"),
        word("state", "`active` or `suspended`"),
        flag("is_admin", "whether it may ask for fleet grants"),
        ACTED_BY,
    ),
)

PERSONA_PARTICIPATION: Final = Table(
    name="persona_participation",
    realm="fleet",
    gated=False,
    family="state",
    key=("partition", "persona_id"),
    description="One row a persona and a conversation that its participation records name.",
    example=(
        "SELECT persona_id, COUNT(*) AS conversations FROM persona_participation WHERE left_at IS NULL GROUP BY "
        "persona_id"
    ),
    columns=(
        *PLACE,
        word("persona_id", "the persona"),
        time("joined_at", "when it joined (last)"),
        time("left_at", "when it left; NULL = it participates"),
        number("joined_index", "log index of the record by which it joined", "log index"),
        number("last_index", "log index of the record that made the row what it is", "log index"),
        ACTED_BY,
    ),
)

CREDENTIAL_HISTORY: Final = Table(
    name="credential_history",
    realm="fleet",
    gated=False,
    family="row",
    description="One row an event of a session, grant or key. Never a secret, never a token.",
    example="SELECT kind, event, COUNT(*) AS events FROM credential_history GROUP BY kind, event",
    columns=(
        *FLEET_PLACE,
        text("credential_id", "its id"),
        word("kind", "`session`, `grant` or `key`"),
        word("subject", "whose"),
        word("event", "`minted`, `rotated`, `revoked` or `expired`"),
        word("realm", "which tables it may name"),
        number("scope_size", "how many conversations it admits; NULL = all", "conversations"),
        time("at", "when"),
        time("expires_at", "until when it holds"),
        ACTED_BY,
    ),
)

QUERY_AUDIT_INTENTS: Final = Table(
    name="query_audit_intents",
    realm="fleet",
    gated=False,
    family="row",
    description="One row a query, recorded before it ran: also those that were then refused.",
    example="SELECT subject, surface, statement FROM query_audit_intents ORDER BY requested_at DESC LIMIT 5",
    columns=(
        *FLEET_PLACE,
        text("query_id", "the query's id"),
        text("credential_id", "the grant"),
        word("subject", "who asked"),
        word("realm", "which tables the grant may name"),
        number("scope_size", "how many conversations it admits; NULL = all", "conversations"),
        word("surface", "`execute`, `tool`, `dashboard`, `search`, `language` or `mcp`"),
        text("statement", "the statement, cut to the audit's bound"),
        text("statement_sha256", "digest of the whole statement (hex)"),
        number("as_of", "checkpoint size that the answer stands on", "log index"),
        time("requested_at", "when"),
    ),
)

QUERY_AUDIT_OUTCOMES: Final = Table(
    name="query_audit_outcomes",
    realm="fleet",
    gated=False,
    family="row",
    description="One row the one outcome of a query; an intent without one has no recorded result.",
    example="SELECT status, COUNT(*) AS queries FROM query_audit_outcomes GROUP BY status",
    columns=(
        *FLEET_PLACE,
        text("query_id", "the query's id"),
        word("status", "`ok`, `refused`, `failed`, `cancelled` or `unknown`"),
        word("error_code", "Connect's code of the error"),
        number("row_count", "rows sent", "rows"),
        number("byte_count", "bytes sent", "bytes"),
        flag("truncated", "whether a limit cut the answer"),
        number("elapsed_ms", "how long it took", "ms"),
        number("as_of", "checkpoint size that the answer stands on", "log index"),
        time("finished_at", "when"),
    ),
)

ANOMALIES: Final = Table(
    name="anomalies",
    realm="fleet",
    gated=False,
    family="state",
    key=("partition", "kind", "detail_code"),
    description="One row a kind of event that was kept but folded into nothing, counted; never its content.",
    example="SELECT kind, detail_code, SUM(event_count) AS events FROM anomalies GROUP BY kind, detail_code",
    columns=(
        *TURN_PLACE,
        word(
            "kind",
            "`outside_turn`, `after_end`, `unknown_dispatch`, `unauthorised`, `unknown_event`, `repeated_marker`, …",
        ),
        word("detail_code", "the event's type, or more of the kind"),
        number("event_count", "how many", "events"),
        Column(name="first_position", type="UBIGINT", description="where the first stands"),
    ),
)

IMPORT_QUARANTINE: Final = Table(
    name="import_quarantine",
    realm="fleet",
    gated=False,
    family="row",
    description="One row a line of a foreign history that could not be read: where and why, never its content.",
    example="SELECT path, byte_offset, reason FROM import_quarantine ORDER BY path, byte_offset",
    columns=(
        *FLEET_PLACE,
        word("provider", "whose format"),
        word("path", "the file"),
        number("byte_offset", "where the line begins", "bytes"),
        number("size_bytes", "how long it is", "bytes"),
        word("reason", "why it could not be read"),
        text("sha256", "digest of the line (hex)"),
    ),
)

JOURNAL_NOTICES: Final = Table(
    name="journal_notices",
    realm="fleet",
    gated=False,
    family="row",
    description="One row an honest record of the journal about itself: a gap, a recovery, an erasure.",
    example="SELECT kind, target_partition, detail FROM journal_notices ORDER BY position",
    columns=(
        *FLEET_PLACE,
        word("kind", "`gap`, `recovery` or `erased`"),
        word("target_partition", "the partition it is about"),
        word("target_incarnation", "its incarnation (hex)"),
        number("target_position", "the event's position; NULL = all of it"),
        number("from_index", "the first log index it is about", "log index"),
        text("detail", "what happened"),
    ),
)

TABLES: Final = (
    SIGNER_KEYS,
    IDENTITY_PROVENANCE,
    ROUTINES,
    ROUTINE_RUNS,
    ROUTINE_STEPS,
    PERSONAS,
    PERSONA_PARTICIPATION,
    CREDENTIAL_HISTORY,
    QUERY_AUDIT_INTENTS,
    QUERY_AUDIT_OUTCOMES,
    ANOMALIES,
    IMPORT_QUARANTINE,
    JOURNAL_NOTICES,
)
