"""The fold of a deployment-wide partition: keys, personas, routines, credentials, query audit, imports, budgets.

Which partition folds into what stands in one table; an event that stands in a partition of another kind is counted
as misplaced. The journal's notices may stand in any of them.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from facts.anomalies import Anomalies
from facts.budgets import Budgets
from facts.events import Erased, Gap, Recovery
from facts.fold import Rows
from facts.intake import Handlers, Intake, Standing
from facts.keys import SignerKeys
from facts.notices import Notices
from facts.place import Place
from facts.query_audit import QueryAudit
from facts.registry import Credentials, Imports, Personas, Prices, Routines, Wallets
from facts.trust import Trust
from polyc.entry import Record
from polyc.errors import CorruptError
from polyc.vocabulary import BY_KIND


class Registry(Protocol):
    """The fold of one kind of partition."""

    def apply(self, event: Any, place: Place) -> str | None:
        """Take an event; the kind of anomaly when it changes nothing (or is odd)."""

    def rows(self) -> Rows:
        """The tables as they stand."""


class Nothing(msgspec.Struct):
    """A partition whose events this version folds into nothing."""

    def apply(self, _event: Any, _place: Place) -> str | None:
        """Take nothing: no type of event belongs here, the intake counts them as misplaced."""
        raise AssertionError("no event belongs in such a partition")

    def rows(self) -> Rows:
        """No table."""
        return {}


class Kind(NamedTuple):
    """A kind of partition: its name (a prefix, when it ends with `-`), its events, its fold."""

    prefix: str
    events: tuple[str, ...]
    fold: type[Any]

    def holds(self, partition: str) -> bool:
        """Whether the partition is of this kind."""
        return partition.startswith(self.prefix) if self.prefix.endswith("-") else partition == self.prefix


KINDS: Final = (
    Kind("sys-keys", ("key_added", "key_revoked"), SignerKeys),
    Kind("personas", ("persona_recorded",), Personas),
    Kind("routines", ("routine_recorded", "routine_run", "routine_step"), Routines),
    Kind("credentials-", ("credential",), Credentials),
    Kind("query-audit-", ("query_intent", "query_outcome"), QueryAudit),
    Kind("imports", ("import_quarantined",), Imports),
    Kind("wallets", ("wallet_link",), Wallets),
    Kind("spend-", ("spend_reserved", "spend_released"), Budgets),
    Kind("budgets", ("budget_set",), Budgets),
    Kind("prices", ("price_set",), Prices),
)
NOTICES: Final = ("gap", "recovery", "erased")
_OTHER: Final = Kind("", (), Nothing)


def kind_of(partition: str) -> Kind:
    """Which kind of partition a name is."""
    return next((kind for kind in KINDS if kind.holds(partition)), _OTHER)


class DeploymentFold:
    """A `facts.fold.Fold` over one deployment-wide partition."""

    __slots__ = ("_anomalies", "_intake", "_kind", "_notices", "_partition", "_registry", "_trust")

    def __init__(self, partition: str, trust: Trust) -> None:
        self._partition = partition
        self._trust = trust
        self._kind = kind_of(partition)
        self._hold(Standing(), Anomalies(), Notices(partition, ""), self._kind.fold())

    def _hold(self, standing: Standing, anomalies: Anomalies, notices: Notices, registry: Registry) -> None:
        self._anomalies, self._notices, self._registry = anomalies, notices, registry
        handlers = _HANDLERS[self._kind.prefix]
        self._intake = Intake(self._partition, self._trust, standing=standing, anomalies=anomalies, handlers=handlers)

    @property
    def position(self) -> int:
        """The position of the last record that was applied wholly; 0 before the first."""
        return self._intake.standing.position

    def apply(self, record: Record) -> None:
        """Take the next record; CorruptError (with its place) for a poison event."""
        self.apply_all((record,))

    def apply_all(self, records: Iterable[Record]) -> None:
        """Take the next records; CorruptError (with its place) for a poison event, those before it are applied."""
        rest = iter(records)
        while (start := self._intake.take(rest, self)) is not None:
            name = start.incarnation.hex()
            self._hold(Standing(start.incarnation), Anomalies(), Notices(self._partition, name), self._kind.fold())
            self._intake.take((start,), self)

    @property
    def registry(self) -> Registry:
        """The fold of the partition's own kind of events."""
        return self._registry

    def register(self, event: Any, record: Record) -> None:
        """Take an event of the partition's own kind."""
        intake = self._intake
        place = Place(self._partition, intake.incarnation, record.position, record.index, intake.at)
        if kind := self._registry.apply(event, place):
            intake.count(kind, record)

    def noticed(self, event: Gap | Recovery | Erased, record: Record) -> None:
        """Take a notice of the journal."""
        self._notices.notice(event, record.position, self._intake.at)

    def rows(self) -> Rows:
        """The rows of every table that the partition fills."""
        return {
            **self._registry.rows(),
            "journal_notices": list(self._notices.entries),
            "anomalies": self._anomalies.rows(self._partition, self._intake.incarnation),
        }

    def snapshot(self) -> bytes:
        """The fold's state; an optimisation, never evidence."""
        state = (self._partition, self._intake.standing, self._anomalies, self._notices, self._registry)
        return msgspec.msgpack.encode(state)

    @classmethod
    def resume(cls, partition: str, trust: Trust, snapshot: bytes) -> "DeploymentFold":
        """The fold as it was when the snapshot was taken; CorruptError when it is not one of this partition."""
        fold = cls(partition, trust)
        shape: Any = tuple.__class_getitem__((str, Standing, Anomalies, Notices, fold._kind.fold))
        try:
            name, *state = msgspec.msgpack.decode(snapshot, type=shape)
        except (msgspec.DecodeError, RecursionError):
            raise CorruptError("not a snapshot of this fold", place=partition, kind="snapshot") from None
        if name != partition:
            raise CorruptError("snapshot of another partition", place=partition, kind="snapshot")
        fold._hold(*state)
        return fold


def _handlers(kind: Kind) -> Handlers:
    own = {BY_KIND[name].code: DeploymentFold.register for name in kind.events}
    return Handlers(own | {BY_KIND[name].code: DeploymentFold.noticed for name in NOTICES})


_HANDLERS: Final = {kind.prefix: _handlers(kind) for kind in (*KINDS, _OTHER)}
