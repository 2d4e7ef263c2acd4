"""Puts a serving Control together: the context, the Query edge it asks, and what its turns need."""

from dataclasses import replace

from control.context import ControlContext
from control.ports import JournalPlane, RedactionPolicy
from control.statement_grants import StatementGrants
from control.statements import Statements
from polyc.clock import Clock
from polyc.dataroot import DataRoot
from polyc.ids import IdSource


def open_control(
    journal: JournalPlane,
    root: DataRoot,
    *,
    clock: Clock,
    ids: IdSource,
    redaction: RedactionPolicy,
    query_url: str,
) -> ControlContext:
    """The context of a Control that serves; `query_url` is the Query edge's base address."""
    context = ControlContext.open(journal, root, clock=clock, ids=ids)
    statements = Statements(query_url, mint=StatementGrants(context).mint)
    return replace(context, redaction=redaction, statements=statements)
