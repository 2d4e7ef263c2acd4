"""A meaning small enough to count by hand: notes and their totals, with commits, edits and poison.

Payloads are JSON `{"say": text}` (waits for a commit), `{"commit": true}` (makes what waits rows), `{"edit": [n, text]}`
(changes an earlier row: a replace), `{"poison": true}` (cannot be folded). An erased payload folds into nothing.
"""

import json
from collections.abc import Iterable, Sequence

from artifacts.layout import ColumnSpec, TableSpec
from facts.fold import Rows
from facts.trust import Trust
from polyc.appending import Draft
from polyc.entry import Record
from polyc.errors import CorruptError
from polyc.vocabulary import BY_KIND
from projector.meaning import Meaning

NOTES = TableSpec(
    "notes",
    (
        ColumnSpec("partition", "VARCHAR"),
        ColumnSpec("source_incarnation", "VARCHAR"),
        ColumnSpec("position", "UBIGINT"),
        ColumnSpec("text", "VARCHAR"),
        ColumnSpec("size", "BIGINT"),
    ),
    "row",
)
WORDS = TableSpec(
    "words",
    (ColumnSpec("partition", "VARCHAR"), ColumnSpec("position", "UBIGINT"), ColumnSpec("word", "VARCHAR", True)),
    "row",
)
TOTALS = TableSpec(
    "totals",
    (ColumnSpec("partition", "VARCHAR"), ColumnSpec("notes", "BIGINT"), ColumnSpec("amount", "DECIMAL(38,0)")),
    "state",
    ("partition",),
)
TABLES = (NOTES, WORDS, TOTALS)
TYPE = BY_KIND["budget_set"].code  # any type control may author anywhere; its meaning is not asked


def say(text: str) -> Draft:
    return Draft(TYPE, json.dumps({"say": text}).encode())


def edit(note: int, text: str) -> Draft:
    return Draft(TYPE, json.dumps({"edit": [note, text]}).encode())


COMMIT = Draft(TYPE, json.dumps({"commit": True}).encode())
POISON = Draft(TYPE, json.dumps({"poison": True}).encode())


class CountingFold:
    def __init__(self, partition: str, trust: Trust) -> None:
        self.partition = partition
        self.waiting: list[tuple[int, str]] = []
        self.notes: list[tuple[int, str]] = []
        self.incarnation = ""
        self.position = 0

    def apply_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self.apply(record)
            self.position = record.position

    def apply(self, record: Record) -> None:
        self.incarnation = record.incarnation.hex()
        if record.payload is None or record.event_type != TYPE:
            return
        event = json.loads(record.payload)
        if "poison" in event:
            raise CorruptError("cannot be folded", place=f"{self.partition}/{record.position}", kind="payload")
        if "say" in event:
            self.waiting.append((record.position, event["say"]))
        if "commit" in event:
            self.notes += self.waiting
            self.waiting = []
        if "edit" in event and event["edit"][0] < len(self.notes):
            note, text = event["edit"]
            self.notes[note] = (self.notes[note][0], text)

    def rows(self) -> Rows:
        return {
            "notes": [(self.partition, self.incarnation, p, text, len(text)) for p, text in self.notes],
            "words": [(self.partition, p, word) for p, text in self.notes for word in text.split()],
            "totals": [(self.partition, len(self.notes), 10**30 + len(self.notes))] if self.notes else [],
        }

    def snapshot(self) -> bytes:
        raise AssertionError("nobody asks")


def meaning(version: str = "1", tables: Sequence[TableSpec] = TABLES) -> Meaning:
    return Meaning(
        tables=tuple(tables), fold_version=version, open_fold=CountingFold, trust_of=lambda keys: Trust(keys=keys)
    )
