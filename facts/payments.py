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
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar, Final

import msgspec

from facts.anomalies import Anomalies
from facts.budgets import STATUS, Budgets
from facts.deployment import DeploymentFold
from facts.events import ConversationOpened
from facts.fold import Row
from facts.intake import OPENED, Handlers, Intake, Standing
from facts.judgement import JUDGED, Judgement
from facts.receipts import ReceiptError, canonical_account, verify
from facts.registry import base_units
from facts.settlement import Verdict, nonce_of
from facts.trust import Trust
from facts.turns import TURN
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


class Reserved(msgspec.Struct, frozen=True, kw_only=True):
    """An open reservation; asset and payer as compared."""

    reservation_id: str
    conversation: str
    asset: str
    network: str
    amount: int  # base units
    payer: str | None
    expires_at: datetime | None


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A payment's reservation: still open, or settled by it; it may name the account that pays."""

    is_open: bool
    names_payer: bool


class _Conversation:
    """The judged part of one conversation; other events are passed over undecoded."""

    __slots__ = ("_anomalies", "_earlier", "_intake", "_judgement", "_partition", "_seen", "_trust", "_unnamed")

    def __init__(self, partition: str, trust: Trust) -> None:
        self._partition = partition
        self._trust = trust
        self._earlier: list[Settled] = []  # of incarnations before this one, not yet told
        self._hold(Standing())

    def _hold(self, standing: Standing) -> None:
        self._judgement = Judgement.fresh(self._partition)
        self._seen = 0
        self._unnamed: list[Verdict] = []  # settled in turns that nobody was named for so far
        self._anomalies = Anomalies()
        self._intake = Intake(
            self._partition,
            self._trust,
            standing=standing,
            anomalies=self._anomalies,
            handlers=self._HANDLERS,
            passing=True,
        )

    @property
    def position(self) -> int:
        """The position of the last record that was applied wholly; 0 before the first."""
        return self._intake.standing.position

    @property
    def has_erased(self) -> bool:
        """Whether something that a payment may hang on was erased."""
        return self._anomalies.has("erased")

    def apply_all(self, records: Iterable[Record]) -> None:
        """Take the next records; CorruptError for a poison event, those before it are applied."""
        rest = iter(records)
        while (start := self._intake.take(rest, self)) is not None:
            self._earlier += self._new()
            self._hold(Standing(start.incarnation))
            self._intake.take((start,), self)

    def news(self) -> list[Settled]:
        """What was settled since this was asked last, and what is now known to be somebody's."""
        found = self._earlier + self._new()
        self._earlier = []
        return found

    def _new(self) -> list[Settled]:
        """A turn's persona may be named after its payment: such a payment is told again, then."""
        verdicts, persona_of = self._judgement.payments.verdicts, self._judgement.turns.persona_of
        new = [verdict for verdict in verdicts[self._seen :] if verdict.verdict == "settled"]
        new += [verdict for verdict in self._unnamed if persona_of(verdict.place[TURN]) is not None]
        self._seen = len(verdicts)
        self._unnamed = [v for v in (*self._unnamed, *new) if persona_of(v.place[TURN]) is None]
        return [self._settled(verdict) for verdict in new]

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
        self._paid: dict[str, str] = {}  # reservation -> what settled once for it
        self._erased: set[str] = set()  # conversations whose own word is no longer whole

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
        if conversation.has_erased:
            self._erased.add(partition)
        for fact in conversation.news():
            known = self._settled.get(fact.nonce)
            if known is None or fact.index <= known.index:
                self._settled[fact.nonce] = fact
                if known is not None and known.reservation_id is not None:
                    self._paid.pop(known.reservation_id, None)
                if fact.reservation_id is not None:
                    self._paid[fact.reservation_id] = fact.nonce

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
        """The settled payments that fit every given condition, in log order; `since` is a time of record.

        Those of which only a spend partition still tells, their conversation's content being erased, come first.
        """
        self._vouch(self._conversations if partition is None else (partition,))
        payer = None if payer is None else canonical_account(payer)
        asset = None if asset is None else canonical_account(asset)
        wanted = {"asset": asset, "network": network, "partition": partition, "payer": payer}
        tests = [(name, value) for name, value in wanted.items() if value is not None]
        found = [
            fact
            for fact in (*self._carried(), *self._settled.values())
            if (since is None or fact.recorded_at >= since)
            and all(getattr(fact, name) == value for name, value in tests)
            and (persona is None or self._is_of(fact, persona))
        ]
        return sorted(found, key=lambda fact: fact.index)

    def recorded(self, fact: Settled, *, subject: str) -> Recorded | None:
        """What the spend partition of a persona or wallet says, too, of a payment; None when it says nothing."""
        fold = self._reservations.get(spend_partition(subject))
        if fold is None:
            return None
        registry = _registry_of(fold)
        reservation_id = registry.settled.get(fact.nonce, fact.reservation_id or "")
        row = registry.reservations.get(reservation_id)
        if row is None or (row[STATUS] != "open" and fact.nonce not in registry.settled):
            return None
        return Recorded(is_open=row[STATUS] == "open", names_payer=row[-1] is not None)

    def _is_of(self, fact: Settled, persona: str) -> bool:
        """Whether a persona spent it; of whom no turn names (its start was erased), the spend partition tells."""
        if fact.persona is not None:
            return fact.persona == persona
        fold = self._reservations.get(spend_partition(persona))
        return fold is not None and fact.nonce in _registry_of(fold).settled

    def _carried(self) -> Iterator[Settled]:
        """Payments on record in a spend partition whose conversation can no longer tell of them: it was erased."""
        carried: dict[str, Settled] = {}
        for registry in self._registries() if self._erased else ():
            for nonce, reservation_id in registry.settled.items():
                fact = _carried_of(registry.reservations[reservation_id], nonce)
                if nonce not in self._settled and fact.partition in self._erased:
                    known = carried.get(nonce)
                    carried[nonce] = fact if known is None or not known.payer else known
        return iter(carried.values())

    def _registries(self) -> Iterator[Budgets]:
        return map(_registry_of, self._reservations.values())

    def reservations(
        self, *, persona: str | None = None, wallet: str | None = None, partition: str | None = None
    ) -> list[Reserved]:
        """The open reservations: a persona's, those that may be paid from a wallet, a conversation's, or all.

        A wallet's are those that name it as payer, those that name none, and those of its own spend partition.
        """
        names = list(self._reservations) if persona is None else [spend_partition(persona)]
        self._vouch(names)
        own = None if wallet is None else spend_partition(wallet)
        payers = (None, None if wallet is None else canonical_account(wallet))
        return [
            item
            for name in names
            for item in self._open_in(name)
            if (wallet is None or name == own or item.payer in payers)
            and (partition is None or item.conversation == partition)
        ]

    def _open_in(self, name: str) -> Iterator[Reserved]:
        fold = self._reservations.get(name)
        if fold is not None:
            yield from map(_reservation_of, _registry_of(fold).open_reservations())

    def reserved(
        self, *, persona: str | None = None, wallet: str | None = None, partition: str | None = None
    ) -> dict[tuple[str, str], int]:
        """What is reserved and neither released nor settled, per (asset, network); of whom, as in `reservations`.

        A reservation whose payment is already known to be settled counts as that payment and not again.
        """
        sums: dict[tuple[str, str], int] = {}
        for item in self.reservations(persona=persona, wallet=wallet, partition=partition):
            if item.reservation_id not in self._paid:
                key = (item.asset, item.network)
                sums[key] = sums.get(key, 0) + item.amount
        return sums

    def spent(
        self,
        *,
        asset: str,
        network: str,
        persona: str | None = None,
        wallet: str | None = None,
        partition: str | None = None,
        since: datetime | None = None,
    ) -> int:
        """What a persona, a wallet or a conversation has spent of an asset: settled since then, and reserved now."""
        assert sum(name is not None for name in (persona, wallet, partition)) == 1, "a budget has one subject"
        facts = self.payments(
            asset=asset, network=network, persona=persona, payer=wallet, partition=partition, since=since
        )
        reserved = self.reserved(persona=persona, wallet=wallet, partition=partition)
        return sum(fact.amount for fact in facts) + reserved.get((canonical_account(asset), network), 0)

    def payment_of(self, reservation_id: str) -> Settled | None:
        """The settled payment that a reservation was made for; None as long as none is known."""
        nonce = self._paid.get(reservation_id)
        return None if nonce is None else self._settled[nonce]

    def settled_before(self, form: str, receipt: str, *, index: int) -> Settled | None:
        """The payment that the transaction of a receipt has settled already; None for one that is new, or not true."""
        try:
            claim = verify(form, receipt, signers=self._trust.receipt_signers, index=index)
        except ReceiptError:
            return None
        self._vouch(self._conversations)
        nonce = nonce_of(claim)
        return self._settled.get(nonce) or next((fact for fact in self._carried() if fact.nonce == nonce), None)


