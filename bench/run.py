"""`make bench`: run every bench and print ratios; `--write` puts the table into bench/README.md.

A new bench is a module with `measure() -> list[Measurement]` and a line in BENCHES.
"""

import os
import platform
import sys
from pathlib import Path

from bench import append, artifacts, facts, journal, query, replay, search
from bench.measure import Measurement

BENCHES = (append, journal, replay, facts, artifacts, query, search)
PAGE = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- table: written by make bench -->\n", "<!-- end of table -->\n"


def main() -> int:
    """Measure, print, and write when told to."""
    lines = [measurement for bench in BENCHES for measurement in bench.measure()]
    table = render(lines)
    print(table)
    if "--write" in sys.argv:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")
    return 0


def render(measurements: list[Measurement]) -> str:
    """The table as Markdown."""
    rows = [
        "| what | ours | peer | ratio | peer's name | what differs |",
        "| --- | ---: | ---: | ---: | --- | --- |",
        *(
            f"| {m.what} | {rate(m.ours)} {m.unit} | {rate(m.peer)} {m.unit} | {m.ratio:.2f} | {m.peer_name} | {m.note} |"
            for m in measurements
        ),
    ]
    load = f"{os.cpu_count()} cores, load average {os.getloadavg()[1]:.1f}: a busy machine blurs ratios too"
    return (
        "\n".join(rows)
        + f"\n\nPython {platform.python_version()}, {platform.machine()}, best of three rounds, {load}.\n"
    )


def rate(value: float) -> str:
    """As many digits as a noisy measurement deserves."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


if __name__ == "__main__":
    sys.exit(main())
