"""The tables `query_audit_intents` and `query_audit_outcomes`: what was asked, and the one outcome of each."""

import msgspec

from facts.events import QueryIntent, QueryOutcome
from facts.fold import Row, Rows
from facts.place import Place


class QueryAudit(msgspec.Struct):
    """The fold of `query-audit-…`: the first outcome of a query counts, a second is an anomaly."""

    intents: list[Row] = []
    outcomes: list[Row] = []
    open: set[str] = set()
    closed: set[str] = set()

    def apply(self, event: QueryIntent | QueryOutcome, place: Place) -> str | None:
        """Take an intent or an outcome."""
        return self._intend(event, place) if isinstance(event, QueryIntent) else self._conclude(event, place)

    def _intend(self, event: QueryIntent, place: Place) -> str | None:
        if event.query_id in self.open or event.query_id in self.closed:
            return "repeated_intent"
        self.open.add(event.query_id)
        self.intents.append(
            (
                *place.row,
                event.query_id,
                event.credential_id,
                event.subject,
                event.realm,
                event.scope_size,
                event.surface,
                event.statement,
                event.statement_sha256,
                event.as_of,
                place.when(event),
            )
        )
        return None

    def _conclude(self, event: QueryOutcome, place: Place) -> str | None:
        if event.query_id in self.closed:
            return "repeated_outcome"
        kind = None if event.query_id in self.open else "outcome_without_intent"
        self.open.discard(event.query_id)
        self.closed.add(event.query_id)
        self.outcomes.append(
            (
                *place.row,
                event.query_id,
                event.status,
                event.error_code,
                event.row_count,
                event.byte_count,
                event.truncated,
                event.elapsed_ms,
                event.as_of,
                place.when(event),
            )
        )
        return kind

    def rows(self) -> Rows:
        """The rows of both tables."""
        return {"query_audit_intents": list(self.intents), "query_audit_outcomes": list(self.outcomes)}
