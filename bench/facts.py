"""Folding: decoding and folding conversations into every table, and a spending check after one new payment.

The peers do less: the standard library's JSON parser only decodes; a check without memory folds all of it again.
No journal is read while it is measured: records are in memory. `python -m bench.facts DATA_ROOT` folds what an
imported deployment holds, and prints events a second of one core (CPU time) beside what decoding alone takes.
"""

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import Measurement, best_s
from facts import events as e
from facts.codec import DECODERS, encode
from facts.partition import open_fold
from facts.payments import Spending, settled_total
from facts.trust import Trust
from polyc.cli.deployment import opened
from polyc.dataroot import DataRoot
from polyc.entry import NO_FENCE, Record
from tests.facts.journal import SIGNERS, TRUST
from tests.facts.payment import claims, jws, paid, paying, trust
from tests.support.conversations import WORDS

CONVERSATIONS = 40
TURNS = 12
CALLS = 8
LONG_CONVERSATION = 10_000
ROUNDS_OF_DEPLOYMENT = 7
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def measure() -> list[Measurement]:
    """Folding, and checking."""
    return [_folding(), _checking()]


def _folding() -> Measurement:
    journals = [_conversation(number) for number in range(CONVERSATIONS)]
    records = [record for journal in journals for record in journal]

    def ours() -> None:
        _fold(journals, TRUST)

    def peer() -> None:
        for record in records:
            json.loads(record.payload or b"")

    gc.collect()
    gc.disable()  # a process that replays does the same: the rows outlive every collection
    ours_s, peer_s = best_s(ours), best_s(peer)
    gc.enable()
    return Measurement(
        what="decode and fold conversations into every table",
        unit="events/s",
        ours=len(records) / ours_s,
        peer=len(records) / peer_s,
        peer_name="json.loads",
        note="the peer only parses",
    )


def _fold(journals: Sequence[list[Record]], trust: Trust) -> None:
    for journal in journals:
        fold = open_fold(journal[0].partition, trust)
        fold.apply_all(journal)
        fold.rows()


def _checking() -> Measurement:
    by = trust()
    journal = paying("conv-long")
    while len(journal.records) < LONG_CONVERSATION:
        journal.say("and so on", role="assistant")
    before = list(journal.records)
    paid(journal, jws(claims(transaction="0xbe")))
    new = journal.records[len(before) :]

    def fresh() -> Spending:
        spending = Spending(by)
        spending.take(before)
        return spending

    checks = [fresh() for _ in range(3)]

    def ours() -> None:
        spending = checks.pop()
        spending.take(new)
        assert sum(fact.amount for fact in spending.payments(asset="usdc")) == 10_000

    def peer() -> None:
        assert settled_total(journal.records, by, asset="usdc") == 10_000

    ours_s, peer_s = best_s(ours), best_s(peer)
    return Measurement(
        what=f"spending check after one new payment, {LONG_CONVERSATION:,} events",
        unit="checks/s",
        ours=1 / ours_s,
        peer=1 / peer_s,
        peer_name="the same check from the start",
        note=f"{ours_s * 1000:.2f} ms; ours takes only what is new; both verify the receipt's signature",
    )


def _conversation(number: int) -> list[Record]:
    """An imported conversation of a thousand events, of the sizes real ones have."""
    partition = f"conv-imp-{number:026d}"
    journal: list[Record] = []

    def add(*events: e.AnyEvent) -> None:
        for event in events:
            draft = encode(event)
            journal.append(
                Record(
                    partition=partition,
                    incarnation=bytes(16),
                    position=len(journal) + 1,
                    index=len(journal),
                    recorded_at_us=1_793_534_400_000_000 + len(journal) // 64,
                    key_id=SIGNERS["importer"].key_id,
                    event_type=draft.event_type,
                    fence=NO_FENCE,
                    payload=draft.payload,
                )
            )

    add(e.ConversationOpened(id="o", occurred_at=NOON, origin="claude-code", conversation_id=partition[5:]))
    for turn in range(TURNS):
        ref = e.TurnRef(partition[5:], f"00000000-0000-8000-8000-{number:06d}{turn:06d}")
        add(e.TurnStart(id="s", occurred_at=NOON, turn=ref, evidence="stated"))
        add(_message(f"u{turn}", ref.turn_id, "user", words=25))
        for call in range(CALLS):
            name = f"msg_{number:05d}_{turn:03d}_{call:03d}"
            add(
                _message(name, ref.turn_id, "assistant", words=20),
                e.ModelCall(id=name, occurred_at=NOON, turn_id=ref.turn_id, call_id=name, model="claude-opus-4-5"),
                e.Usage(id=name, turn_id=ref.turn_id, call_id=name, input_tokens=9, output_tokens=99),
                e.ToolCall(
                    id=name, occurred_at=NOON, turn_id=ref.turn_id, tool_call_id=f"toolu_{name}", name="Bash",
                    message_id=name, action="shell", command=_words(8), arguments=json.dumps({"command": _words(8)}),
                ),
                e.ToolResult(
                    id=name, occurred_at=NOON, turn_id=ref.turn_id, tool_call_id=f"toolu_{name}", text=_words(120),
                    is_error=False, exit_code=0,
                ),
            )  # fmt: skip
        add(e.TurnComplete(id="c", occurred_at=NOON, turn=ref, status="completed", evidence="final_message"))
    return journal


def _message(name: str, turn: str, role: e.Role, *, words: int) -> e.Message:
    return e.Message(
        id=name,
        occurred_at=NOON,
        turn_id=turn,
        message_id=name,
        role=role,
        material_origin="human_authored" if role == "user" else "assistant_authored",
        blocks=(e.Block(type="text", text=_words(words)),),
    )


def _words(count: int) -> str:
    return " ".join(WORDS[i % len(WORDS)] for i in range(count))


def of_deployment(path: Path) -> str:
    """How fast one core folds what this deployment's journal holds, and how fast it only decodes it."""
    with opened(DataRoot(path)) as deployment:
        trust = Trust(keys=deployment.journal.keyring())
        journals = [list(deployment.journal.read(head.partition)) for head in deployment.journal.partitions()]
    records = [record for journal in journals for record in journal]

    def decode() -> None:
        for record in records:
            DECODERS[record.event_type].decode(record.payload or b"")

    gc.collect()
    gc.disable()  # as the projector does while it rebuilds
    decoding_s = min(_cpu_s(decode) for _ in range(ROUNDS_OF_DEPLOYMENT))
    folding_s = min(_cpu_s(lambda: _fold(journals, trust)) for _ in range(ROUNDS_OF_DEPLOYMENT))
    gc.enable()
    return (
        f"{len(records):,} events of {len(journals):,} partitions: decode and fold {len(records) / folding_s:,.0f} "
        f"events/s/core, decode alone {len(records) / decoding_s:,.0f} events/s/core"
    )


def _cpu_s(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(of_deployment(Path(argument)))
    if not sys.argv[1:]:
        print(*measure(), sep="\n")
