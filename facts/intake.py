"""The door of every fold: records in order, from keys that may author them, decoded once, handed to their handler.

What folds into nothing — an unknown type, an author without the role at the record's log index (ruling 3), an erased
payload, a type that does not belong in this partition — is counted as an anomaly. A gap or a payload that does not
fit its type is a fault of the partition: CorruptError, with the place named, and the fold stands at the record before.
The importer's key counts only in a partition whose first event declares an imported origin.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
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

Handle = Callable[[Any, Any, Record], None]  # of a fold: takes the event of a record
_Routes = Mapping[int, tuple[Callable[[Any], Any], Handle]]  # how an event type is decoded and taken
_Admitted = tuple[int, int, _Routes]  # the log indexes [first, end) in which a key's events count, and their routes
_NOBODY: Final[_Admitted] = (0, 0, {})


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
    """Where the fold stands in its partition: `position` is that of the last record taken wholly."""

    incarnation: bytes = b""
    position: int = 0
    imported: bool = False


class Handlers:
    """What takes the events of each type in one kind of fold; made once, at import."""

    __slots__ = ("_handlers", "_routes")

    def __init__(self, handlers: Mapping[int, Handle]) -> None:
        self._handlers = handlers
        self._routes: dict[tuple[str, str], _Routes] = {}  # by role and prefix: a few dozen

    def __contains__(self, event_type: int) -> bool:
        return event_type in self._handlers

    def authored(self, role: str, prefix: str) -> _Routes:
        """How the types are taken that a role may author in the partitions with this prefix of `PARTITION_ROLES`."""
        routes = self._routes.get((role, prefix))
        if routes is None:
            routes = self._routes[role, prefix] = {
                code: (DECODERS[code].decode, handle)
                for code, handle in self._handlers.items()
                if may_author(role, code=code, partition=prefix)
            }
        return routes


class Intake:
    """Takes the records of one incarnation and hands each event to the handler of its type, with its record.

    The handlers are functions of the fold, which is passed in: nothing here refers back to it, so that a fold that
    is dropped is freed at once, without the cycle collector.
    """

    __slots__ = (
        "_anomalies", "_at_us", "_handlers", "_passing", "_prefix", "_trust",
        "at", "incarnation", "partition", "standing",
    )  # fmt: skip

    def __init__(
        self,
        partition: str,
        trust: Trust,
        *,
        standing: Standing,
        anomalies: Anomalies,
        handlers: Handlers,
        passing: bool = False,
    ) -> None:
        self.partition = partition
        self.standing = standing
        self.incarnation = standing.incarnation.hex()
        self.at = _EPOCH
        self._at_us = 0
        self._anomalies = anomalies
        self._trust = trust
        self._handlers = handlers  # of the types that belong in this partition
        self._passing = passing  # types without a handler are passed over, not counted
        self._prefix = next(prefix for prefix, _ in PARTITION_ROLES if partition.startswith(prefix))

    def take(self, records: Iterable[Record], fold: object) -> Record | None:
        """Take records in order, repeats passed over, up to one that starts another incarnation; hand that one back.

        The hot path of every replay: what does not change from record to record is looked up before the loop. What
        a key may author is looked up anew in every call, so that a ring that learns of a revocation is heeded.
        """
        standing, partition = self.standing, self.partition
        incarnation, following = standing.incarnation, standing.position + 1
        admitted: dict[bytes, _Admitted] = {}
        key_id: bytes | None = None
        first, end, routes = _NOBODY
        try:
            for record in records:
                if record.position != following or record.incarnation != incarnation or record.partition != partition:
                    if record.partition != partition:
                        raise self._foreign(record)
                    if record.incarnation == incarnation and record.position < following:
                        continue
                    if record.position == 1:
                        return record
                    raise self._gap(record, following)
                if record.recorded_at_us != self._at_us:
                    self._at_us = record.recorded_at_us
                    self.at = instant(self._at_us)
                if record.key_id != key_id:
                    key_id = record.key_id
                    if key_id not in admitted:
                        admitted[key_id] = self._admit(key_id, opening=following == 1)
                    first, end, routes = admitted[key_id]
                    if following == 1:  # the first event says whose the others may be
                        key_id = None
                        admitted.clear()
                route = routes.get(record.event_type)
                if route is None or not first <= record.index < end:
                    self._turn_away(record)
                elif record.payload is None:
                    self.count("erased", record)
                else:
                    decode, handle = route
                    try:
                        event = decode(record.payload)
                    except MALFORMED:
                        raise malformed(record.event_type, place=f"{self.partition}@{record.position}") from None
                    handle(fold, event, record)
                following += 1
        finally:
            standing.position = following - 1
        return None

    def open(self, *, imported: bool) -> None:
        """The first event has declared where the conversation comes from."""
        self.standing.imported = imported

    def count(self, kind: str, record: Record, *, turn: str | None = None) -> None:
        """Count a record that folds into nothing, or that is odd."""
        known = BY_CODE.get(record.event_type)
        detail = str(record.event_type) if known is None else known.kind
        self._anomalies.count(kind, detail, position=record.position, at=self.at, turn=turn)

    def _foreign(self, record: Record) -> CorruptError:
        place = f"{record.partition}@{record.position}"
        return CorruptError(f"not a record of {self.partition}", place=place, kind="foreign")

    def _gap(self, record: Record, following: int) -> CorruptError:
        expected = f"expected position {following} of the incarnation in hand"
        return CorruptError(expected, place=f"{self.partition}@{record.position}", kind="order")

    def _turn_away(self, record: Record) -> None:
        """Count a record whose type does not belong here, or whose key may not author it."""
        if record.event_type in self._handlers:
            self.count("unauthorised", record)
        elif not self._passing:
            self.count("misplaced" if record.event_type in BY_CODE else "unknown_event", record)

    def _admit(self, key_id: bytes, *, opening: bool) -> _Admitted:
        """What a key may author; of an importer's the first event, and the others when that has declared an import."""
        key = self._trust.keys.get(key_id)
        if key is None:
            return _NOBODY
        routes = self._handlers.authored(key.role, self._prefix)
        if key.role == "importer" and self.partition.startswith("conv-") and not self.standing.imported:
            routes = {OPENED: routes[OPENED]} if opening and OPENED in routes else {}
        return key.from_index, _FOREVER if key.to_index is None else key.to_index, routes