def _registry_of(fold: DeploymentFold) -> Budgets:
    registry = fold.registry
    assert isinstance(registry, Budgets), "spend partitions fold into reservations"
    return registry


def _carried_of(row: Row, nonce: str) -> Settled:
    """The payment that a settled reservation tells of; its own place in the log is not known any more."""
    _, _, _, at, reservation_id, conversation, _, amount, asset, network, _, _, reference, payer = row
    return Settled(
        partition=conversation,
        turn="",
        persona=None,
        payer="" if payer is None else canonical_account(payer),
        asset=canonical_account(asset),
        network=network,
        amount=int(amount),
        reference=reference,
        nonce=nonce,
        index=-1,
        recorded_at=at,
        reservation_id=reservation_id,
    )


def _reservation_of(row: Row) -> Reserved:
    _, _, _, _, reservation_id, conversation, _, amount, asset, network, _, expires_at, _, payer = row
    return Reserved(
        reservation_id=reservation_id,
        conversation=conversation,
        asset=canonical_account(asset),
        network=network,
        amount=int(amount),
        payer=None if payer is None else canonical_account(payer),
        expires_at=expires_at,
    )


def window_start(now: datetime, window_s: int) -> datetime:
    """Since when a sliding window reaches back; what was recorded at this very instant is in it.

    >>> window_start(datetime.fromisoformat("2026-01-01T00:01:00+00:00"), 60).isoformat()
    '2026-01-01T00:00:00+00:00'
    """
    try:
        return now - timedelta(seconds=window_s)
    except OverflowError:  # longer than there were dates
        return datetime.min.replace(tzinfo=UTC)


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
