"""Golden journals: `golden/*.journal` is a journal as text, `golden/*.rows` the rows that it must give.

    partition conv-live              the journal's partition, in the first line that is no comment
    # …                              a comment
    ROLE TYPE {…}                    one event: whose key signs it, its type, its members as JSON (`id` is filled in)

A rows file has `== table` and a line a row, each a JSON object without the incarnation and the time of record.
`python -m tests.facts.golden_journals` writes the rows files anew; look at the difference before you keep it.
"""

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from facts.catalog import TABLES
from polyc.vocabulary import BY_KIND
from tests.facts.journal import TRUST, Journal

FOLDER = Path(__file__).parent / "golden"
LEFT_OUT = ("source_incarnation", "recorded_at", "partition")


def journals():
    """The golden journals, by name."""
    return sorted(FOLDER.glob("*.journal"))


def read(path) -> Journal:
    """The journal of a file."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    journal = Journal(lines[0].split()[1])
    for number, line in enumerate(lines[1:]):
        role, kind, *rest = line.split(maxsplit=2)
        members = json.loads(rest[0]) if rest else {}
        payload = json.dumps({"type": kind, "id": f"e{number}"} | members, ensure_ascii=False).encode()
        journal.raw(BY_KIND[kind].code if kind in BY_KIND else int(kind), payload, by=role)
    return journal


def render(rows) -> str:
    """Rows as the text of a rows file."""
    parts = []
    for table, found in rows.items():
        if found:
            names = TABLES[table].column_names
            shown = [
                {
                    name: plain(value)
                    for name, value in zip(names, row, strict=True)
                    if name not in LEFT_OUT and value is not None
                }
                for row in found
            ]
            parts += [f"== {table}\n", *(json.dumps(row, ensure_ascii=False) + "\n" for row in shown)]
    return "".join(parts)


def plain(value):
    """A cell as JSON."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value


def main():
    """Write the rows files."""
    for path in journals():
        path.with_suffix(".rows").write_text(render(read(path).rows(TRUST)))


if __name__ == "__main__":
    main()
