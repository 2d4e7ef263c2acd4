"""The tables `payments` and `settlement_verdicts`: every receipt gets one verdict, and only `settled` is a payment.

The same object judges for the tables and for a spending check (`facts.payments`), so that no reader can show a forged
receipt as settled. It judges the receipts of every started turn, committed or not, also those that come after the
turn's end (ruling 19); the tables show those that stand inside a committed turn.

A receipt is judged in this order, and the first check that fails is its verdict:

1. the receipt itself: its form, key, signature, authority (`facts.receipts`); a reference beside it must agree
2. the call was asked to pay: a `payment_required` of the same call and turn that no payment has met yet
3. resource and network are what was asked   4. the payer is who was asked   5. the amount is an exact number of base
units and the one that was asked   6. it was issued in time: not before the asking, not after its expiry
7. its transaction has settled nothing yet: a payment is settled once   8. the call was approved, for this payment

A call may be asked several times. The receipt is for the oldest asking that it fits in steps 3 to 6; when it fits
none, the oldest says why not. A fold sees one conversation: that a transaction has settled something in another is
known to who keeps the receipts of all (`facts.payments`), who says so in the event when the receipt comes in.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from facts.approvals import Approvals
from facts.events import PaymentReceipt, PaymentRequired
from facts.fold import Row
from facts.intake import instant, utc
from facts.receipts import Outcome, Receipt, ReceiptError, canonical_account, verify
from facts.registry import base_units
from facts.trust import ReceiptSigner
from facts.turns import TURN, End

AT: Final = 4
ISSUE_LEEWAY: Final = timedelta(minutes=5)  # the door's own leeway for clocks: ruling 1


class Requirement(msgspec.Struct):
    """What a call was asked to pay."""

    place: Row
    native: str
    amount: str
    asset: str
    network: str
    payee: str
    resource: str
    decimals: int | None
    payer: str | None
    scheme: str | None
    expires_at: datetime | None
    reservation_id: str | None
    met: bool = False


class Verdict(msgspec.Struct):
    """What became of a receipt."""

    place: Row
    index: int
    inside: bool  # whether it stands inside its turn
    native: str
    receipt_sha256: str
    verdict: Outcome
    detail: str | None
    reference: str | None
    key_id: str | None = None
    nonce: str | None = None  # what settles once: network and transaction
    payer: str | None = None
    issued_at: datetime | None = None
    requirement: int | None = None
    request: int | None = None  # the approval it used


class Settlement(msgspec.Struct):
    """The receipts of one incarnation of a conversation."""

    requirements: list[Requirement] = []
    by_call: dict[str, list[int]] = {}
    verdicts: list[Verdict] = []
    settled: set[str] = set()

    def require(self, event: PaymentRequired, place: Row) -> None:
        """Take what a call of a started turn was asked to pay; a call that nobody named is asked for nothing."""
        if event.tool_call_id:
            self.by_call.setdefault(event.tool_call_id, []).append(len(self.requirements))
        self.requirements.append(
            Requirement(
                place=place,
                native=event.tool_call_id,
                amount=event.amount_base_units,
                asset=event.asset,
                network=event.network,
                payee=event.payee,
                resource=event.resource,
                decimals=event.decimals,
                payer=event.payer,
                scheme=event.scheme,
                expires_at=utc(event.expires_at),
                reservation_id=event.reservation_id,
            )
        )

    def judge(
        self,
        event: PaymentReceipt,
        place: Row,
        *,
        index: int,
        inside: bool,
        approvals: Approvals,
        signers: Iterable[ReceiptSigner],
    ) -> Verdict:
        """Judge a receipt of a started turn, by the steps above."""
        verdict = Verdict(
            place=place,
            index=index,
            inside=inside,
            native=event.tool_call_id,
            receipt_sha256=hashlib.sha256(event.receipt.encode("utf-8", "surrogatepass")).hexdigest(),
            verdict="settled",
            detail=None,
            reference=event.reference,
        )
        try:
            receipt = verify(event.format, event.receipt, signers=signers, index=index)  # 1
            self._claim(verdict, receipt)
            requirement = self._asked(verdict, receipt)  # 2 to 6
            self._once(verdict, elsewhere=event.settled_in is not None)  # 7
            verdict.request = _approved(verdict, approvals)  # 8
        except ReceiptError as error:
            verdict.verdict, verdict.detail = error.verdict, error.detail
            verdict.key_id = verdict.key_id or error.key_id
        else:
            requirement.met = True
            assert verdict.nonce is not None, "a verified receipt has something that settles once"
            self.settled.add(verdict.nonce)
        self.verdicts.append(verdict)
        return verdict

    def _claim(self, verdict: Verdict, receipt: Receipt) -> None:
        """Write down what the verified receipt says; a reference beside it names the same transaction."""
        verdict.key_id = receipt.key_id
        verdict.payer, verdict.issued_at = receipt.payer, instant(receipt.issued_at_s * 1_000_000)
        verdict.nonce = nonce_of(receipt)
        if receipt.transaction is None:
            return
        transaction = canonical_account(receipt.transaction)
        if verdict.reference is not None and canonical_account(verdict.reference) != transaction:
            raise ReceiptError("malformed", "reference_differs")
        verdict.reference = receipt.transaction

    def _asked(self, verdict: Verdict, receipt: Receipt) -> Requirement:
        """The oldest asking of the call and turn that no payment has met and that the receipt fits.

        When it fits none of them, the first failure of the oldest; when all are met, the last of them is judged.
        """
        places = [
            place
            for place in self.by_call.get(verdict.native, ())
            if self.requirements[place].place[TURN] == verdict.place[TURN]
        ]
        if not places:
            raise ReceiptError("amount_mismatch", "nothing_was_asked")
        failure: ReceiptError | None = None
        for place in [place for place in places if not self.requirements[place].met] or places[-1:]:
            try:
                _compare(receipt, self.requirements[place])  # 3, 4, 5
                _in_time(receipt, self.requirements[place], recorded_at=verdict.place[AT])  # 6
            except ReceiptError as error:
                failure = failure or error
            else:
                verdict.requirement = place
                return self.requirements[place]
        assert failure is not None, "there is an asking, and it was not what was paid"
        raise failure

    def _once(self, verdict: Verdict, *, elsewhere: bool) -> None:
        if verdict.nonce in self.settled:
            raise ReceiptError("duplicate", "settled_before")
        if elsewhere:
            raise ReceiptError("duplicate", "settled_in_another_conversation")
        assert verdict.requirement is not None, "step 2 has found what was asked"
        if self.requirements[verdict.requirement].met:
            raise ReceiptError("duplicate", "paid_before")

    def rows(self, committed: Mapping[str, End], *, call_ids: Sequence[str | None]) -> tuple[list[Row], list[Row]]:
        """The rows of `payments` and `settlement_verdicts` inside committed turns; `call_ids` by verdict."""
        payments: list[Row] = []
        verdicts: list[Row] = []
        for number, verdict in enumerate(self.verdicts):
            if not verdict.inside or verdict.place[TURN] not in committed:
                continue
            call_id = call_ids[number]
            verdicts.append(
                (
                    *verdict.place,
                    call_id,
                    verdict.reference,
                    verdict.verdict,
                    verdict.detail,
                    verdict.key_id,
                    verdict.receipt_sha256,
                )
            )
            if verdict.verdict == "settled":
                payments.append(self._payment(verdict, call_id))
        return payments, verdicts

    def _payment(self, verdict: Verdict, call_id: str | None) -> Row:
        assert verdict.requirement is not None, "a settled payment was asked for"
        asked = self.requirements[verdict.requirement]
        return (
            *verdict.place,
            call_id,
            verdict.reference,
            base_units(asked.amount),
            asked.asset,
            asked.decimals,
            asked.network,
            asked.scheme,
            verdict.payer,
            asked.payee,
            verdict.issued_at,
            verdict.native,
        )


def nonce_of(receipt: Receipt) -> str:
    """What settles once: network and transaction; of a receipt without a transaction, its signed claim."""
    if receipt.transaction is None:
        return f"{receipt.network} claim:{hashlib.sha256(receipt.signed).hexdigest()}"
    return f"{receipt.network} {canonical_account(receipt.transaction)}"


def _compare(receipt: Receipt, asked: Requirement) -> None:
    if receipt.resource != asked.resource:
        raise ReceiptError("wrong_resource", "resource")
    if receipt.network != asked.network:
        raise ReceiptError("wrong_resource", "network")
    if asked.payer is not None and canonical_account(receipt.payer) != canonical_account(asked.payer):
        raise ReceiptError("wrong_payer", "payer")
    amount = base_units(asked.amount)
    if amount is None:
        raise ReceiptError("malformed", "amount")
    if receipt.amount is not None and base_units(receipt.amount) != amount:
        raise ReceiptError("amount_mismatch", "amount")
    if receipt.asset is not None and canonical_account(receipt.asset) != canonical_account(asked.asset):
        raise ReceiptError("amount_mismatch", "asset")


def _in_time(receipt: Receipt, asked: Requirement, *, recorded_at: datetime) -> None:
    """Times are the log's, not a clock's: a receipt of an earlier payment cannot be shown again for this one."""
    issued_at = instant(receipt.issued_at_s * 1_000_000)
    if issued_at < asked.place[AT] - ISSUE_LEEWAY:
        raise ReceiptError("expired", "issued_before_it_was_asked")
    if issued_at > recorded_at + ISSUE_LEEWAY:
        raise ReceiptError("expired", "issued_after_it_was_recorded")
    if asked.expires_at is not None and issued_at > asked.expires_at:
        raise ReceiptError("expired", "issued_too_late")


def _approved(verdict: Verdict, approvals: Approvals) -> int:
    request, state = approvals.spend(verdict.native, verdict.place[TURN])
    if request is None:
        raise ReceiptError("unapproved", state)
    return request
