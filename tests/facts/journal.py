"""A journal in memory for fold tests: real keys' ids and roles, records as the journal would give them, no signatures.

The journal's door has verified signatures before a fold sees a record; what folds judge is which key wrote what where.
"""

from datetime import UTC, datetime, timedelta

import msgspec

from facts import events as e
from facts.codec import encode
from facts.fold import Rows
from facts.partition import open_fold
from facts.trust import Trust
from polyc.entry import NO_FENCE, Record
from polyc.ids import SeededIds
from polyc.keyring import KeyAdded, KeyRing
from polyc.signing import new_signer

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
_IDS = SeededIds("facts tests")
SIGNERS = {role: new_signer(_IDS) for role in ("root", "control", "harness", "edge", "importer", "query", "projector")}


def keyring(*, until: dict[str, int] | None = None) -> KeyRing:
    """All roles' keys, valid from index 0; `until` ends some."""
    ring = KeyRing(SIGNERS["root"].public_key)
    for role, signer in SIGNERS.items():
        if role == "root":
            continue
        event = KeyAdded(
            id=f"key-{role}",
            key_id=signer.key_id.hex(),
            public_key=signer.public_key.hex(),
            role=role,
            from_index=0,
            to_index=(until or {}).get(role),
        )
        ring.apply(msgspec.json.encode(event), place="tests")
    return ring


TRUST = Trust(keys=keyring())


def at(minutes: float) -> datetime:
    """A time of the test day."""
    return NOON + timedelta(minutes=minutes)


class Journal:
    """Appends events as records of one partition; `by` is the role of the key."""

    def __init__(self, partition="conv-a", *, incarnation=b"\x01" * 16, first_index=100):
        self.partition = partition
        self.incarnation = incarnation
        self.records: list[Record] = []
        self.first_index = first_index

    def raw(self, code: int, payload: bytes | None, *, by="control") -> Record:
        position = len(self.records) + 1
        record = Record(
            partition=self.partition,
            incarnation=self.incarnation,
            position=position,
            index=self.first_index + position,
            recorded_at_us=int((NOON + timedelta(seconds=position)).timestamp() * 1_000_000),
            key_id=SIGNERS[by].key_id if by in SIGNERS else by.encode(),
            event_type=code,
            fence=NO_FENCE,
            payload=payload,
        )
        self.records.append(record)
        return record

    def add(self, *events, by="harness"):
        for event in events:
            draft = encode(event)
            self.raw(draft.event_type, draft.payload, by=by)
        return self

    # the usual events, short

    def ref(self, turn: str, conversation=None) -> e.TurnRef:
        return e.TurnRef(conversation or self.partition.removeprefix("conv-"), turn)

    def open(self, origin="live", by="control", **fields):
        return self.add(e.ConversationOpened(id="o", origin=origin, conversation_id="x", **fields), by=by)

    def start(self, turn="t1", by="control", conversation=None, **fields):
        return self.add(e.TurnStart(id=f"s-{turn}", turn=self.ref(turn, conversation), **fields), by=by)

    def end(self, turn="t1", by="control", status="completed", conversation=None, **fields):
        return self.add(
            e.TurnComplete(id=f"c-{turn}", turn=self.ref(turn, conversation), status=status, **fields), by=by
        )

    def intend(self, turn="t1", dispatch="d1", **fields):
        return self.add(
            e.DispatchIntent(id=f"i-{turn}", turn=self.ref(turn), dispatch_id=dispatch, **fields), by="control"
        )

    def say(self, text="hello", turn="t1", *, message_id=None, role="user", by="harness", blocks=None, **fields):
        fields.setdefault("material_origin", "human_authored" if role == "user" else "assistant_authored")
        return self.add(
            e.Message(
                id=f"m{len(self.records)}",
                turn_id=turn,
                message_id=message_id or f"m{len(self.records)}",
                role=role,
                blocks=blocks if blocks is not None else (e.Block(type="text", text=text),),
                **fields,
            ),
            by=by,
        )

    def call(self, native="x", turn="t1", name="Bash", by="harness", **fields):
        return self.add(
            e.ToolCall(id=f"k{len(self.records)}", turn_id=turn, tool_call_id=native, name=name, **fields), by=by
        )

    def result(self, native="x", turn="t1", by="harness", **fields):
        return self.add(e.ToolResult(id=f"r{len(self.records)}", turn_id=turn, tool_call_id=native, **fields), by=by)

    def rows(self, trust=TRUST) -> Rows:
        return fold_of(self.records, trust, partition=self.partition).rows()


def fold_of(records, trust=TRUST, *, partition=None):
    fold = open_fold(partition or records[0].partition, trust)
    for record in records:
        fold.apply(record)
    return fold


def column(rows, table, name):
    """One column of a table's rows."""
    from facts.catalog import TABLES

    place = TABLES[table].column_names.index(name)
    return [row[place] for row in rows.get(table, [])]


def anomalies(rows) -> dict[tuple[str, str], int]:
    """Counts by kind and detail code."""
    return {(row[5], row[6]): row[7] for row in rows["anomalies"]}
