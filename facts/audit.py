"""The query audit's two events as drafts; all that the Query plane may append. Their fold is `facts.query_audit`."""

from datetime import datetime

from facts.codec import encode
from facts.events import QueryIntent, QueryOutcome, QueryStatus, Surface
from polyc.appending import Draft


def query_intent(
    *,
    event_id: str,
    occurred_at: datetime,
    query_id: str,
    credential_id: str,
    subject: str,
    realm: str,
    surface: Surface,
    statement: str,
    statement_sha256: str,
    scope_size: int | None = None,
    as_of: int | None = None,
) -> Draft:
    """What is recorded before a query runs, also of one that is then refused; the statement is cut by the caller."""
    return encode(
        QueryIntent(
            id=event_id,
            occurred_at=occurred_at,
            query_id=query_id,
            credential_id=credential_id,
            subject=subject,
            realm=realm,
            surface=surface,
            statement=statement,
            statement_sha256=statement_sha256,
            scope_size=scope_size,
            as_of=as_of,
        )
    )


def query_outcome(
    *,
    event_id: str,
    occurred_at: datetime,
    query_id: str,
    status: QueryStatus,
    error_code: str | None = None,
    row_count: int | None = None,
    byte_count: int | None = None,
    truncated: bool | None = None,
    elapsed_ms: int | None = None,
    as_of: int | None = None,
) -> Draft:
    """The one outcome of a query, whatever happened."""
    return encode(
        QueryOutcome(
            id=event_id,
            occurred_at=occurred_at,
            query_id=query_id,
            status=status,
            error_code=error_code,
            row_count=row_count,
            byte_count=byte_count,
            truncated=truncated,
            elapsed_ms=elapsed_ms,
            as_of=as_of,
        )
    )
