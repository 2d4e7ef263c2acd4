"""The door of every fold: records in order, from keys that may author them, decoded once, handed to their route.

What folds into nothing — an unknown type, an author without the role at the record's log index (ruling 3), an erased
payload, a type that does not belong in this partition — is counted as an anomaly. A gap or a payload that does not
fit its type is a fault of the partition: CorruptError, with the place named.
The importer's key counts only in a partition whose first event declares an imported origin.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from facts.anomalies import Anomalies
from facts.codec import DECODERS, MALFORMED, malformed
from facts.trust import Trust
from polyc.entry import Record
from polyc.errors import CorruptError
from polyc.vocabulary import BY_CODE, BY_KIND, PARTITION_ROLES, may_author

OPENED: Final = BY_KIND["conversation_opened"].code
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FOREVER: Final = 2**63
_NOTHING: Final[frozenset[int]] = frozenset()
_OPENING: Final = frozenset({OPENED})

Handle = Callable[[Any, Record], None]
_Decode = Callable[[Any], Any]
# How a type of a key's events is taken: at log indexes in [first, end), decoded so, handled so.
_Route = tuple[int, int, _Decode, Handle]


def instant(us: int) -> datetime:
    """Microseconds since 1970 as an aware datetime; exact until 2255, when a double's microseconds end."""
    return datetime.fromtimestamp(us / 1_000_000, UTC)


def utc(at: datetime | None) -> datetime | None:
    """The instant in UTC; None for none, and for one that leaves the calendar when it is moved to UTC.

    >>> utc(datetime.fromisoformat("2026-01-01T01:00:00+01:00")).isoformat()
    '2026-01-01T00:00:00+00:00'
    """
    if at is None or at.tzinfo is UTC:
        return at
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return None


class Standing(msgspec.Struct):
    """Where the fold stands in its partition."""

    incarnation: bytes = b""
    position: int = 0
    imported: bool = False


class Intake:
    """Takes the records of one partition and hands each event to the handler of its type, with its record."""

    __slots__ = (
        "_anomalies", "_at_us", "_handler_of", "_passing", "_prefix", "_routes", "_trust",
        "at", "incarnation", "partition", "standing",
    )  # fmt: skip

    def __init__(
        self,
        partition: str,
        trust: Trust,
        *,
        standing: Standing,
        anomalies: Anomalies,
        handler_of: Callable[[int], Handle | None],
        passing: bool = False,
    ) -> None:
        self.partition = partition
        self.standing = standing
        self.incarnation = standing.incarnation.hex()
        self.at = _EPOCH
        self._anomalies = anomalies
        self._at_us = 0
        self._trust = trust
        self._handler_of = handler_of  # of a type that belongs in this partition
        self._passing = passing  # types without a handler are passed over, not counted
        self._prefix: str | None = None  # the partition's in `PARTITION_ROLES`, looked up when first asked for
        self._routes: dict[bytes, dict[int, _Route]] = {}  # by key and type, made when first met

    def starts(self, record: Record) -> bool:
        """Whether the record is the first of an incarnation other than the one in hand."""
        return record.position == 1 and record.incarnation != self.standing.incarnation

    def take(self, record: Record) -> None:
        """Take the next record; each once, repeats are passed over."""
        standing = self.standing
        position = standing.position + 1
        if record.position != position or record.incarnation != standing.incarnation:
            self._out_of_order(record)
            return
        standing.position = position
        recorded_at_us = record.recorded_at_us
        if recorded_at_us != self._at_us:
            self._at_us = recorded_at_us
            self.at = instant(recorded_at_us)
        try:
            first, end, decode, handle = self._routes[record.key_id][record.event_type]
        except KeyError:
            route = self._route(record)
            if route is None:
                return
            first, end, decode, handle = route
        if not first <= record.index < end:
            self.count("unauthorised", record)
            return
        try:
            event = decode(record.payload)
        except MALFORMED:
            raise malformed(record.event_type, place=f"{self.partition}@{record.position}") from None
        except TypeError:
            assert record.payload is None, "only an erased payload is not bytes"
            self.count("erased", record)
            return
        handle(event, record)

    def open(self, *, imported: bool) -> None:
        """The first event has declared where the conversation comes from."""
        self.standing.imported = imported
        self._routes.clear()

    def count(self, kind: str, record: Record, *, turn: str | None = None) -> None:
        """Count a record that folds into nothing, or that is odd."""
        known = BY_CODE.get(record.event_type)
        detail = str(record.event_type) if known is None else known.kind
        self._anomalies.count(kind, detail, position=record.position, at=self.at, turn=turn)

    def _out_of_order(self, record: Record) -> None:
        standing = self.standing
        if record.incarnation == standing.incarnation and record.position <= standing.position:
            return
        expected = f"expected position {standing.position + 1} of the incarnation in hand"
        raise CorruptError(expected, place=f"{self.partition}@{record.position}", kind="order")

    def _route(self, record: Record) -> _Route | None:
        """How the record's type is taken when its key may author it; None, and counted, when it folds into nothing."""
        code = record.event_type
        handle = self._handler_of(code)
        key = self._trust.keys.get(record.key_id)
        if handle is not None and key is not None and code in self._authored(key.role):
            end = _FOREVER if key.to_index is None else key.to_index
            route = (key.from_index, end, DECODERS[code].decode, handle)
            if record.position > 1:  # what the first record may be differs
                self._routes.setdefault(record.key_id, {})[code] = route
            return route
        if not (self._passing and handle is None):
            misfit = "misplaced" if handle is None else "unauthorised"
            self.count(misfit if code in BY_CODE else "unknown_event", record)
        return None

    def _authored(self, role: str) -> frozenset[int]:
        if role == "importer" and self.partition.startswith("conv-") and not self.standing.imported:
            return _OPENING if self.standing.position == 1 else _NOTHING
        if self._prefix is None:
            self._prefix = next(prefix for prefix, _ in PARTITION_ROLES if self.partition.startswith(prefix))
        return _authored(role, self._prefix)


@lru_cache(maxsize=256)
def _authored(role: str, prefix: str) -> frozenset[int]:
    """The types that a role may author in the partitions with this prefix of `PARTITION_ROLES`."""
    return frozenset(code for code in DECODERS if may_author(role, code=code, partition=prefix))
