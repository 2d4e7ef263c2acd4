"""Spending checks: what conversations, personas and wallets have spent, by the fold that fills `payments`.

Spent is what is settled, in whatever state its turn is, plus what is reserved and not yet released (ruling 19): a
crash between a payment and its commit marker bypasses no budget. A transaction counts once, wherever it is shown.

The caller reads the records, verified at level V1h (the own signatures of markers, approvals, receipts and key events
beside chain and checkpoint); a `Record` carries no signature, so a fold cannot check that again. `Spending` is
incremental: give it what is new of a partition (`next_position` tells from where on) and ask again.
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar, Final

import msgspec

from facts.anomalies import Anomalies
from facts.budgets import AMOUNT_OF_RESERVATION, CONVERSATION_OF_RESERVATION, REFERENCE, STATUS
from facts.deployment import DeploymentFold
from facts.events import ConversationOpened
from facts.fold import Row
from facts.intake import OPENED, Handlers, Intake, Standing
from facts.judgement import JUDGED, Judgement
from facts.receipts import canonical_account
from facts.registry import base_units
from facts.settlement import Verdict
from facts.trust import Trust
from polyc.entry import Record
from polyc.errors import CorruptError

SPEND_PREFIX: Final = "spend-"
CONVERSATION_PREFIX: Final = "conv-"
_partition_of: Final = attrgetter("partition")
_PLAIN: Final = re.compile(r"(?!x-)[a-z0-9-]{1,64}")


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """A settled payment, as budgets count it: also of turns that are not committed, and late ones."""

    partition: str
    turn: str
    persona: str | None
    payer: str  # as compared: hexadecimal in lower case
    asset: str  # the same
    network: str
    amount: int  # base units
    reference: str | None
    nonce: str
    index: int
    recorded_at: datetime
    reservation_id: str | None


class _Conversation:
    """The judged part of one conversation; other events are passed over undecoded."""

    __slots__ = ("_earlier", "_intake", "_judgement", "_partition", "_seen", "_trust")

    def __init__(self, partition: str, trust: Trust) -> None:
        self._partition = partition
        self._trust = trust
        self._earlier: list[Settled] = []  # of incarnations before this one, not yet told
        self._hold(Standing())

    def _hold(self, standing: Standing) -> None:
        self._judgement = Judgement.fresh(self._partition)
        self._seen = 0
        self._intake = Intake(
            self._partition,
            self._trust,
            standing=standing,
            anomalies=Anomalies(),
            handlers=self._HANDLERS,
            passing=True,
        )

    @property
    def position(self) -> int:
        """The position of the last record that was applied wholly; 0 before the first."""
        return self._intake.standing.position

    def apply_all(self, records: Iterable[Record]) -> None:
        """Take the next records; CorruptError for a poison event, those before it are applied."""
        rest = iter(records)
        while (start := self._intake.take(rest, self)) is not None:
            self._earlier += self._new()
            self._hold(Standing(start.incarnation))
            self._intake.take((start,), self)

    def news(self) -> list[Settled]:
        """What was settled since this was asked last."""
        found = self._earlier + self._new()
        self._earlier = []
        return found

    def _new(self) -> list[Settled]:
        verdicts = self._judgement.payments.verdicts
        new = [self._settled(verdict) for verdict in verdicts[self._seen :] if verdict.verdict == "settled"]
        self._seen = len(verdicts)
        return new

    def _judge(self, event: Any, record: Record) -> None:
        self._judgement.take(event, record, self._intake, signers=self._trust.receipt_signers)

    def _opened(self, event: ConversationOpened, record: Record) -> None:
        if record.position == 1:
            self._intake.open(imported=event.origin != "live")

    _HANDLERS: ClassVar = Handlers(dict.fromkeys(JUDGED, _judge) | {OPENED: _opened})

    def _settled(self, verdict: Verdict) -> Settled:
        payments, turns = self._judgement.payments, self._judgement.turns
        place = verdict.place
        assert verdict.requirement is not None, "a settled payment was asked for"
        assert verdict.nonce is not None, "and settles once"
        asked = payments.requirements[verdict.requirement]
        return Settled(
            partition=place[0],
            turn=place[3],
            persona=turns.persona_of(place[3]),
            payer=canonical_account(verdict.payer or ""),
            asset=canonical_account(asked.asset),
            network=asked.network,
            amount=int(base_units(asked.amount) or 0),
            reference=verdict.reference,
            nonce=verdict.nonce,
            index=verdict.index,
            recorded_at=place[4],
            reservation_id=asked.reservation_id,
        )


class Spending:
    """What was spent, kept up to date record by record; conversations and `spend-…` partitions alike.

    A poison event stops its own partition; the others go on. What a stopped partition would have said is unknown, so
    every answer that could need it is refused: CorruptError with the place of the event.
    """

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._conversations: dict[str, _Conversation] = {}
        self._reservations: dict[str, DeploymentFold] = {}
        self._positions: dict[str, int] = {}
        self._faults: dict[str, CorruptError] = {}
        self._settled: dict[str, Settled] = {}  # by what settles once: the first in the log counts

    def next_position(self, partition: str) -> int:
        """From which position on the partition is new."""
        return self._positions.get(partition, 0) + 1

    def take(self, records: Iterable[Record]) -> None:
        """Take new records, each partition's in order; partitions without payments or reservations are passed over."""
        for partition, run in groupby(records, key=_partition_of):
            if partition in self._faults:
                deque(run, maxlen=0)
            elif partition.startswith(CONVERSATION_PREFIX):
                self._converse(partition, run)
            elif partition.startswith(SPEND_PREFIX):
                self._reserve(partition, run)
            else:
                self._positions[partition] = deque(run, maxlen=1)[0].position

    def _converse(self, partition: str, records: Iterable[Record]) -> None:
        conversation = self._conversations.get(partition)
        if conversation is None:
            conversation = self._conversations[partition] = _Conversation(partition, self._trust)
        self._apply(conversation, partition, records)
        for fact in conversation.news():
            known = self._settled.get(fact.nonce)
            if known is None or fact.index < known.index:
                self._settled[fact.nonce] = fact

    def _reserve(self, partition: str, records: Iterable[Record]) -> None:
        fold = self._reservations.get(partition)
        if fold is None:
            fold = self._reservations[partition] = DeploymentFold(partition, self._trust)
        self._apply(fold, partition, records)

    def _apply(self, fold: _Conversation | DeploymentFold, partition: str, records: Iterable[Record]) -> None:
        try:
            fold.apply_all(records)
        except CorruptError as error:
            self._faults[partition] = error
        self._positions[partition] = fold.position

    def _vouch(self, partitions: Iterable[str]) -> None:
        """Refuse an answer that needs a stopped partition."""
        for partition in partitions:
            if partition in self._faults:
                raise self._faults[partition]

    def payments(
        self,
        *,
        asset: str | None = None,
        network: str | None = None,
        partition: str | None = None,
        persona: str | None = None,
        payer: str | None = None,
        since: datetime | None = None,
    ) -> list[Settled]:
        """The settled payments that fit every given condition, in log order; `since` is a time of record."""
        self._vouch(self._conversations if partition is None else (partition,))
        payer = None if payer is None else canonical_account(payer)
        asset = None if asset is None else canonical_account(asset)
        wanted = {"asset": asset, "network": network, "partition": partition, "persona": persona, "payer": payer}
        tests = [(name, value) for name, value in wanted.items() if value is not None]
        found = [
            fact
            for fact in self._settled.values()
            if (since is None or fact.recorded_at >= since)
            and all(getattr(fact, name) == value for name, value in tests)
        ]
        return sorted(found, key=lambda fact: fact.index)

    def reserved(self, subject: str | None = None, *, partition: str | None = None) -> dict[tuple[str, str], int]:
        """What is reserved and neither released nor settled, per (asset, network): a subject's, a conversation's, all.

        A reservation whose payment is already known to be settled counts as that payment and not again.
        """
        names = list(self._reservations) if subject is None else [spend_partition(subject)]
        self._vouch(names)
        paid = {fact.reservation_id for fact in self._settled.values()}
        totals: dict[tuple[str, str], int] = {}
        for row in self._reservation_rows(names):
            asked_here = partition is None or row[CONVERSATION_OF_RESERVATION] == partition
            if row[STATUS] == "open" and row[4] not in paid and asked_here:
                key = (canonical_account(row[AMOUNT_OF_RESERVATION + 1]), row[AMOUNT_OF_RESERVATION + 2])
                totals[key] = totals.get(key, 0) + int(row[AMOUNT_OF_RESERVATION])
        return totals

    def _reservation_rows(self, partitions: Iterable[str]) -> Iterator[Row]:
        for name in partitions:
            if name in self._reservations:
                yield from self._reservations[name].rows()["reservations"]

    def spent(
        self,
        *,
        asset: str,
        network: str,
        persona: str | None = None,
        wallet: str | None = None,
        since: datetime | None = None,
    ) -> int:
        """What a persona or a wallet has spent of an asset: settled since then, and reserved and not released."""
        subject = persona if wallet is None else wallet
        assert (persona is None) != (wallet is None), "a budget is a persona's or a wallet's"
        facts = self.payments(asset=asset, network=network, persona=persona, payer=wallet, since=since)
        return sum(fact.amount for fact in facts) + self.reserved(str(subject)).get(
            (canonical_account(asset), network), 0
        )

    def settled_references(self, subject: str) -> frozenset[str]:
        """The transactions that the subject's spend partition has settled."""
        rows = self._reservation_rows((spend_partition(subject),))
        return frozenset(row[REFERENCE] for row in rows if row[STATUS] == "settled")


