"""`polyc spending` counts what the journal proves, in whatever state the turns are, and refuses what is not signed."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from facts import events as e
from journal import boot
from journal.port import SignedRecords
from journal.store import SqliteJournal
from journal.vouched import read_vouched
from polyc.appending import Draft
from polyc.cli.deployment import opened
from polyc.cli.spending import spending_of
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.errors import CorruptError
from polyc.ids import SystemIds
from polyc.vocabulary import BY_CODE, BY_KIND
from tests.cli.appending import append, issued_now, trust_receipts
from tests.cli.runner import polyc
from tests.facts.journal import Journal
from tests.facts.payment import NETWORK, PAYER, claims, jws, paid, paying


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A deployment with a paid call in a turn that never ended, a forged receipt, and an open reservation."""
    root = tmp_path / "root"
    assert polyc(root, "init").code == 0
    trust_receipts(root)
    append(root, paid(paying("conv-a"), jws(claims(issuedAt=issued_now()))))
    append(root, paid(paying("conv-forged"), jws(claims(issuedAt=issued_now(), payer="0xeve"))))
    reserve = e.SpendReserved(
        id="r",
        reservation_id="r1",
        conversation_id="conv-b",
        tool_call_id="y",
        amount_base_units="500",
        asset="usdc",
        network=NETWORK,
    )
    append(root, Journal("spend-ada").add(reserve, by="control"))
    return root


def spent(root: Path, *subject: str) -> list[tuple[str, str, int]]:
    rows = polyc(root, "spending", "--format", "json", *subject).rows
    return [(row["settled_base_units"], row["reserved_base_units"], row["payments"]) for row in rows]


def test_what_is_settled_and_reserved_is_told_per_asset(root: Path) -> None:
    (row,) = polyc(root, "spending", "--persona", "ada", "--format", "json").rows
    assert row == {
        "asset": "usdc",
        "network": NETWORK,
        "settled_base_units": "10000",
        "reserved_base_units": "500",
        "spent_base_units": "10500",
        "payments": 1,
    }
    assert spent(root, "--wallet", PAYER.lower()) == [("10000", "500", 1)]  # who reserved did not say who pays
    assert spent(root, "--conversation", "conv-a") == [("10000", "0", 1)]
    assert spent(root, "--conversation", "conv-b") == [("0", "500", 0)]
    assert spent(root, "--conversation", "conv-forged") == []
    assert spent(root, "--persona", "eve") == []


def test_a_window_leaves_out_what_was_settled_before_it(root: Path) -> None:
    assert spent(root, "--persona", "ada", "--window-s", "86400") == [("10000", "500", 1)]
    assert spent(root, "--persona", "ada", "--window-s", "0") == [("0", "500", 0)]


