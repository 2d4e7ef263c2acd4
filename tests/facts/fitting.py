"""Whether rows fit the columns of their tables: as the content digest and the artifact's writer would take them."""

from artifacts.layout import spec_of
from artifacts.schema import arrow_schema, rows_to_arrow
from facts.catalog import TABLES
from facts.partition import resume_fold
from projector.content import ContentDigests
from tests.facts.journal import TRUST, fold_of

SPECS = [spec_of(table) for table in TABLES.values()]


def published(rows) -> dict[str, int]:
    """Turns rows into what is published of them, which raises for a value that fits no column; rows by table."""
    for family in ("row", "state"):
        ContentDigests(SPECS).of(rows, family=family)
    return {
        spec.name: rows_to_arrow(rows[spec.name], arrow_schema(spec)).num_rows for spec in SPECS if rows.get(spec.name)
    }


def fitting(journal, trust=TRUST):
    """The rows of a journal, which all fit, also after the fold was put to sleep and woken."""
    fold = fold_of(journal.records, trust, partition=journal.partition)
    rows = fold.rows()
    assert resume_fold(journal.partition, trust, fold.snapshot()).rows() == rows
    published(rows)
    return rows
