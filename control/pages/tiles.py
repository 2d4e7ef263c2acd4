"""The dashboard's statements. Each is one SELECT over the catalog; each shows its numbers beside its chart.

Cost is computed from the dated price table alone: no price that was valid on the day, no cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

CHART_LABELS_MAX: Final = 60  # days or names on one axis; more cannot be read at 390 px
CHART_SERIES_MAX: Final = 8  # colours that stay apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """How an answer becomes a chart: `label` on the axis, `value` as height, `series` as colour when named."""

    kind: Literal["bar", "line"]
    label: str
    value: str
    series: str | None = None
    horizontal: bool = False

    def data(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Labels and series for the browser, in the answer's order; reversed when it is newest first."""
        at = {name: index for index, name in enumerate(columns)}
        labels = list(dict.fromkeys(str(row[at[self.label]]) for row in rows))[:CHART_LABELS_MAX]
        if not self.horizontal:
            labels.sort()
        names = [self.value]
        if self.series is not None:
            names = list(dict.fromkeys(str(row[at[self.series]]) for row in rows))[:CHART_SERIES_MAX]
        series = {name: [0.0] * len(labels) for name in names}
        place = {label: index for index, label in enumerate(labels)}
        for row in rows:
            name = self.value if self.series is None else str(row[at[self.series]])
            index = place.get(str(row[at[self.label]]))
            if name in series and index is not None and row[at[self.value]] is not None:
                series[name][index] += float(row[at[self.value]])
        return {
            "kind": self.kind,
            "horizontal": self.horizontal,
            "labels": labels,
            "series": [{"name": name, "values": values} for name, values in series.items()],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One tile: a title, its statement and how it is shown."""

    name: str
    title: str
    sql: str
    kind: Literal["figures", "table"] = "table"
    chart: Chart | None = None
    width: Literal["", "full", "third"] = ""
    empty: str = "Nothing yet."


_DAY: Final = "strftime(COALESCE(t.started_at, t.recorded_at), '%Y-%m-%d')"

TILES: Final = (
    Tile(
        name="totals",
        title="The fleet so far",
        kind="figures",
        width="full",
        sql="""SELECT (SELECT COUNT(*) FROM sessions) AS conversations,
       (SELECT COUNT(*) FROM turns) AS turns,
       (SELECT COUNT(*) FROM turns WHERE status <> 'completed') AS "failed or cancelled",
       (SELECT COUNT(*) FROM model_call) AS "model calls",
       (SELECT COUNT(*) FROM tool_calls WHERE block_type = 'call') AS "tool calls",
       (SELECT SUM(input_uncached_tokens) FROM usage) AS "input tokens, uncached",
       (SELECT SUM(cache_read_tokens) FROM usage) AS "input tokens, cached",
       (SELECT SUM(output_tokens) FROM usage) AS "output tokens\"""",
    ),
    Tile(
        name="turns-by-day",
        title="Turns by day",
        chart=Chart(kind="bar", label="day", value="turns", series="status"),
        sql=f"""SELECT {_DAY} AS day, t.status, COUNT(*) AS turns
FROM turns t GROUP BY day, t.status ORDER BY day DESC, t.status LIMIT 180""",
    ),
    Tile(
        name="tokens-by-day",
        title="Output tokens by day and model",
        chart=Chart(kind="bar", label="day", value="output_tokens", series="model"),
        sql=f"""SELECT {_DAY} AS day, u.model, SUM(u.output_tokens) AS output_tokens,
       SUM(u.input_uncached_tokens) AS input_uncached, SUM(u.cache_read_tokens) AS input_cached
FROM usage u JOIN turns t ON t.partition = u.partition AND t.turn_id = u.turn_id
GROUP BY day, u.model ORDER BY day DESC, output_tokens DESC LIMIT 360""",
    ),
    Tile(
        name="models",
        title="Models: calls, tokens, cost",
        width="full",
        sql=f"""SELECT u.model, COUNT(*) AS calls, SUM(u.input_uncached_tokens) AS input_uncached,
       SUM(u.cache_read_tokens) AS cache_read, SUM(u.cache_write_tokens) AS cache_write,
       SUM(u.output_tokens) AS output, p.currency,
       CASE WHEN COUNT(*) = COUNT(p.model) THEN CAST(SUM(
           (COALESCE(u.input_uncached_tokens, 0) * TRY_CAST(p.input_per_million AS DOUBLE)
          + COALESCE(u.cache_read_tokens, 0) * COALESCE(TRY_CAST(p.cache_read_per_million AS DOUBLE), 0)
          + COALESCE(u.cache_write_tokens, 0) * COALESCE(TRY_CAST(p.cache_write_per_million AS DOUBLE), 0)
          + COALESCE(u.output_tokens, 0) * TRY_CAST(p.output_per_million AS DOUBLE)) / 1000000
       ) AS DECIMAL(18,2)) END AS cost
FROM usage u JOIN turns t ON t.partition = u.partition AND t.turn_id = u.turn_id
LEFT JOIN prices p ON p.model = u.model AND p.valid_from = (
    SELECT MAX(q.valid_from) FROM prices q WHERE q.model = u.model AND q.valid_from <= {_DAY})
GROUP BY u.model, p.currency ORDER BY output DESC""",
    ),
    Tile(
        name="harnesses",
        title="Turns by harness",
        chart=Chart(kind="bar", label="harness", value="turns", horizontal=True),
        width="third",
        sql="""SELECT COALESCE(harness, origin) AS harness, COUNT(*) AS turns,
       SUM(duration_ms) AS duration_ms FROM turns GROUP BY ALL ORDER BY turns DESC""",
    ),
    Tile(
        name="personas",
        title="Turns by persona",
        width="third",
        sql="""SELECT p.persona_id, COUNT(DISTINCT p.partition) AS conversations, COUNT(t.turn_id) AS turns
FROM persona_participation p LEFT JOIN turns t ON t.partition = p.partition
WHERE p.left_at IS NULL GROUP BY p.persona_id ORDER BY turns DESC""",
    ),
    Tile(
        name="refusals",
        title="Refusals",
        width="third",
        empty="Nothing was refused.",
        sql="SELECT stage, rule, COUNT(*) AS refusals FROM refusals GROUP BY stage, rule ORDER BY refusals DESC",
    ),
    Tile(
        name="tools",
        title="Tool calls and their failures",
        chart=Chart(kind="bar", label="tool", value="calls", horizontal=True),
        sql="""SELECT name AS tool, COUNT(*) AS calls,
       COUNT(*) FILTER (result_state = 'outcome_error') AS failed,
       COUNT(*) FILTER (result_state = 'no_result') AS unanswered
FROM actions GROUP BY name ORDER BY calls DESC LIMIT 40""",
    ),
    Tile(
        name="approvals",
        title="Approvals, waiting and decided",
        empty="No call has asked for approval.",
        sql="""SELECT tool_name AS tool, COALESCE(outcome, 'waiting') AS outcome, COUNT(*) AS requests
FROM approvals GROUP BY ALL ORDER BY requests DESC""",
    ),
    Tile(
        name="payments",
        title="Payments and verdicts",
        empty="No receipt was recorded.",
        sql="""SELECT v.verdict, p.asset, COUNT(*) AS receipts, SUM(p.amount_base_units) AS settled_base_units
FROM settlement_verdicts v LEFT JOIN payments p ON p.partition = v.partition AND p.position = v.position
GROUP BY v.verdict, p.asset ORDER BY receipts DESC""",
    ),
    Tile(
        name="audit",
        title="Queries on the audit",
        sql="""SELECT i.surface, COALESCE(o.status, 'no outcome recorded') AS outcome, COUNT(*) AS queries,
       SUM(o.row_count) AS "rows", MAX(i.requested_at) AS last_asked
FROM query_audit_intents i LEFT JOIN query_audit_outcomes o ON o.query_id = i.query_id
GROUP BY ALL ORDER BY queries DESC""",
    ),
    Tile(
        name="open-intents",
        title="Intents without an outcome",
        empty="Every query has its outcome.",
        sql="""SELECT i.requested_at, i.subject, i.surface, i.statement
FROM query_audit_intents i LEFT JOIN query_audit_outcomes o ON o.query_id = i.query_id
WHERE o.query_id IS NULL ORDER BY i.requested_at DESC LIMIT 20""",
    ),
    Tile(
        name="anomalies",
        title="Kept but folded into nothing",
        empty="No anomaly.",
        sql="""SELECT kind, detail_code, SUM(event_count) AS events, COUNT(DISTINCT partition) AS conversations
FROM anomalies GROUP BY kind, detail_code ORDER BY events DESC LIMIT 40""",
    ),
    Tile(
        name="quarantine",
        title="Lines that could not be imported",
        empty="Everything could be read.",
        sql="""SELECT provider, reason, COUNT(*) AS lines, COUNT(DISTINCT path) AS files
FROM import_quarantine GROUP BY provider, reason ORDER BY lines DESC""",
    ),
)