@pytest.mark.parametrize("arguments", [(), ("--persona", "ada", "--wallet", "0x1")])
def test_exactly_one_subject_is_asked_for(root: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as exit_:
        polyc(root, "spending", *arguments)
    assert exit_.value.code == 2


def kinds(root: Path, partition: str) -> list[str]:
    with boot.open_embedded(DataRoot(root), clock=SystemClock(), ids=SystemIds()) as journal:
        return [BY_CODE[record.event_type].kind for record in journal.read(partition)]


@pytest.mark.parametrize("kind", [None, "turn_start", "dispatch_intent", "payment_required", "payment_receipt"])
def test_an_erasure_gives_no_budget_room_again(root: Path, kind: str | None) -> None:
    which = () if kind is None else (str(kinds(root, "conv-a").index(kind) + 1),)
    for _ in range(2):  # the second time there is nothing left to put on record
        said = polyc(root, "erase", "conv-a", *which)
        assert said.code == 0, said.err
        assert spent(root, "--persona", "ada") == [("10000", "500", 1)]
        assert spent(root, "--wallet", PAYER) == [("10000", "500", 1)]
        assert spent(root, "--conversation", "conv-a") == [("10000", "0", 1)]
    assert kinds(root, "spend-ada") == ["spend_reserved", "spend_reserved", "spend_released"]


def test_a_receipt_of_an_erased_payment_settles_no_other_one(root: Path) -> None:
    receipt = jws(claims(issuedAt=issued_now()))
    assert polyc(root, "erase", "conv-a").code == 0
    with opened(DataRoot(root)) as deployment:
        spending = spending_of(deployment)
        before = spending.settled_before("jws", receipt, index=deployment.journal.size())
    assert before is not None
    assert before.partition == "conv-a"


def test_a_poison_event_does_not_keep_its_conversation_from_being_erased(root: Path) -> None:
    with opened(DataRoot(root)) as deployment:
        poison = Draft(BY_KIND["approval_decided"].code, b'{"type":"approval_decided"}')
        deployment.author("control").append("conv-a", [poison])
    said = polyc(root, "erase", "conv-a")
    assert said.code == 0, said.err
    assert "warning: conv-a@" in said.err
    assert spent(root, "--conversation", "conv-a") == []


def test_an_erased_conversation_that_spent_nothing_leaves_nothing(root: Path) -> None:
    for _ in range(2):
        assert polyc(root, "erase", "conv-forged").code == 0
    assert spent(root, "--conversation", "conv-forged") == []


@pytest.mark.parametrize("partition", ["spend-ada", "budgets", "sys-keys"])
def test_what_was_spent_and_what_may_be_is_not_erased(root: Path, partition: str) -> None:
    budget = ("budget", "set", "--persona", "ada", "--asset", "usdc", "--network", NETWORK, "--amount", "1")
    assert polyc(root, "persona", "create", "ada").code == 0
    assert polyc(root, *budget).code == 0
    before = kinds(root, partition)
    said = polyc(root, "erase", partition)
    assert (said.code, "cannot be erased" in said.err) == (1, True), said.err
    assert kinds(root, partition) == before


class Forging:
    """A reader that gives the entries of one type other signatures, as somebody with the disk could."""

    def __init__(self, reader: SqliteJournal, *, event_type: int) -> None:
        self._reader = reader
        self._event_type = event_type
        self.origin = reader.origin

    def read_signed(self, partition: str, *, from_position: int = 1) -> Iterator[SignedRecords]:
        """The appends, those that end with the type not signed by their author."""
        for signed in self._reader.read_signed(partition, from_position=from_position):
            forged = signed.records[-1].event_type == self._event_type
            yield msgspec.structs.replace(signed, signature=bytes(64)) if forged else signed


@pytest.mark.parametrize(
    ("event", "is_looked_at"),
    [
        (e.PaymentReceipt, True),
        (e.PaymentRequired, True),
        (e.ApprovalDecided, True),
        (e.TurnStart, True),
        (e.ToolCall, False),
    ],
)
def test_what_money_hangs_on_is_read_with_its_authors_signature_only(
    root: Path, event: type[e.Event], *, is_looked_at: bool
) -> None:
    code = BY_KIND[str(event.__struct_config__.tag)].code
    with boot.open_embedded(DataRoot(root), clock=SystemClock(), ids=SystemIds()) as journal:
        keys = journal.keyring()
        true = list(read_vouched(journal, "conv-a", keys=keys))
        assert true == list(journal.read("conv-a"))
        assert list(read_vouched(journal, "conv-a", keys=keys, from_position=4)) == true[3:]
        forging = Forging(journal, event_type=code)
        if not is_looked_at:
            assert list(read_vouched(forging, "conv-a", keys=keys)) == true
            return
        with pytest.raises(CorruptError) as caught:
            list(read_vouched(forging, "conv-a", keys=keys))
        assert caught.value.kind == "signature"
        place = next(record.position for record in true if record.event_type == code)
        assert caught.value.place.endswith(f"@{place}")