def spend_partition(subject: str) -> str:
    """The partition of a persona's or wallet's reservations; a name outside the grammar goes by its digest.

    >>> spend_partition("ada"), spend_partition("0xAB12"), spend_partition("a.b")
    ('spend-ada', 'spend-0xab12', 'spend-x-2e7336dc8eba87ef472d')
    """
    name = canonical_account(subject)
    if _PLAIN.fullmatch(name):
        return f"{SPEND_PREFIX}{name}"
    return f"{SPEND_PREFIX}x-{hashlib.sha256(name.encode()).hexdigest()[:20]}"


def totals(payments: Iterable[Settled]) -> dict[tuple[str, str], int]:
    """The sum of payments in base units, per (asset, network)."""
    sums: dict[tuple[str, str], int] = {}
    for fact in payments:
        key = (fact.asset, fact.network)
        sums[key] = sums.get(key, 0) + fact.amount
    return sums


def settled_total(
    records: Iterable[Record],
    trust: Trust,
    *,
    asset: str,
    network: str | None = None,
    persona: str | None = None,
    payer: str | None = None,
    since: datetime | None = None,
) -> int:
    """What these records settle of an asset, in base units; of one conversation or of many, over all turn states."""
    spending = Spending(trust)
    spending.take(records)
    found = spending.payments(asset=asset, network=network, persona=persona, payer=payer, since=since)
    return sum(fact.amount for fact in found)
