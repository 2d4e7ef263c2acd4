"""Whatever an author may sign, the rows of it fit their columns: else one event would stop every partition's publishing.

A fold that raises stops its own partition alone; a value that no column can hold would be found only by the writer.
"""

import builtins
import datetime as dt
import json
import types
import typing

import msgspec
import pytest

from facts import events as e
from facts.events import AnyEvent
from facts.receipts import CALENDAR_END_S
from polyc.keyring import KeyAdded, KeyRevoked, LogIndex
from polyc.vocabulary import BY_KIND, ROLES, may_author
from tests.facts.fitting import fitting, published
from tests.facts.journal import SIGNERS, Journal, anomalies, column
from tests.facts.payment import ISSUED_AT, claims, jws, paid, paying, trust

PARTITIONS = (
    "conv-a", "sys-keys", "personas", "routines", "credentials-202611", "query-audit-e-20261101", "imports", "wallets",
    "spend-ada", "budgets", "prices",
)  # fmt: skip
SMALLEST, LARGEST = -(2**63), 2**63 - 1
EXTREMES = [
    (SMALLEST, "0001-01-01T00:00:00Z", ""),
    (LARGEST, "9999-12-31T23:59:59.999999Z", "\x00\uffff\U0010ffff\u202e"),
    (0, "0001-01-01T00:00:00+14:00", "#2"),
]


def extreme(kind, integer, instant, text):
    """A value of a member's type: the integer, the instant or the text, or what else it may be."""
    parts = typing.get_args(kind)
    match typing.get_origin(kind) or kind:
        case builtins.tuple:
            return [extreme(parts[0], integer, instant, text)] * 2
        case types.UnionType | typing.Union:
            return extreme(parts[0], integer, instant, text)
        case typing.Literal:
            return parts[0]
        case typing.Annotated if parts[0] is int:
            return max(integer, 0) if kind is LogIndex else integer
        case typing.Annotated:
            return extreme(parts[0], integer, instant, text)
        case builtins.str:
            return text
        case builtins.bool:
            return True
        case dt.datetime:
            return instant
    return members(kind, integer, instant, text)


def members(struct, integer, instant, text):
    hints = typing.get_type_hints(struct, include_extras=True)
    value = {name: extreme(hints[name], integer, instant, text) for name in struct.__struct_fields__}
    if struct.__struct_config__.tag is not None:
        value["type"] = struct.__struct_config__.tag
    return value


def told(event, partition, values):
    """The event with extreme values, in a turn of this partition where it has one."""
    value = members(event, *values)
    value |= {name: "t1" for name in ("turn_id",) if name in value}
    value |= {name: "d1" for name in ("dispatch_id",) if name in value}
    if "turn" in value:
        value["turn"] = {"conversation_id": partition, "turn_id": "t2"}
    return msgspec.json.encode(value)


@pytest.mark.parametrize("values", EXTREMES, ids=["smallest", "largest", "nothing"])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_rows_of_extreme_events_fit_their_columns(partition, values):
    journal = Journal(partition)
    if partition == "conv-a":
        journal.open().intend(persona_id="ada").start()
    before = len(journal.records)
    for event in (*AnyEvent.__args__, *AnyEvent.__args__):
        code = BY_KIND[event.__struct_config__.tag].code
        by = next(
            (role for role in ROLES if role in SIGNERS and may_author(role, code=code, partition=partition)), None
        )
        if by is not None and event is not e.TurnComplete:
            journal.raw(code, told(event, partition, values), by=by)
    assert len(journal.records) > before + 1
    if partition == "conv-a":
        journal.end().raw(BY_KIND["turn_complete"].code, told(e.TurnComplete, partition, values))
    assert published(fitting(journal, trust()))


def test_the_writer_would_notice_what_does_not_fit():
    rows = Journal().open().start().end().rows()
    with pytest.raises(OverflowError):
        published({"turns": [(*rows["turns"][0][:14], 2**63, *rows["turns"][0][15:])]})
    with pytest.raises(UnicodeEncodeError):
        published({"turns": [(*rows["turns"][0][:16], "\ud800", *rows["turns"][0][17:])]})


@pytest.mark.parametrize(
    "receipt",
    [
        jws(kid="\ud800"),
        jws(claims(transaction="\ud800")),
        jws(claims(payer="\udc00", note="\ud83d\ude00")),
        jws(claims(issuedAt=CALENDAR_END_S)),
        jws(claims(issuedAt=CALENDAR_END_S - 1)),
        jws(claims(issuedAt=2**39)),
        jws(json.dumps(claims()).replace(str(ISSUED_AT), "9" * 5000).encode()),
        jws(claims(amount="9" * 5000)),
    ],
)
def test_no_receipt_says_what_no_column_can_hold(receipt):
    rows = fitting(paid(paying(payer=None), receipt).end(), trust())
    assert column(rows, "settlement_verdicts", "verdict")[0] in {"malformed", "expired", "amount_mismatch"}


@pytest.mark.parametrize("stated", [LARGEST, SMALLEST])
def test_a_sessions_duration_that_no_integer_can_hold_is_unknown(stated):
    rows = fitting(Journal().open().start("a").end("a", duration_ms=stated).start("b").end("b", duration_ms=stated))
    assert column(rows, "turns", "duration_ms") == [stated, stated]
    assert column(rows, "sessions", "duration_ms") == [None]


@pytest.mark.parametrize("index", [-1, 2**63, 2**70])
def test_a_key_holds_between_indexes_of_a_log(index):
    control = SIGNERS["control"]
    added = KeyAdded(
        id="1", key_id=control.key_id.hex(), public_key=control.public_key.hex(), role="control", from_index=index
    )
    revoked = KeyRevoked(id="2", key_id=control.key_id.hex(), from_index=index)
    for event in (added, revoked):
        journal = Journal("sys-keys")
        journal.raw(BY_KIND[event.__struct_config__.tag].code, msgspec.json.encode(event), by="root")
        with pytest.raises(Exception, match="payload is not a"):
            journal.rows()


def test_extreme_events_are_taken_and_not_only_turned_away():
    journal = Journal().open().intend().start()
    journal.raw(BY_KIND["usage"].code, told(e.Usage, "conv-a", EXTREMES[1]), by="harness")
    rows = fitting(journal.end())
    assert column(rows, "usage", "input_tokens") == [LARGEST]
    assert anomalies(rows) == {}
