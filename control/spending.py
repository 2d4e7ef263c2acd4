"""Budgets: a call that means to pay reserves first; what is settled or reserved counts as spent (ruling 19).

The verdicts are those of `facts.payments`, which also fill the table `payments`: there is no second opinion. A
reservation is appended to the persona's `spend-…` partition with the position that the check saw, so of two
concurrent calls only one passes on the same sight. Without a budget for the asset nothing may be spent.
"""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from control.context import ControlContext
from control.dispatches import LiveDispatch
from control.edges import append_edge
from facts import codec
from facts.catalog import TABLES
from facts.events import PaymentReceipt, PaymentRequired, Refusal, SpendReleased, SpendReserved
from facts.fold import Fold, Row
from facts.partition import open_fold
from facts.payments import (
    CONVERSATION_PREFIX,
    SPEND_PREFIX,
    Settled,
    Spending,
    spend_partition,
    window_start,
)
from facts.receipts import canonical_account
from facts.trust import Trust
from journal.port import PartitionHead
from journal.vouched import read_vouched
from polyc.errors import ConflictError, CorruptError, RefusedError
from polyc.ids import IMPORTED_PREFIX
from polyc.limits import RESERVATION_LIFETIME_S, RESERVATION_RETRIES_MAX

BUDGETS_PARTITION: Final = "budgets"
_MONEY: Final = (CONVERSATION_PREFIX, SPEND_PREFIX, BUDGETS_PARTITION)
_BUDGET: Final = TABLES["budgets"].column_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a call is asked to pay."""

    tool_call_id: str
    amount_base_units: int
    asset: str
    network: str
    payee: str
    resource: str
    tool_name: str | None = None
    decimals: int | None = None
    payer: str | None = None
    scheme: str | None = None


class SpendingDesk:
    """What was spent, kept up to date from the log; one check at a time in this process."""

    def __init__(self, context: ControlContext, trust: Trust) -> None:
        self._context = context
        self._trust = trust
        self._lock = threading.Lock()
        self._spending = Spending(trust)
        self._budgets: Fold = open_fold(BUDGETS_PARTITION, trust)
        self._incarnations: dict[str, bytes] = {}
        self._cursor = 0

    def reserve(self, dispatch: LiveDispatch, ask: Ask) -> str | None:
        """The reservation's id; None when a budget does not allow it, which is then on record as a refusal.

        1. What is known now; reservations that were paid, or whose time is over, are ended. 2. Every budget that
        applies has room. 3. The reservation, on the sight of step 1. 4. The conversation learns what was asked.
        """
        with self._lock:
            for _ in range(RESERVATION_RETRIES_MAX):
                # 1
                seen = self._refresh(dispatch.persona_id)
                # 2
                rule = self._objection(dispatch, ask)
                if rule is not None:
                    self._refuse(dispatch, ask, rule=rule)
                    return None
                # 3
                reservation_id = self._context.new_id()
                try:
                    self._reserve(dispatch, ask, reservation_id=reservation_id, seen=seen)
                except ConflictError:
                    continue
                # 4
                try:
                    append_edge(self._context, dispatch, [self._required(dispatch, ask, reservation_id)])
                except BaseException:
                    self._release(dispatch.persona_id, reservation_id, outcome="released")
                    raise
                return reservation_id
        raise RefusedError("too many payments at once", code="resource_exhausted")

    def receive(
        self, dispatch: LiveDispatch, *, tool_call_id: str, form: str, receipt: str, reference: str | None
    ) -> bool:
        """Record a receipt as it came; True when it settled its payment. It may come after the turn's end.

        It is recorded whatever is wrong with what was recorded before; only its verdict can wait.
        """
        with self._lock:
            event = PaymentReceipt(
                id=self._context.new_id(),
                dispatch_id=dispatch.dispatch_id,
                tool_call_id=tool_call_id,
                format=form,
                receipt=receipt,
                reference=reference,
                settled_in=self._settled_elsewhere(dispatch, form, receipt),
            )
            ack = append_edge(self._context, dispatch, [event], late=True)
            self._refresh(dispatch.persona_id)
            paid = self._spending.payments(partition=dispatch.partition)
            return any(item.index == ack.first_index for item in paid)

    def _settled_elsewhere(self, dispatch: LiveDispatch, form: str, receipt: str) -> str | None:
        """The other conversation in which this receipt's transaction has settled a payment.

        The fold of one conversation cannot see that; with it on record, no reader shows the payment a second time.
        """
        try:
            self._read()
            known = self._spending.settled_before(form, receipt, index=self._context.journal.size())
        except CorruptError:
            return None
        return None if known is None or known.partition == dispatch.partition else known.partition

    def _refresh(self, persona_id: str) -> int:
        """Read on to the log's end, end what is paid or over; returns the position of the persona's reservations."""
        self._read()
        now = self._now()
        for item in self._spending.reservations(persona=persona_id):
            settled = self._spending.payment_of(item.reservation_id)
            if settled is not None:
                self._settle(persona_id, settled)
            elif item.expires_at is not None and item.expires_at <= now:
                self._release(persona_id, item.reservation_id, outcome="expired")
        self._read()
        return self._spending.next_position(spend_partition(persona_id)) - 1

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._context.clock.now_us() / 1_000_000, UTC)

    def _read(self) -> None:
        """Take what is new of every partition that money can stand in, at level V1h (ruling 2)."""
        journal = self._context.journal
        size = journal.size()
        if size <= self._cursor:
            return
        with self._context.index.view():
            self._trust_keys_are_current()
        for head in journal.changed_since(self._cursor):
            if _holds_money(head.partition):
                self._read_on(head)
        self._cursor = size

    def _read_on(self, head: PartitionHead) -> None:
        """Take a partition's new records; of another incarnation, all."""
        name, journal = head.partition, self._context.journal
        known = self._incarnations.get(name) == head.incarnation
        position = self._spending.next_position(name) if known else 1
        records = list(read_vouched(journal, name, keys=self._trust.keys, from_position=position))
        self._incarnations[name] = head.incarnation
        if name == BUDGETS_PARTITION:
            self._budgets.apply_all(records)
        self._spending.take(records)

    def _trust_keys_are_current(self) -> None:
        assert self._trust.keys is self._context.index.keys, "one key ring, kept up to date by the index"

    def _objection(self, dispatch: LiveDispatch, ask: Ask) -> str | None:
        """The rule that forbids the payment, or None; a wallet's budget binds whoever does not say who pays."""
        applying = [row for row in self._budgets.rows()["budgets"] if self._applies(row, dispatch, ask)]
        if not any(_of(row, "subject_kind") in {"persona", "conversation"} for row in applying):
            return "no_budget"
        for row in applying:
            kind, limit = _of(row, "subject_kind"), int(str(_of(row, "amount_base_units")))
            if kind == "wallet" and ask.payer is None:
                return "payer_not_named"
            if self._spent(row) + ask.amount_base_units > limit:
                return f"{kind}_budget"
        return None

    def _applies(self, row: Row, dispatch: LiveDispatch, ask: Ask) -> bool:
        """Whether a budget is of this payment, however its accounts are spelt."""
        subject = {"persona": dispatch.persona_id, "conversation": dispatch.partition, "wallet": ask.payer}
        kind = str(_of(row, "subject_kind"))
        named = subject[kind]
        return (
            (named is None or canonical_account(str(_of(row, "subject"))) == canonical_account(named))
            and canonical_account(str(_of(row, "asset"))) == canonical_account(ask.asset)
            and _of(row, "network") == ask.network
        )

    def _spent(self, row: Row) -> int:
        """What this budget's subject has settled in its window, and all that is reserved for it."""
        kind, subject, window_s = _of(row, "subject_kind"), str(_of(row, "subject")), _of(row, "window_s")
        return self._spending.spent(
            asset=str(_of(row, "asset")),
            network=str(_of(row, "network")),
            persona=subject if kind == "persona" else None,
            wallet=subject if kind == "wallet" else None,
            partition=subject if kind == "conversation" else None,
            since=window_start(self._now(), window_s) if isinstance(window_s, int) else None,
        )

    def _reserve(self, dispatch: LiveDispatch, ask: Ask, *, reservation_id: str, seen: int) -> None:
        event = SpendReserved(
            id=reservation_id,
            reservation_id=reservation_id,
            conversation_id=dispatch.partition,
            tool_call_id=ask.tool_call_id,
            amount_base_units=str(ask.amount_base_units),
            asset=ask.asset,
            network=ask.network,
            expires_at=self._now() + timedelta(seconds=RESERVATION_LIFETIME_S),
            payer=ask.payer,
        )
        self._context.control.append(spend_partition(dispatch.persona_id), [codec.encode(event)], expected=seen)

    def _required(self, dispatch: LiveDispatch, ask: Ask, reservation_id: str) -> PaymentRequired:
        return PaymentRequired(
            id=self._context.new_id(),
            dispatch_id=dispatch.dispatch_id,
            tool_call_id=ask.tool_call_id,
            amount_base_units=str(ask.amount_base_units),
            asset=ask.asset,
            network=ask.network,
            payee=ask.payee,
            resource=ask.resource,
            decimals=ask.decimals,
            payer=ask.payer,
            scheme=ask.scheme,
            reservation_id=reservation_id,
        )

    def _refuse(self, dispatch: LiveDispatch, ask: Ask, *, rule: str) -> None:
        event = Refusal(
            id=self._context.new_id(),
            dispatch_id=dispatch.dispatch_id,
            request_id=ask.tool_call_id,
            tool_call_id=ask.tool_call_id,
            tool_name=ask.tool_name,
            stage="budget",
            rule=rule,
            reason="over_budget" if rule.endswith("_budget") and rule != "no_budget" else rule,
        )
        append_edge(self._context, dispatch, [event])

    def _settle(self, persona_id: str, settled: Settled) -> None:
        assert settled.reservation_id is not None, "checked by the caller"
        transaction = settled.nonce.removeprefix(f"{settled.network} ")
        self._end(
            persona_id,
            SpendReleased(
                id=self._context.new_id(),
                reservation_id=settled.reservation_id,
                outcome="settled",
                network=settled.network,
                transaction=transaction,
            ),
        )

    def _release(self, persona_id: str, reservation_id: str, *, outcome: str) -> None:
        assert outcome in {"released", "expired"}, "settling names its transaction"
        event = SpendReleased(
            id=self._context.new_id(),
            reservation_id=reservation_id,
            outcome="released" if outcome == "released" else "expired",
        )
        self._end(persona_id, event)

    def _end(self, persona_id: str, event: SpendReleased) -> None:
        self._context.control.append(spend_partition(persona_id), [codec.encode(event)])


def _holds_money(partition: str) -> bool:
    """Whether a partition can say what was spent; imported conversations settle nothing (ruling 14)."""
    return partition.startswith(_MONEY) and not partition.startswith(IMPORTED_PREFIX)


def _of(row: Row, column: str) -> object:
    return row[_BUDGET.index(column)]
