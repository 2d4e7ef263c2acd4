"""What the edge counts, in Prometheus' text format and as OpenTelemetry spans; never any content.

Labels are closed lists: statuses, codes, realms, surfaces. No statement, name, subject, id or address is a label or an
attribute, so neither a scrape nor a trace can tell what anybody asked. The OpenTelemetry API is used when a process has
it; without an SDK its spans cost nothing and go nowhere.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

try:
    from opentelemetry import trace

    _tracer: Any = trace.get_tracer("polychrome.query")
except ImportError:
    _tracer = None

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 30.0)


class Metrics:
    """Counters of one edge; belongs to one event loop."""

    def __init__(self) -> None:
        self.queries: Counter[tuple[str, str, str]] = Counter()
        self.rows = 0
        self.result_bytes = 0
        self.unauthenticated: Counter[str] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._count = 0

    def ended(self, *, status: str, code: str | None, realm: str, rows: int, size_bytes: int, seconds: float) -> None:
        """Count a query by how it ended."""
        self.queries[status, code or "", realm] += 1
        self.rows += rows
        self.result_bytes += size_bytes
        self._seconds += seconds
        self._count += 1
        for bound in SECONDS:
            if seconds <= bound:
                self._buckets[bound] += 1

    def text(self, *, running: int) -> bytes:
        """All of it, as a scrape reads it."""
        lines = [
            "# HELP polyc_queries_total Queries by how they ended.",
            "# TYPE polyc_queries_total counter",
            *(
                f'polyc_queries_total{{status="{status}",code="{code}",realm="{realm}"}} {count}'
                for (status, code, realm), count in sorted(self.queries.items())
            ),
            "# HELP polyc_query_refused_bearers_total Calls without a valid grant, by the rule they broke.",
            "# TYPE polyc_query_refused_bearers_total counter",
            *(
                f'polyc_query_refused_bearers_total{{rule="{rule}"}} {count}'
                for rule, count in sorted(self.unauthenticated.items())
            ),
            "# HELP polyc_query_rows_total Rows sent.",
            "# TYPE polyc_query_rows_total counter",
            f"polyc_query_rows_total {self.rows}",
            "# HELP polyc_query_result_bytes_total Bytes of rows sent, as the byte limit counts them.",
            "# TYPE polyc_query_result_bytes_total counter",
            f"polyc_query_result_bytes_total {self.result_bytes}",
            "# HELP polyc_queries_held Queries that run or wait now.",
            "# TYPE polyc_queries_held gauge",
            f"polyc_queries_held {running}",
            "# HELP polyc_query_seconds From the header to the outcome.",
            "# TYPE polyc_query_seconds histogram",
            *(f'polyc_query_seconds_bucket{{le="{bound}"}} {self._buckets[bound]}' for bound in SECONDS),
            f'polyc_query_seconds_bucket{{le="+Inf"}} {self._count}',
            f"polyc_query_seconds_sum {self._seconds:.6f}",
            f"polyc_query_seconds_count {self._count}",
        ]
        return ("\n".join(lines) + "\n").encode()


@contextmanager
def span(name: str) -> Iterator[Any]:
    """A span of a step; it has a name and a time, and no content."""
    if _tracer is None:
        yield None
        return
    with _tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as current:
        yield current
